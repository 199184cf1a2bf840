"""Checks of the constant scales of a quantized model, done before any target reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto

from .attributes import contradiction
from .model.tensor_arrays import Bytes, tensor_array

_LARGE = 1e36
"""Scales below this bound keep dequantized 8-bit numbers finite in float32."""
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)


def check_scales(label: str, model: onnx.ModelProto, weights: Mapping[int, Bytes]) -> None:
    """Raises NodeError for constant scales that are not positive, finite and normal float32 numbers, for an empty
    scale, and for a wrong number of zero points. Also raises it for 8-bit constants that become infinite when
    dequantized.

    `label`: the file's name in messages. `weights`: bytes of the initializers stored apart from the model, by
    initializer number. Two exceptions: the scales of a constant may be negative, since ONNX Runtime writes negative
    scales for symmetric weights of 4 bits; the scale of a constant of 32-bit integers (a bias) may be subnormal."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    apart = {model.graph.initializer[number].name: data for number, data in weights.items()}
    for node in model.graph.node:
        if node.op_type == "Constant":
            values = [item.t for item in node.attribute if item.name == "value"]
            constants |= dict(zip(node.output, values, strict=False))
    for number, node in enumerate(model.graph.node):
        data = constants.get(node.input[0]) if node.input else None
        bias = node.op_type == "DequantizeLinear" and data is not None and data.data_type == TensorProto.INT32
        least = 0.0 if bias else float(np.finfo(np.float32).smallest_normal)
        for name in _scale_names(node):
            tensor = constants.get(name)
            if tensor is None or tensor.data_type not in _FLOATS:
                continue
            try:
                with np.errstate(over="ignore"):
                    scale = tensor_array(tensor, apart.get(name)).astype(np.float32)
            except (ValueError, TypeError):
                continue  # A damaged tensor is reported by the importer.
            if node.op_type == "DequantizeLinear" and data is not None:
                scale = np.abs(scale)
            _check_counts(label, node, number, scale.size, constants)
            # `low` and `high` are NaN if any scale is, and comparisons with NaN are false.
            low, high = scale.min(initial=1.0), scale.max(initial=1.0)
            if not (low > 0 and low >= least and high < np.inf):
                usable = np.isfinite(scale) & (scale > 0) & (scale >= least)
                problem = (
                    f"its scale is not a positive finite number: '{name}' holds {scale[~usable].flat[0]}"
                )
                raise contradiction(label, node, number, problem, "calibrate the model again")
            if data is not None and not bias and high > _LARGE:
                _check_finite(label, node, number, tensor_array(data, apart.get(node.input[0])), scale)


def _check_counts(
    label: str, node: NodeProto, number: int, scales: int, constants: Mapping[str, TensorProto]
) -> None:
    """Raises NodeError if a node has no scale (`scales`, the number of its scales, is 0). Also raises it for a
    QuantizeLinear or DequantizeLinear whose number of constant zero points is neither 1 nor `scales`. For messages,
    `label` is the file and `number` the node's index.
    """
    problem = None if scales else "has an empty tensor as its scale"
    if node.op_type in ("QuantizeLinear", "DequantizeLinear") and len(node.input) > 2:
        zero_point = constants.get(node.input[2])
        if zero_point is not None and (zeros := prod(zero_point.dims)) not in (1, scales):
            problem = (
                problem or f"has {zeros} zero points for {'one scale' if scales == 1 else f'{scales} scales'}"
            )
    if problem is not None:
        way_out = "give one scale or more, and one zero point for each"
        raise contradiction(label, node, number, problem, way_out)


def _check_finite(
    label: str, node: NodeProto, number: int, data: np.ndarray, scale: NDArray[np.float32]
) -> None:
    """Raises NodeError if `node` dequantizes 8-bit constants to infinity, that is, if the largest magnitude of the
    constants (`data`) times the largest `scale` overflows float32. For messages, `label` is the file and `number` the
    node's index."""
    if node.op_type != "DequantizeLinear" or data.dtype not in (np.int8, np.uint8):
        return
    largest = int(np.abs(data.astype(np.int16)).max(initial=0))
    if float(scale.max()) * largest > float(np.finfo(np.float32).max):
        problem = f"its scale {scale.max()} makes constants infinite"
        raise contradiction(label, node, number, problem, "calibrate the model again")


def _scale_names(node: NodeProto) -> Iterator[str]:
    """Names of the inputs that may be scales. For QLinear operators all inputs are listed: their only float inputs are
    scales."""
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        yield from node.input[1:2]
    elif node.op_type.startswith("QLinear") or node.op_type == "QGemm":
        yield from node.input

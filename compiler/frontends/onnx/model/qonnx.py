"""QONNX's Quant nodes as QuantizeLinear and DequantizeLinear.

Quant computes (round(clip(x / scale + zero_point, low, high)) - zero_point) * scale; low and high are determined by the
number of bits (github.com/fastmachinelearning/qonnx, docs/qonnx-custom-ops/quant_op.md). A Quant of a constant becomes
integers and a DequantizeLinear. Any other Quant becomes Clip, QuantizeLinear and DequantizeLinear; the Clip is left out
if low and high are the bounds of the 8-bit type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ....graph.errors import ModelError
from .foreign_domains import is_qonnx
from .tensor_arrays import Bytes, tensor_array

OPERATOR = "Quant"
MOST_BITS = 8
"""Largest number of bits of activations. Constants, such as biases, may have 32 bits."""


def replace_quant(label: str, model: onnx.ModelProto, weights: Mapping[int, Bytes]) -> None:
    """Replaces the Quant nodes of a model; `label` names the model in messages.

    `weights`: bytes of the initializers that are stored apart from the model, by the initializer's position. Raises
    ModelError for a Quant in which the scale, zero point or number of bits is not constant. Also raises it for a zero
    point that is not an integer, for a rounding other than to the nearest even integer, for scales along several axes,
    and for too many bits.
    """
    constants: dict[str, tuple[onnx.TensorProto, Bytes | None]] = {
        entry.name: (entry, weights.get(number)) for number, entry in enumerate(model.graph.initializer)
    }
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t, None
    kept: list[onnx.NodeProto] = []
    for number, node in enumerate(model.graph.node):
        if node.op_type != OPERATOR or not is_qonnx(node.domain):
            kept.append(node)
            continue
        name = node.name or f"{OPERATOR}_{number}"
        arrays = {key: tensor_array(*constants[key]) for key in node.input if key in constants}
        try:
            nodes, initializers = _replaced(node, name, arrays)
        except ValueError as error:
            raise ModelError(f"{label}: node '{name}' (Quant): {error}") from None
        kept += nodes
        model.graph.initializer.extend(
            numpy_helper.from_array(array, key) for key, array in initializers.items()
        )
    replaced = onnx.GraphProto(node=kept)  # a copy: deleting the model's nodes empties the kept ones
    del model.graph.node[:]
    model.graph.node.extend(replaced.node)


def _replaced(
    node: onnx.NodeProto, name: str, constants: Mapping[str, np.ndarray]
) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray]]:
    """Returns the nodes that replace the Quant `node`, and the nodes' constants by name. The names of nodes and
    constants begin with `name`. `constants`: the model's constants. Raises ValueError for an unsupported Quant.
    """
    if len(node.input) != 4:
        raise ValueError(
            f"has {len(node.input)} inputs; a Quant has four: data, scale, zero point and number of bits"
        )
    data, *parameters = node.input
    if unknown := [key for key in parameters if key not in constants]:
        raise ValueError(
            f"its input '{unknown[0]}' is not constant; export scale, zero point and bits as constants"
        )
    scale, zero_point, bits = (constants[key] for key in parameters)
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    rounding = attributes.get("rounding_mode", b"ROUND").decode().upper()
    if rounding not in ("ROUND", "HALF_EVEN"):
        raise ValueError(f"rounding_mode {rounding} is not supported; export the model with ROUND")
    low, high = _bounds(float(bits.reshape(-1)[0]), attributes)
    signed = low < 0
    axis, scale, zeros = _per_axis(scale, zero_point)
    axes: dict[str, Any] = {} if axis is None else {"axis": axis}
    if data in constants:
        kind = np.dtype(np.int8 if signed else np.uint8) if high < 1 << MOST_BITS else np.dtype(np.int32)
        shape = [-1 if k == axis else 1 for k in range(constants[data].ndim)]
        exact = constants[data] / scale.reshape(shape) + zeros.reshape(shape)
        arrays = {
            f"{name}.integers": np.rint(np.clip(exact, low, high)).astype(kind),
            f"{name}.scale": scale,
            f"{name}.zero_point": zeros.astype(kind),
        }
        made = helper.make_node("DequantizeLinear", list(arrays), node.output, name, **axes)
        return [made], arrays
    kind = np.dtype(np.int8 if signed else np.uint8)
    limits = np.iinfo(kind)
    if high > limits.max:
        raise ValueError(
            f"quantizes an activation to more than {MOST_BITS} bits; quantize activations to 8 bits"
        )
    arrays = {f"{name}.scale": scale, f"{name}.zero_point": zeros.astype(kind)}
    nodes: list[onnx.NodeProto] = []
    if (low, high) != (limits.min, limits.max):
        if scale.size > 1:
            raise ValueError("has several scales for an activation; quantize activations per tensor")
        clipped = f"{name}.clipped"
        bounds = {f"{name}.low": (low - zeros) * scale, f"{name}.high": (high - zeros) * scale}
        arrays |= {key: value.astype(np.float32) for key, value in bounds.items()}
        nodes.append(helper.make_node("Clip", [data, *bounds], [clipped], f"{name}/Clip"))
        data = clipped
    grid = [f"{name}.scale", f"{name}.zero_point"]
    nodes.append(
        helper.make_node("QuantizeLinear", [data, *grid], [f"{name}.q"], f"{name}/QuantizeLinear", **axes)
    )
    nodes.append(helper.make_node("DequantizeLinear", [f"{name}.q", *grid], node.output, name, **axes))
    return nodes, arrays


def _bounds(bits: float, attributes: Mapping[str, int]) -> tuple[int, int]:
    """The least and the greatest integer of a Quant of `bits` bits. `attributes` may contain signed (default 1) and
    narrow (default 0; 1 leaves out the end of the range). Raises ValueError unless `bits` is an integer from 2 to 32.
    """
    if not bits.is_integer() or not 2 <= bits <= 32:
        raise ValueError(
            f"has {bits:g} bits; quantize to a whole number of bits, activations to 2 to 8, constants to 2 to 32"
        )
    signed, narrow = bool(attributes.get("signed", 1)), bool(attributes.get("narrow", 0))
    if signed:
        return -(1 << int(bits) - 1) + narrow, (1 << int(bits) - 1) - 1
    return 0, (1 << int(bits)) - 1 - narrow


def _per_axis(scale: np.ndarray, zero_point: np.ndarray) -> tuple[int | None, np.ndarray, np.ndarray]:
    """Finds the axis of a Quant's scales. Returns (axis, float32 scales, zero points), with a scale and a zero point
    for each index along the axis. For a single scale, returns (None, scale, zero point).

    Raises ValueError for scales along several axes, and for zero points that are not integers.
    """
    if (zero_point != np.rint(zero_point)).any():
        raise ValueError("its zero point is not an integer; export the model with an integer zero point")
    long = [k for k, size in enumerate(scale.shape) if size > 1]
    if len(long) > 1:
        raise ValueError(
            f"has scales of shape {scale.shape}, along several axes; give one scale, or one per channel"
        )
    if not long:
        return None, np.asarray(scale.reshape(-1)[0], np.float32), np.asarray(zero_point.reshape(-1)[0])
    flat = scale.astype(np.float32).reshape(-1)
    return long[0], flat, np.broadcast_to(zero_point.reshape(-1), flat.shape)

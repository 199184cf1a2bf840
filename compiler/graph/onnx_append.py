"""Adding nodes to the integer graph: what the functions of `onnx_emit` have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..te.post import Combination
from .accumulators import whole_steps
from .graph import Node
from .int8_operators import Int8Elementwise, Int8Operator
from .onnx_context import ImportContext
from .onnx_values import Bias, Constant, Pending, Real
from .quantization import Quantization
from .rescaling import fitted_ratio

Clamp = tuple[int, int]
"""Bounds of a result in stored integers."""


def append(
    context: ImportContext,
    pending: Pending,
    name: str,
    operator: Int8Operator,
    inputs: tuple[str, ...],
    output: str,
) -> str:
    """Adds a node for the ONNX nodes of `pending`; returns its output."""
    context.nodes.append(
        Node(
            name=context.node_name(name),
            members=pending.members,
            operator=operator,
            inputs=inputs,
            output=output,
        )
    )
    return output


def append_elementwise(
    context: ImportContext,
    pending: Pending,
    inputs: tuple[str, ...],
    combination: Combination,
    output: str,
    result: Quantization,
) -> str:
    """Adds an element-wise node for the ONNX nodes of `pending`; returns its output."""
    tensor = context.declare(output, context.tensors[inputs[0]].shape, result)
    operator = Int8Elementwise(combination=combination)
    return append(context, pending, pending.members[-1], operator, inputs, tensor)


def emit_rescaled(
    context: ImportContext,
    pending: Pending,
    parts: Sequence[Real],
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> tuple[str, ...]:
    """`emit_rescale` of each of `parts`, to tensors called after `output` with their numbers."""
    return tuple(
        [emit_rescale(context, pending, part, f"{output}.{i}", result, clamp) for i, part in enumerate(parts)]
    )


def emit_rescale(
    context: ImportContext, pending: Pending, data: Real, output: str, result: Quantization, clamp: Clamp
) -> str:
    """Moves `data` to the quantization `result` and clamps it; adds no node where no value can change."""
    source = data.quantization
    if same_integers(source, result):
        if clamp == (-128, 127):
            return data.tensor
        ratio = np.float32(1)
    else:
        ratio = fitted_ratio(source, result)
    combination = Combination(
        kind="rescale",
        ratio_self=float(ratio),
        zero_point_self=source.stored_zero_point,
        zero_point=result.stored_zero_point,
        low=clamp[0],
        high=clamp[1],
    )
    return append_elementwise(context, pending, (data.tensor,), combination, output, result)


def same_integers(a: Quantization, b: Quantization) -> bool:
    """Whether the same integers stand for the same numbers."""
    return a.scale == b.scale and a.stored_zero_point == b.stored_zero_point


def bias_step(scale: np.float32, weight_scale: np.ndarray) -> np.ndarray:
    """One step of a bias, as float64 (O,): the product is that of float32, which quantizers write, where it has one."""
    exact = np.float64(scale) * weight_scale.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        narrow = exact.astype(np.float32)
    normal = np.isfinite(narrow) & (narrow >= np.finfo(np.float32).smallest_normal)
    return np.where(normal, narrow.astype(np.float64), exact)


def bias_of(bias: Bias, step: np.ndarray) -> np.ndarray:
    """The bias as int64 multiples of `step` (float64, input scale x weight scale per channel).

    Integers stand as they are. A dequantized bias stands as it is when its scale is `step`, as the quantizer
    writes it; any other is rounded half to even.
    """
    match bias:
        case None:
            return np.zeros(step.shape, np.int64)
        case Constant(array=array) if array.dtype.kind in "iu":
            return array.astype(np.int64).reshape(-1)
        case Constant(array=array):
            real = array
        case _:
            centred = bias.centred().reshape(-1).astype(np.int64)
            if np.allclose(np.broadcast_to(bias.scale, step.shape), step, rtol=1e-4, atol=0.0):
                return centred
            real = centred * np.broadcast_to(bias.scale.astype(np.float64), step.shape)
    return whole_steps(np.broadcast_to(real.reshape(-1), step.shape).astype(np.float64), step)

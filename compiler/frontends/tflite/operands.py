"""Operands and results of products and windows: constant weights, biases, fused activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from .activations import activate
from .model import Grid, Operator
from .writer import Writer, refuse


def put_activated(
    writer: Writer, operator: Operator, name: str, options: Any, *, planes: bool = False
) -> None:
    """Gives an operator's output its value behind the fused activation of its options."""
    output = operator.outputs[0]
    writer.put(output, activate(writer, output, name, options.FusedActivationFunction()), planes=planes)


def weight_operand(
    writer: Writer, data: int, filters: int, weights: np.ndarray, *, axis: int, last: bool = False
) -> str:
    """Constant weights in ONNX's layout: quantized if the data `data` are, else float. Output channels are the first
    axis, or the `last` one. `axis`: the axis of TFLite's layout along which scales may be.
    """
    tensor, grid = writer.tensor(filters), writer.tensor(filters).grid
    if grid is None:
        return writer.constant(weights.astype(np.float32), tensor.name)
    if not grid.one and grid.axis != axis:
        way_out = f"quantize it along axis {axis}, or with one scale"
        refuse(f"its filter has scales along axis {grid.axis}", way_out)
    if not writer.quantized(data):
        by_channel = (-1,) if last else (-1, *[1] * (weights.ndim - 1))
        real = (weights.astype(np.float32) - grid.zero.reshape(by_channel)) * grid.scale.reshape(by_channel)
        return writer.constant(real.astype(np.float32), tensor.name)
    zero = grid.zero
    if weights.dtype == np.uint8 and (zero == 128).all():
        weights, zero = (weights.astype(np.int16) - 128).astype(np.int8), zero - 128
    name, grid = writer.constant(weights, tensor.name), Grid(scale=grid.scale, zero=zero)
    return writer.dequantized(name, grid, f"{tensor.name}/real", weights.dtype, axis=int(last))


def bias_operands(writer: Writer, given: tuple[int, ...], data: int, filters: int) -> list[str]:
    """The bias of a product, the first tensor of `given`: integers in steps of data scale x weight scale, or float."""
    if not given or given[0] < 0:
        return []
    bias, name = writer.values(given[0], "bias").reshape(-1), writer.tensor(given[0]).name
    step, weight = writer.tensor(data).grid, writer.tensor(filters).grid
    if step is None or weight is None:
        return [writer.constant(bias.astype(np.float32), name)]
    grid = Grid(scale=step.scale * weight.scale, zero=np.zeros_like(weight.zero))
    if np.abs(bias, dtype=np.float64).max(initial=0) < 2**31:
        integers = writer.constant(bias.astype(np.int32), name)
        return [writer.dequantized(integers, grid, f"{name}/real", np.dtype(np.int32))]
    return [writer.constant((bias * grid.scale.astype(np.float64)).astype(np.float32), name)]

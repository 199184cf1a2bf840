"""Resize of a quantized model: repeated elements, or means of neighbours with fixed weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from vdla.isa.arithmetic import average_pool_scale

from ....graph.int8_operators import Interpolation, Neighbours, Resample
from ....graph.operators import Resize
from ....te.ops.resize import AxisTable, axis_table
from ....te.post import Post
from ..attributes import OnnxNode
from ..emit import Rounding, emit, plane_operand, real_operand
from ..integer_context import Edges, ImportContext, pending_result
from ..operations import Opaque
from ..rescaling import rescale
from ..strided_views import check_size, contiguous
from ..values import Integer, Pending, Real
from .integer_moves import moved_to

MOST_WEIGHT = 127
"""Linear interpolation multiplies two neighbouring pixels by int8 weights. The sum of both weights is at most this
number.
"""


def resized(context: ImportContext, node: OnnxNode, operator: Resize, edges: Edges) -> Pending | Integer:
    """The result, of shape `edges.shape`, of a Resize. Mode "linear" interpolates a dequantized tensor. Mode "nearest"
    selects elements of a dequantized tensor, or of an integer tensor, since some quantizers write the Resize before the
    DequantizeLinear.
    """
    value = context.values[edges.inputs[0]]
    if not isinstance(value, Integer) or operator.mode != "nearest":
        if not isinstance(value, Real):
            value = real_operand(context, node, 0, viewed=True)
        return _resized(context, node, value, operator, edges.shape)
    grid = context.tensors[value.tensor].grid
    real = Real(tensor=value.tensor, shape=value.shape, quantization=grid, view=value.view)
    pending = _resized(context, node, real, operator, edges.shape)
    tensor = emit(context, node, pending, node.outputs[0], grid).tensor
    return Integer(tensor=tensor, shape=pending.shape, dtype=value.dtype)


def _resized(
    context: ImportContext, node: OnnxNode, data: Real, resize: Resize, shape: tuple[int, ...]
) -> Pending:
    data = contiguous(context, node, data)
    plane = plane_operand(context, node, data)
    check_size(context, node, (shape[0], *shape[2:]))
    rows, columns = (
        axis_table(
            size,
            outputs,
            scale=scale,
            mode=resize.mode,
            coordinates=resize.coordinates,
            rounding=resize.rounding,
        )
        for size, outputs, scale in zip(plane, shape[2:], resize.scales, strict=True)
    )
    if rows.weight.any() or columns.weight.any():
        rounding = round_interpolated if context.abilities.processor else round_resampled
        rounded = partial(rounding, data=data, rows=rows, columns=columns)
        operation = Opaque(round=rounded, bounds=data.quantization)
    else:
        images = np.arange(shape[0])[:, None, None] * (plane[0] * plane[1])
        operation = moved_to((data,), images + rows.first[:, None] * plane[1] + columns.first)
    return pending_result(node, operation, shape)


def integer_weights(fractions: np.ndarray) -> np.ndarray:
    """Converts the weights of a linear interpolation to integers. Each output lies between two neighbours; `fractions`,
    float32 (O,) from 0 to 1, are the weights of the second neighbour. Returns int8 weights (O, 2) of both neighbours.

    The sum of both weights is the same number for all outputs. It is the smallest number with which integer weights
    represent all fractions with errors below 1e-4. If no number up to `MOST_WEIGHT` does, it is the number with the
    smallest error.
    """
    sums = np.arange(1, MOST_WEIGHT + 1)[:, None]
    exact = fractions.astype(np.float64) * sums
    # The last bits of float32 coordinates are inexact, more of them for long axes.
    errors = (np.abs(exact - np.rint(exact)) / sums).max(axis=1)
    close = np.flatnonzero(errors < 1e-4)
    chosen = int(close[0] if close.size else np.argmin(errors))
    second = np.rint(exact[chosen]).astype(np.int8)
    return np.stack([sums[chosen, 0].astype(np.int8) - second, second], axis=1)


def round_interpolated(
    context: ImportContext, to: Rounding, *, data: Real, rows: AxisTable, columns: AxisTable
) -> str:
    """Adds a node that resizes `data` on a processor; returns the result's name. `rows`, `columns`: neighbours and
    weights of each output row and column.
    """
    shape = context.tensors[data.tensor].nchw
    operator = Interpolation(
        rows=_neighbours(rows, shape[2]),
        columns=_neighbours(columns, shape[3]),
        source=data.quantization,
        grid=to.grid,
        low=to.low,
        high=to.high,
    )
    shape = (*shape[:2], len(rows.first), len(columns.first))
    return to.append(context, operator, (data.tensor,), output=to.output, shape=shape)


def _neighbours(table: AxisTable, size: int) -> Neighbours:
    """The two neighbours of each output of `table`, along an axis of `size` input elements. If the first neighbour is
    the last element, ONNX Runtime reads this element twice, with half of the weight each time.
    """
    second = np.where(table.first == size - 1, np.float32(0.5), table.weight)
    return Neighbours(first=table.first, weight=np.stack([1 - second, second], axis=1))


def round_resampled(
    context: ImportContext, to: Rounding, *, data: Real, rows: AxisTable, columns: AxisTable
) -> str:
    """Adds nodes of an accelerator that resize `data`. The first node resizes columns, and rounds to the input's
    quantization. The second node resizes rows. An axis that does not change needs no node. Returns the name of the
    result's tensor. `rows`, `columns`: neighbours and weights of each output row and column.

    Columns come first because an accelerator stores resized columns one by one, and there are fewer pixels to store
    before the rows are resized.
    """
    source, tensor = data.quantization, data.tensor
    passes = [
        (axis, table.first, integer_weights(table.weight))
        for axis, table in ((1, columns), (0, rows))
        if not np.array_equal(table.first, np.arange(context.tensors[tensor].nchw[axis + 2]))
        or table.weight.any()
    ]
    shape = list(context.tensors[tensor].nchw)
    for number, (axis, first, weight) in enumerate(passes):
        last = number == len(passes) - 1
        grid, total = to.grid if last else source, int(weight[0].sum())
        if np.isclose(source.scale, to.grid.scale) and not last:
            # TFLite's scales of 1 and 1 - 2**-20: both nodes round halves alike, with the same parameters.
            grid = replace(source, scale=to.grid.scale)
        shape[axis + 2] = len(first)
        operator = Resample(
            axis=axis,
            first=first,
            weight=weight,
            bias=-source.stored_zero_point * total,
            scale=average_pool_scale(source.scale, grid.scale, total),
            post=Post(
                zero_point=grid.stored_zero_point, low=to.low if last else -128, high=to.high if last else 127
            ),
        )
        name = to.output if last else f"{to.output}.{'columns' if axis else 'rows'}"
        tensor = replace(to, grid=grid).append(context, operator, (tensor,), output=name, shape=tuple(shape))
    if not passes:
        return rescale(context, data, to)
    return tensor

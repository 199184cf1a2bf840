"""Resize of a quantized model: positions that are repeated, or means of neighbours with fixed weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..te.ops.resize import axis_table
from .floating.onnx_resize import IN_ORDER, read_resize
from .graph import Shape
from .onnx_context import ImportContext, OnnxNode
from .onnx_emit import emit, plane_operand, real_operand
from .onnx_values import Integer, Moved, Operation, Pending, Real, Resampled
from .onnx_views import check_size, elements_of, seen_as, settled
from .operators import Resize


def import_resize(context: ImportContext, node: OnnxNode) -> None:
    """Resize, nearest or linear, of images (N, C, H, W); of integers, as quantizers write it, nearest."""
    value = context.value(node, 0)
    if isinstance(value, Integer) and node.text("mode", "nearest") == "nearest":
        grid = context.tensors[value.tensor].grid
        real = Real(tensor=value.tensor, shape=value.shape, quantization=grid, view=value.view)
        pending = _resized(context, node, real)
        tensor = emit(context, node, pending, node.outputs[0], grid).tensor
        if pending.view is not None and tensor == node.outputs[0]:
            context.views[tensor] = pending.view
        context.bind(node, Integer(tensor=tensor, shape=pending.shape, dtype=value.dtype, view=pending.view))
        return
    context.bind(node, _resized(context, node, real_operand(context, node, 0, viewed=True)))


def _resized(context: ImportContext, node: OnnxNode, data: Real) -> Pending:
    resize, shape, order = read_resize(context, node, data.shape)
    if order == IN_ORDER:
        return _resized_image(context, node, settled(context, node, data), resize, shape)
    moved = seen_as(context, data, elements_of(context, data).transpose(order))
    pending = _resized_image(context, node, settled(context, node, moved), resize, shape)
    return seen_as(context, pending, elements_of(context, pending).transpose(np.argsort(order)))


def _resized_image(
    context: ImportContext, node: OnnxNode, data: Real, resize: Resize, shape: tuple[int, ...]
) -> Pending:
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
    operation: Operation = Resampled(
        data=data, rows=(rows.first, rows.weight), columns=(columns.first, columns.weight)
    )
    if not (rows.weight.any() or columns.weight.any()):
        operation = moved(data, (rows.first, columns.first), data.shape)
    return Pending(
        name=node.outputs[0], members=(node.name,), operation=operation, natural=shape, shape=shape
    )


def moved(data: Real, positions: Sequence[np.ndarray], shape: Shape) -> Moved:
    """The rows and columns of every image (N, C, H, W) of `shape` at `positions`."""
    rows, columns = positions
    images = np.arange(shape[0])[:, None, None] * (shape[2] * shape[3])
    return Moved(parts=(data,), index=images + rows[:, None] * shape[3] + columns)

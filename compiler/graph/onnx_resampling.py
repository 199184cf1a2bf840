"""Resize of a quantized model: positions that are repeated, or means of neighbours with fixed weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..te.ops.resize import axis_table
from .floating.onnx_resize import read_resize
from .graph import Shape
from .onnx_context import ImportContext, OnnxNode
from .onnx_emit import plane_operand, real_operand
from .onnx_values import Moved, Operation, Pending, Real, Resampled
from .onnx_views import check_size


def import_resize(context: ImportContext, node: OnnxNode) -> None:
    """Resize, nearest or linear, of images (N, C, H, W)."""
    data = real_operand(context, node, 0)
    plane = plane_operand(context, node, data)
    resize, shape = read_resize(context, node, data.shape)
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
    context.bind(
        node,
        Pending(name=node.outputs[0], members=(node.name,), operation=operation, natural=shape, shape=shape),
    )


def moved(data: Real, positions: Sequence[np.ndarray], shape: Shape) -> Moved:
    """The rows and columns of every image (N, C, H, W) of `shape` at `positions`."""
    rows, columns = positions
    images = np.arange(shape[0])[:, None, None] * (shape[2] * shape[3])
    return Moved(parts=(data,), index=images + rows[:, None] * shape[3] + columns)

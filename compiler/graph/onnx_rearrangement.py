"""Operators that move elements, for integer and float graphs: Transpose, DepthToSpace, SpaceToDepth, Concat, Split,
Slice, Gather, Expand and Pad."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..ir.limits import MOST_RUNS
from ..ir.types import DType
from ..te.ops.movement import pad_runs, slice_runs
from .graph import Tensor
from .onnx_attributes import OnnxNode
from .onnx_axes import (
    blocks_of_space,
    expanded_shape,
    joined_shape,
    one_axis,
    padded_ends,
    permutation,
    sliced_positions,
    split_sizes,
    taken_indices,
)
from .onnx_context import GraphContext
from .operators import Concatenate, Gather, Permute, Remap


def import_transpose(context: GraphContext, node: OnnxNode) -> None:
    """Imports Transpose; a view if it moves only dimensions of size 1."""
    data = context.tensor(node, 0)
    axes, is_view = permutation(context, node, data.shape)
    shape = tuple(data.shape[axis] for axis in axes)
    if is_view:
        context.bind_view(node, shape)
    else:
        context.add(node, Permute(axes=axes), (data.name,), shape, dtype=data.dtype)


def import_depth_to_space(context: GraphContext, node: OnnxNode) -> None:
    """Imports DepthToSpace and SpaceToDepth in both modes: a transposition of split dimensions."""
    data = context.tensor(node, 0)
    parts, axes, shape = blocks_of_space(context, node, data.shape)
    cut = context.view(node, data, parts, output=context.temporary(node, "parts"))
    order = tuple(parts[axis] for axis in axes)
    output = context.temporary(node, "moved")
    moved = context.add(node, Permute(axes=axes), (cut,), order, output=output, dtype=data.dtype)
    context.view(node, replace(data, name=moved, shape=order), shape)


def import_concat(context: GraphContext, node: OnnxNode) -> None:
    """Imports Concat; empty inputs are dropped."""
    tensors = [context.tensor(node, i) for i in range(len(node.inputs))]
    if len({tensor.dtype for tensor in tensors}) > 1:
        context.refuse(node, "joins tensors of different types")
    axis, shape = joined_shape(context, node, [tensor.shape for tensor in tensors])
    tensors = [tensor for tensor in tensors if tensor.size] or tensors
    if len(tensors) == 1:
        context.view(node, tensors[0], shape)
        return
    context.add(node, Concatenate(axis=axis), tuple(t.name for t in tensors), shape, dtype=tensors[0].dtype)


def import_slice(context: GraphContext, node: OnnxNode) -> None:
    """Imports Slice with constant bounds; bounds outside the tensor are clamped as in numpy."""
    data = context.tensor(node, 0)
    positions = sliced_positions(context, node, data.shape, empty=True)
    shape = tuple(len(taken) for taken in positions)
    runs = tuple(slice_runs(taken.start, len(taken), taken.step) for taken in positions)
    context.add(node, Remap(runs=runs), (data.name,), shape, dtype=data.dtype)


def import_split(context: GraphContext, node: OnnxNode) -> None:
    """Imports Split along one axis into given or equal parts: one slice for each output."""
    data = context.tensor(node, 0)
    axis, parts = split_sizes(context, node, data.shape, least=0)
    start = 0
    for name, part in zip(node.outputs, parts, strict=True):
        runs = [slice_runs(0, extent, 1) for extent in data.shape]
        runs[axis] = slice_runs(start, part, 1)
        shape = (*data.shape[:axis], part, *data.shape[axis + 1 :])
        start += part
        if name:
            context.add(node, Remap(runs=tuple(runs)), (data.name,), shape, output=name, dtype=data.dtype)


def import_gather(context: GraphContext, node: OnnxNode) -> None:
    """Imports Gather; the dimensions of the indices replace the axis."""
    data = context.tensor(node, 0)
    if not context.is_constant(node, 1):
        _gather(context, node, data, one_axis(context, node, data.shape))
        return
    axis, indices = taken_indices(context, node, data.shape)
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    chosen = tuple(indices.reshape(-1).tolist())
    context.add(node, Gather(axis=axis, indices=chosen), (data.name,), shape, dtype=data.dtype)


def _gather(context: GraphContext, node: OnnxNode, data: Tensor, axis: int) -> None:
    """Imports Gather with indices that are no constants."""
    indices = context.tensor(node, 1)
    if indices.dtype not in (DType.INT32, DType.INT64):
        context.refuse(node, f"has indices of {indices.dtype}")
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    from .floating.onnx_pointwise import as_type

    wide = as_type(context, node, indices, DType.INT64)
    context.add(node, Gather(axis=axis, indices=None), (data.name, wide), shape, dtype=data.dtype)


def import_expand(context: GraphContext, node: OnnxNode) -> None:
    """Imports Expand to a constant shape: axes of size 1 repeat their element."""
    data = context.tensor(node, 0)
    shape = expanded_shape(context, node, data.shape)
    padded = (1,) * (len(shape) - len(data.shape)) + data.shape
    if padded == shape:
        context.view(node, data, shape)
        return
    name = data.name
    if padded != data.shape:
        name = context.view(node, data, padded, output=context.temporary(node, "padded"))
    runs = [
        slice_runs(0, after, 1 if before == after else 0) for before, after in zip(padded, shape, strict=True)
    ]
    context.add(node, Remap(runs=tuple(runs)), (name,), shape, dtype=data.dtype)


def import_pad(context: GraphContext, node: OnnxNode) -> None:
    """Imports Pad with constant pads."""
    data = context.tensor(node, 0)
    pads, mode = padded_ends(context, node, data.shape)
    fill = context.number(node, 2, "value", 0.0)
    try:
        runs = [
            pad_runs(n, low, high, mode) for n, (low, high) in zip(data.shape, pads.tolist(), strict=True)
        ]
    except ValueError as error:
        context.fail(node, str(error), "use smaller pads")
    if (pieces := prod(map(len, runs))) > MOST_RUNS:
        context.fail(node, f"its pads make {pieces:,} pieces, more than {MOST_RUNS:,}", "use smaller pads")
    shape = tuple(sum(run.count for run in of_axis) for of_axis in runs)
    context.add(node, Remap(runs=tuple(runs), fill=fill), (data.name,), shape, dtype=data.dtype)

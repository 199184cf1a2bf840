"""Transpose, DepthToSpace, Concat, Split, Slice, Gather, GatherND, Expand and Pad of a float model."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir.expr import Const, select, wrap
from ...ir.limits import MOST_RUNS
from ...ir.types import DType
from ...te.ops.movement import pad_runs, slice_runs
from ...te.scalars import argument
from ..graph import Tensor
from ..onnx_axes import (
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
from ..onnx_context import OnnxNode
from ..operators import Concatenate, Gather, GatherElements, Permute, Remap
from .onnx_context import FloatContext
from .onnx_pointwise import add_elementwise, as_type
from .onnx_topk_scatter import gather_nd_of_run_time


def import_transpose(context: FloatContext, node: OnnxNode) -> None:
    """Imports Transpose; a view if it moves only dimensions of size 1."""
    data = context.tensor(node, 0)
    axes, is_view = permutation(context, node, data.shape)
    shape = tuple(data.shape[axis] for axis in axes)
    if is_view:
        context.view(node, data, shape)
    else:
        context.add(node, Permute(axes=axes), (data.name,), shape, dtype=data.dtype)


def import_depth_to_space(context: FloatContext, node: OnnxNode) -> None:
    """Imports DepthToSpace and SpaceToDepth in both modes: a transposition of split dimensions."""
    data = context.tensor(node, 0)
    parts, axes, shape = blocks_of_space(context, node, data.shape)
    cut = context.view(node, data, parts, output=context.temporary(node, "parts"))
    moved = context.temporary(node, "moved")
    order = tuple(parts[axis] for axis in axes)
    context.add(node, Permute(axes=axes), (cut,), order, output=moved, dtype=data.dtype)
    context.view(node, context.tensors[moved], shape)


def import_concat(context: FloatContext, node: OnnxNode) -> None:
    """Imports Concat; empty inputs are dropped."""
    tensors = [context.tensor(node, i) for i in range(len(node.inputs))]
    if len({tensor.dtype for tensor in tensors}) > 1:
        context.refuse(node, "joins tensors of different types", "export the model again")
    axis, shape = joined_shape(context, node, [tensor.shape for tensor in tensors])
    tensors = [tensor for tensor in tensors if tensor.size] or tensors
    if len(tensors) == 1:
        context.view(node, tensors[0], shape)
        return
    context.add(node, Concatenate(axis=axis), tuple(t.name for t in tensors), shape, dtype=tensors[0].dtype)


def import_slice(context: FloatContext, node: OnnxNode) -> None:
    """Imports Slice with constant bounds; bounds outside the tensor are clamped as in numpy."""
    data = context.tensor(node, 0)
    positions = sliced_positions(context, node, data.shape, empty=True)
    shape = tuple(len(taken) for taken in positions)
    runs = tuple(slice_runs(taken.start, len(taken), taken.step) for taken in positions)
    context.add(node, Remap(runs=runs), (data.name,), shape, dtype=data.dtype)


def import_split(context: FloatContext, node: OnnxNode) -> None:
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


def import_gather(context: FloatContext, node: OnnxNode) -> None:
    """Imports Gather; the dimensions of the indices replace the axis."""
    data = context.tensor(node, 0)
    if not context.is_constant(node, 1):
        _gather(context, node, data, one_axis(context, node, data.shape))
        return
    axis, indices = taken_indices(context, node, data.shape)
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    chosen = tuple(indices.reshape(-1).tolist())
    context.add(node, Gather(axis=axis, indices=chosen), (data.name,), shape, dtype=data.dtype)


def _gather(context: FloatContext, node: OnnxNode, data: Tensor, axis: int) -> None:
    """Imports Gather with indices that are no constants."""
    indices = context.tensor(node, 1)
    if indices.dtype not in (DType.INT32, DType.INT64):
        context.refuse(node, f"has indices of {indices.dtype}", "export the model again")
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    wide = as_type(context, node, indices, DType.INT64)
    context.add(node, Gather(axis=axis, indices=None), (data.name, wide), shape, dtype=data.dtype)


def import_gather_elements(context: FloatContext, node: OnnxNode) -> None:
    """Imports GatherElements: one element for each index."""
    data, indices = context.tensor(node, 0), context.tensor(node, 1)
    axis = one_axis(context, node, data.shape)
    if indices.dtype not in (DType.INT32, DType.INT64) or len(indices.shape) != len(data.shape):
        context.refuse(
            node,
            f"has indices {indices.dtype}{list(indices.shape)} into {data.shape}",
            "export the model again",
        )
    sizes = [pair for d, pair in enumerate(zip(indices.shape, data.shape, strict=True)) if d != axis]
    if any(count > size for count, size in sizes):
        context.refuse(
            node, f"has indices {indices.shape}, longer than its data {data.shape}", "export the model again"
        )
    wide = as_type(context, node, indices, DType.INT64)
    context.add(node, GatherElements(axis=axis), (data.name, wide), indices.shape, dtype=data.dtype)


def import_trilu(context: FloatContext, node: OnnxNode) -> None:
    """Imports Trilu: a select by a constant mask; a k that is no constant is compared with each element's diagonal."""
    data = context.tensor(node, 0)
    if len(data.shape) < 2:
        context.refuse(node, f"has a tensor of shape {data.shape}", "export the model again")
    if len(node.inputs) > 1 and node.inputs[1] and not context.is_constant(node, 1):
        rows, columns = data.shape[-2:]
        own = context.store(
            context.temporary(node, "diagonals"), np.arange(columns)[None] - np.arange(rows)[:, None]
        )
        k = context.view(node, context.tensor(node, 1), (), output=context.temporary(node, "diagonal"))
        a, b = argument(1, DType.INT64), argument(2, DType.INT64)
        kept = b <= a if node.integer("upper", 1) else a <= b
        x = argument(0, data.dtype)
        zero = Const(False, DType.BOOL) if data.dtype is DType.BOOL else wrap(0, data.dtype)
        add_elementwise(context, node, select(kept, x, zero), [data.name, own, k])
        return
    k = int(context.number(node, 1, "diagonal k", 0))
    ones = np.ones(data.shape[-2:], np.bool_)
    kept = np.triu(ones, k) if node.integer("upper", 1) else np.tril(ones, k)
    mask = context.store(context.temporary(node, "kept"), kept)
    x = argument(0, data.dtype)
    zero = Const(False, DType.BOOL) if data.dtype is DType.BOOL else wrap(0, data.dtype)
    add_elementwise(context, node, select(argument(1, DType.BOOL), x, zero), [data.name, mask])


def import_gather_nd(context: FloatContext, node: OnnxNode) -> None:
    """Imports GatherND; with constant indices, a Gather along the indexed axes flattened to one."""
    if not context.is_constant(node, 1) or node.integer("batch_dims", 0):
        gather_nd_of_run_time(context, node)
        return
    data = context.tensor(node, 0)
    indices = context.array(node, 1, "indices")
    if indices is None or indices.dtype.kind != "i" or not indices.size:
        context.refuse(node, "has no integer indices", "export the model again")
    depth = indices.shape[-1] if indices.ndim else 0
    if not 1 <= depth <= len(data.shape):
        context.refuse(node, f"has indices of {depth} axes of {data.shape}", "export the model again")
    named, rest = data.shape[:depth], data.shape[depth:]
    rows = indices.reshape(-1, depth).astype(np.int64)
    if (rows < np.negative(named)).any() or (rows >= np.array(named)).any():
        context.refuse(node, f"has indices outside of {data.shape}", "export the model again")
    chosen = np.ravel_multi_index([(rows % named)[:, axis] for axis in range(depth)], named)
    flat = context.view(node, data, (prod(named), *rest), output=context.temporary(node, "rows"))
    shape = (*indices.shape[:-1], *rest)
    context.add(node, Gather(axis=0, indices=tuple(chosen.tolist())), (flat,), shape, dtype=data.dtype)


def import_expand(context: FloatContext, node: OnnxNode) -> None:
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


def import_pad(context: FloatContext, node: OnnxNode) -> None:
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

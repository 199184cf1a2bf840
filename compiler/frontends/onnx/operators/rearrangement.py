"""Operators that move elements, for integer and float graphs: Transpose, DepthToSpace, SpaceToDepth, Concat, Split,
Slice, Gather, Expand and Pad."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from ....graph.operators import Concatenate, Gather, Permute, Remap
from ....ir.limits import MOST_RUNS
from ....ir.types import DType
from ....te.merge import broadcast
from ....te.ops.movement import PAD_MODES, pad_runs, slice_runs
from ..attributes import OnnxNode
from ..axes import described, one_axis, wrapped_indices
from ..constants import check_text
from ..context import GraphContext


def import_transpose(context: GraphContext, node: OnnxNode) -> None:
    """Imports Transpose; a view if it moves only dimensions of size 1."""
    data = context.tensor(node, 0)
    rank = len(data.shape)
    axes = node.integers("perm", tuple(reversed(range(rank))))
    if sorted(axes) != list(range(rank)):
        context.refuse(node, f"its perm {axes} must name each axis of its input of shape {data.shape} once")
    shape = tuple(data.shape[axis] for axis in axes)
    moved = [axis for axis in axes if data.shape[axis] != 1]
    if moved == sorted(moved):
        context.bind_view(node, shape)
    else:
        context.add(node, Permute(axes=axes), (data.name,), shape, dtype=data.dtype)


def import_depth_to_space(context: GraphContext, node: OnnxNode) -> None:
    """Imports DepthToSpace and SpaceToDepth of (N, C, H, W) in both modes: a transposition of split dimensions."""
    data, size, mode = context.tensor(node, 0), node.integer("blocksize", 0), node.text("mode", "DCR")
    if len(data.shape) != 4:
        context.fail(
            node, f"its input of shape {data.shape} must have four dimensions", "give a tensor (N, C, H, W)"
        )
    if size < 1:
        context.fail(node, f"its blocksize is {size}", "give a blocksize of 1 or more")
    check_text(context, node)
    batch, channels, height, width = data.shape
    first = mode == "DCR"
    if node.op_type == "SpaceToDepth":
        fits = height % size == width % size == 0
        parts = (batch, channels, height // size, size, width // size, size)
        axes = (0, 3, 5, 1, 2, 4) if first else (0, 1, 3, 5, 2, 4)
        shape = (batch, channels * size * size, height // size, width // size)
    else:
        fits = channels % (size * size) == 0
        depth = channels // (size * size)
        cut = (size, size, depth) if first else (depth, size, size)
        parts = (batch, *cut, height, width)
        axes = (0, 3, 4, 1, 5, 2) if first else (0, 1, 4, 2, 5, 3)
        shape = (batch, depth, height * size, width * size)
    if not fits:
        context.fail(
            node,
            f"its input of shape {data.shape} cannot be divided into blocks of {size} x {size} elements",
            "use a blocksize that divides the tensor",
        )
    split = context.view(node, data, parts, output=context.temporary(node, "parts"))
    order = tuple(parts[axis] for axis in axes)
    output = context.temporary(node, "moved")
    moved = context.add(node, Permute(axes=axes), (split,), order, output=output, dtype=data.dtype)
    context.view(node, replace(data, name=moved, shape=order), shape)


def import_concat(context: GraphContext, node: OnnxNode) -> None:
    """Imports Concat; empty inputs are dropped."""
    tensors = [context.tensor(node, i) for i in range(len(node.inputs))]
    if len({tensor.dtype for tensor in tensors}) > 1:
        types = ", ".join(str(tensor.dtype) for tensor in tensors)
        context.refuse(node, f"its inputs have the element types {types}, which must be equal")
    shapes, first = [tensor.shape for tensor in tensors], tensors[0].shape
    axis = one_axis(context, node, first)
    if any(shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :] for shape in shapes):
        context.refuse(
            node,
            f"its inputs must have equal shapes except along axis {axis}, not the shapes {', '.join(map(str, shapes))}",
        )
    shape = (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])
    tensors = [tensor for tensor in tensors if tensor.size] or tensors
    if len(tensors) == 1:
        context.view(node, tensors[0], shape)
        return
    context.add(node, Concatenate(axis=axis), tuple(t.name for t in tensors), shape, dtype=tensors[0].dtype)


def import_slice(context: GraphContext, node: OnnxNode) -> None:
    """Imports Slice with constant bounds. Numpy's rules for bounds outside the tensor are ONNX's."""
    data = context.tensor(node, 0)
    shape, rank = data.shape, len(data.shape)
    starts, ends = (context.array(node, i, what) for i, what in ((1, "starts"), (2, "ends")))
    if starts is None or ends is None:
        context.refuse(node, "its starts or ends are missing")
    axes, steps = context.array(node, 3, "axes"), context.array(node, 4, "steps")
    axes = np.arange(starts.size) if axes is None else axes
    steps = np.ones(starts.size, np.int64) if steps is None else steps
    lists = (starts, ends, axes, steps)
    if any(given.ndim != 1 or given.size != starts.size for given in lists) or not all(steps):
        context.refuse(node, "needs starts, ends, axes and steps of the same length, and no step of 0")
    if any(not -rank <= axis < rank for axis in axes) or len({int(axis) % rank for axis in axes}) < axes.size:
        context.refuse(node, f"its axes {axes.tolist()} must be different axes of its input of shape {shape}")
    slices = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # With a negative step, an end before the first element means that the first element is included.
        stop = None if step < 0 and end < -shape[int(axis)] else int(end)
        slices[int(axis) % rank] = slice(int(start), stop, int(step))
    positions = [range(size)[cut] for size, cut in zip(shape, slices, strict=True)]
    runs = tuple(slice_runs(taken.start, len(taken), taken.step) for taken in positions)
    context.add(node, Remap(runs=runs), (data.name,), tuple(map(len, positions)), dtype=data.dtype)


def import_split(context: GraphContext, node: OnnxNode) -> None:
    """Imports Split along one axis into given or equal parts: one slice for each output."""
    data = context.tensor(node, 0)
    axis = one_axis(context, node, data.shape)
    size, given = data.shape[axis], context.array(node, 1, "split")
    if given is not None:
        parts = tuple(int(part) for part in given.reshape(-1))
    elif "split" in node.attributes:
        parts = node.integers("split", ())
    else:
        # Equal parts. The last one may be smaller only if the node has num_outputs.
        count = node.integer("num_outputs", len(node.outputs))
        if count < 1 or (size % count and "num_outputs" not in node.attributes):
            context.fail(
                node,
                f"cannot split axis {axis} of {size} elements into {count} equal parts",
                "give the length of each part",
            )
        part = -(-size // count)
        parts = tuple(min(part, size - part * i) for i in range(count))
    if len(parts) != len(node.outputs) or sum(parts) != size or min(parts) < 0:
        context.fail(
            node,
            f"its split sizes {list(parts)} must be one per output ({len(node.outputs)}) and add up to the {size} "
            f"elements of axis {axis}",
            "give each output a size of 0 or more, with this sum",
        )
    start = 0
    for name, part in zip(node.outputs, parts, strict=True):
        runs = [slice_runs(0, extent, 1) for extent in data.shape]
        runs[axis] = slice_runs(start, part, 1)
        shape = (*data.shape[:axis], part, *data.shape[axis + 1 :])
        start += part
        if name:
            context.add(node, Remap(runs=tuple(runs)), (data.name,), shape, output=name, dtype=data.dtype)


def import_gather(context: GraphContext, node: OnnxNode) -> None:
    """Imports Gather; in the result, the dimensions of the indices replace the axis. Negative constant indices are
    replaced by equivalent ones of 0 or more.
    """
    data = context.tensor(node, 0)
    axis = one_axis(context, node, data.shape)
    if context.is_constant(node, 1):
        indices = context.array(node, 1, "indices")
        if indices is None or indices.dtype.kind not in "iu" or not indices.size:
            context.refuse(node, f"its indices ({described(indices)}) must be one or more integers")
        chosen = wrapped_indices(context, node, indices, data.shape, axis)
        operator, inputs = Gather(axis=axis, indices=tuple(chosen.reshape(-1).tolist())), (data.name,)
    else:
        from ..float_operators.pointwise import as_type

        indices = context.tensor(node, 1)
        if indices.dtype not in (DType.INT32, DType.INT64):
            context.refuse(node, f"its indices must be int32 or int64, not {indices.dtype}")
        operator = Gather(axis=axis, indices=None)
        inputs = (data.name, as_type(context, node, indices, DType.INT64))
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    context.add(node, operator, inputs, shape, dtype=data.dtype)


def import_expand(context: GraphContext, node: OnnxNode) -> None:
    """Imports Expand to a constant shape: axes of size 1 repeat their element."""
    data, wanted = context.tensor(node, 0), context.array(node, 1, "shape")
    if wanted is None or wanted.dtype != np.int64 or wanted.ndim != 1 or (wanted < 1).any():
        context.refuse(node, f"its shape ({described(wanted)}) must be a list of int64 sizes above 0")
    try:
        shape = broadcast([data.shape, tuple(wanted.tolist())])
    except ValueError as error:
        context.refuse(node, str(error))
    padded = (1,) * (len(shape) - len(data.shape)) + data.shape
    if padded == shape:
        context.view(node, data, shape)
        return
    name = data.name
    if padded != data.shape:
        name = context.view(node, data, padded, output=context.temporary(node, "padded"))
    sizes = zip(padded, shape, strict=True)
    runs = tuple(slice_runs(0, after, 1 if before == after else 0) for before, after in sizes)
    context.add(node, Remap(runs=runs), (name,), shape, dtype=data.dtype)


def import_pad(context: GraphContext, node: OnnxNode) -> None:
    """Imports Pad with constant pads."""
    data = context.tensor(node, 0)
    rank, mode = len(data.shape), node.text("mode", "constant")
    given, axes = context.array(node, 1, "pads"), context.array(node, 3, "axes")
    of = np.arange(rank) if axes is None else axes.reshape(-1) % rank
    if mode not in PAD_MODES:
        context.fail(node, f"its mode {mode} is unknown", f"use one of {', '.join(PAD_MODES)}")
    if given is None or given.size != 2 * len(of):
        context.fail(
            node,
            f"its pads {given} do not match its {len(of)} axes",
            "give a begin and an end for each axis",
        )
    pads = np.zeros((rank, 2), np.int64)
    pads[of] = given.reshape(2, -1).T
    fill, ends = context.number(node, 2, "value", 0.0), zip(data.shape, pads.tolist(), strict=True)
    try:
        runs = [pad_runs(n, low, high, PAD_MODES[mode]) for n, (low, high) in ends]
    except ValueError as error:
        context.fail(node, str(error), "use smaller pads")
    if (pieces := prod(map(len, runs))) > MOST_RUNS:
        context.fail(
            node,
            f"its pads divide the output into {pieces:,} regions that are copied one by one, more than {MOST_RUNS:,}",
            "use smaller pads",
        )
    shape = tuple(sum(run.count for run in of_axis) for of_axis in runs)
    context.add(node, Remap(runs=tuple(runs), fill=fill), (data.name,), shape, dtype=data.dtype)

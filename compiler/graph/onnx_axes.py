"""Axes, sizes and orders that nodes give by attributes or constant inputs, for integer and float graphs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..te.merge import broadcast
from ..te.ops.movement import PAD_MODES, PadMode
from .model_rewrites import SOFTMAX_HAS_ONE_AXIS
from .onnx_attributes import OnnxNode
from .onnx_context import GraphContext


def reduced_axes(context: GraphContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The reduced axes in ascending order, from an attribute or an input. All axes if none are listed; None if the node
    then reduces nothing (`noop_with_empty_axes`).

    Fails where `shape` has no such axis.
    """
    rank = len(shape)
    given = context.array(node, 1, "axes")
    listed = node.integers("axes", ()) if given is None else tuple(int(axis) for axis in given.reshape(-1))
    if any(not -rank <= axis < rank for axis in listed):
        context.refuse(node, f"has axes {listed} for a tensor of shape {shape}")
    if not listed and node.integer("noop_with_empty_axes", 0):
        return None
    return tuple(sorted({axis % rank for axis in listed})) or tuple(range(rank))


def permutation(
    context: GraphContext, node: OnnxNode, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], bool]:
    """The permutation of a Transpose, and whether it moves only axes of size 1."""
    rank = len(shape)
    order = node.integers("perm", tuple(reversed(range(rank))))
    if sorted(order) != list(range(rank)):
        context.refuse(node, f"has perm {order} for a tensor of shape {shape}")
    moved = [axis for axis in order if shape[axis] != 1]
    return order, moved == sorted(moved)


def one_axis(context: GraphContext, node: OnnxNode, shape: tuple[int, ...], default: int = 0) -> int:
    """The attribute `axis` (`default` where left out) as an index of 0 or more; fails where `shape` has no such
    axis."""
    axis = node.integer("axis", default)
    if not -len(shape) <= axis < len(shape):
        context.refuse(node, f"has axis {axis} for a tensor of shape {shape}")
    return axis % len(shape)


def joined_shape(
    context: GraphContext, node: OnnxNode, shapes: Sequence[tuple[int, ...]]
) -> tuple[int, tuple[int, ...]]:
    """The axis, 0 or more, and the shape of a Concat of tensors of `shapes`."""
    first = shapes[0]
    axis = one_axis(context, node, first)
    if any(shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :] for shape in shapes):
        context.refuse(node, f"joins {', '.join(map(str, shapes))}")
    return axis, (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def softmax_axis(context: GraphContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, bool]:
    """The axis of a Softmax, LogSoftmax or Hardmax, and whether the operator is along that axis alone; before opset 13
    it is along all axes from that one on."""
    alone = context.opset >= SOFTMAX_HAS_ONE_AXIS
    axis = one_axis(context, node, shape, -1 if alone else 1)
    return axis, alone or prod(shape[axis + 1 :]) == 1


def split_sizes(
    context: GraphContext, node: OnnxNode, shape: tuple[int, ...], *, least: int = 1
) -> tuple[int, tuple[int, ...]]:
    """The axis, 0 or more, along which a Split cuts, and the size of each part, which must be `least` or more."""
    axis = one_axis(context, node, shape)
    size = shape[axis]
    given = context.array(node, 1, "split")
    if given is not None:
        parts = tuple(int(part) for part in given.reshape(-1))
    elif "split" in node.attributes:
        parts = node.integers("split", ())
    else:
        # Equal parts. The last one may be smaller only if the node has num_outputs.
        count = node.integer("num_outputs", len(node.outputs))
        if count < 1 or (size % count and "num_outputs" not in node.attributes):
            context.fail(node, f"splits {size} into {count} parts", "say how long each part is")
        part = -(-size // count)
        parts = tuple(min(part, size - part * i) for i in range(count))
    if len(parts) != len(node.outputs) or sum(parts) != size or min(parts) < least:
        context.fail(node, f"splits {size} into {list(parts)}", f"give each output a part of {least} or more")
    return axis, parts


def sliced_positions(
    context: GraphContext, node: OnnxNode, shape: tuple[int, ...], *, empty: bool = False
) -> tuple[range, ...]:
    """The positions along each axis that a Slice with constant bounds takes; fails where it takes none (unless
    `empty`).

    Numpy's rules for bounds outside the tensor are ONNX's.
    """
    rank = len(shape)
    starts, ends = (context.array(node, i, what) for i, what in ((1, "starts"), (2, "ends")))
    if starts is None or ends is None:
        context.refuse(node, "has no starts and ends")
    axes, steps = context.array(node, 3, "axes"), context.array(node, 4, "steps")
    axes = np.arange(starts.size) if axes is None else axes
    steps = np.ones(starts.size, np.int64) if steps is None else steps
    lists = (starts, ends, axes, steps)
    if any(given.ndim != 1 or given.size != starts.size for given in lists) or not all(steps):
        context.refuse(node, "needs starts, ends, axes and steps of one length, and no step of 0")
    if any(not -rank <= axis < rank for axis in axes) or len({int(axis) % rank for axis in axes}) < axes.size:
        context.refuse(node, f"has axes {axes.tolist()} for a tensor of shape {shape}")
    slices = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = shape[int(axis)]
        # With a negative step, an end before the first element means that the first element is included.
        stop = None if step < 0 and end < -size else int(end)
        slices[int(axis) % rank] = slice(int(start), stop, int(step))
    positions = tuple([range(size)[cut] for size, cut in zip(shape, slices, strict=True)])
    if not empty and any(not taken for taken in positions):
        context.fail(node, f"takes nothing of {shape}", "remove it")
    return positions


def taken_indices(context: GraphContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, np.ndarray]:
    """The axis and the constant indices, both 0 or more, of a Gather from a tensor of `shape`."""
    axis, indices = one_axis(context, node, shape), context.array(node, 1, "indices")
    if indices is None or indices.dtype.kind not in "iu" or not indices.size:
        context.refuse(node, "has no integer indices")
    if indices.min() < -shape[axis] or indices.max() >= shape[axis]:
        context.refuse(node, f"has indices outside an axis of {shape[axis]}")
    return axis, indices.astype(np.int64) % shape[axis]


def expanded_shape(context: GraphContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an Expand of a tensor of `shape` to a constant shape."""
    wanted = context.array(node, 1, "shape")
    if wanted is None or wanted.dtype != np.int64 or wanted.ndim != 1 or (wanted < 1).any():
        context.refuse(node, "has no shape of sizes above 0")
    try:
        return broadcast([shape, tuple(wanted.tolist())])
    except ValueError as error:
        context.refuse(node, str(error))


def padded_ends(context: GraphContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[np.ndarray, PadMode]:
    """The constant pads before and behind each axis of a Pad, int64 (rank, 2), and numpy's name of its mode."""
    given, axes = context.array(node, 1, "pads"), context.array(node, 3, "axes")
    of = np.arange(len(shape)) if axes is None else axes.reshape(-1) % len(shape)
    mode = node.text("mode", "constant")
    if given is None or given.size != 2 * len(of) or mode not in PAD_MODES:
        context.fail(node, f"has mode {mode} and pads {given}", "give a begin and an end for each axis")
    pads = np.zeros((len(shape), 2), np.int64)
    pads[of] = given.reshape(2, -1).T
    return pads, PAD_MODES[mode]


def blocks_of_space(
    context: GraphContext, node: OnnxNode, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """DepthToSpace or SpaceToDepth of (N, C, H, W) in either mode as (shape of six factors of the dimensions, their
    permutation, shape of the result)."""
    size = node.integer("blocksize", 0)
    if len(shape) != 4 or size < 1:
        context.fail(node, f"has a blocksize of {size} for {shape}", "give it (N, C, H, W) and 1 or more")
    batch, channels, height, width = shape
    mode = node.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        context.fail(node, f"has the mode '{mode}'", "there are DCR and CRD")
    first = mode == "DCR"
    if node.op_type == "SpaceToDepth":
        fits = height % size == width % size == 0
        parts = (batch, channels, height // size, size, width // size, size)
        axes = (0, 3, 5, 1, 2, 4) if first else (0, 1, 3, 5, 2, 4)
        result = (batch, channels * size * size, height // size, width // size)
    else:
        fits = channels % (size * size) == 0
        depth = channels // (size * size)
        parts = (
            (batch, size, size, depth, height, width) if first else (batch, depth, size, size, height, width)
        )
        axes = (0, 3, 4, 1, 5, 2) if first else (0, 1, 4, 2, 5, 3)
        result = (batch, depth, height * size, width * size)
    if not fits:
        context.fail(node, f"cuts {shape} into blocks of {size}", "use a blocksize that divides it")
    return parts, axes, result

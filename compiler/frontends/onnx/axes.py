"""The axes that a node specifies by an attribute or a constant input, for integer and float graphs."""

from __future__ import annotations

from math import prod

import numpy as np

from ...graph.errors import NodeErrors
from .attributes import OnnxNode
from .context import GraphContext
from .model.model_rewrites import SOFTMAX_HAS_ONE_AXIS


def described(array: np.ndarray | None) -> str:
    """A constant input in an error: its type and shape, with its values if there are at most 8; None is "missing"."""
    if array is None:
        return "missing"
    values = f" {array.tolist()}" if 0 < array.size <= 8 else ""
    return f"{array.dtype}{list(array.shape)}{values}"


def check_spatial(context: NodeErrors, node: OnnxNode, shape: tuple[int, ...]) -> None:
    """Raises InvalidNodeError for an input whose `shape` has no dimension after (N, C)."""
    if len(shape) < 3:
        problem = f"its input of shape {shape} must have at least three dimensions"
        context.refuse(node, problem, "give a tensor (N, C, ...)")


def reduced_axes(context: GraphContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes that a node reduces, in ascending order, from an attribute or an input. If the node lists no axes, it
    reduces all axes; but with the attribute `noop_with_empty_axes` it reduces nothing, and None is returned.

    Raises InvalidNodeError if the input's `shape` lacks one of the axes, NodeError for axes that are not constant.
    """
    rank = len(shape)
    given = context.array(node, 1, "axes")
    listed = node.integers("axes", ()) if given is None else tuple(int(axis) for axis in given.reshape(-1))
    if any(not -rank <= axis < rank for axis in listed):
        context.refuse(node, f"its axes {listed} are not all axes of its input of shape {shape}")
    if not listed and node.integer("noop_with_empty_axes", 0):
        return None
    return tuple(sorted({axis % rank for axis in listed})) or tuple(range(rank))


def reduced_shape(node: OnnxNode, shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape of a reduction's result: the `axes` of `shape` have length 1, or are removed if the node's attribute
    `keepdims` is 0. With None for `axes` nothing is reduced.
    """
    if axes is None:
        return shape
    kept = node.integer("keepdims", 1)
    return tuple([1 if axis in axes else size for axis, size in enumerate(shape) if kept or axis not in axes])


def one_axis(context: NodeErrors, node: OnnxNode, shape: tuple[int, ...], default: int = 0) -> int:
    """The attribute `axis` (`default` where left out) as an index of 0 or more; raises InvalidNodeError where `shape`
    has no such axis."""
    axis = node.integer("axis", default)
    if not -len(shape) <= axis < len(shape):
        context.refuse(node, f"its axis {axis} is not an axis of its input of shape {shape}")
    return axis % len(shape)


def wrapped_indices(
    context: NodeErrors, node: OnnxNode, indices: np.ndarray, shape: tuple[int, ...], axis: int
) -> np.ndarray:
    """Returns constant `indices` along `axis` of a tensor of `shape` as int64. Negative indices count from the end;
    they are replaced by indices of 0 or more. Raises InvalidNodeError for indices outside of the axis.
    """
    size = shape[axis]
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        context.refuse(node, f"some of its indices lie outside of axis {axis}, which has {size} elements")
    return indices.astype(np.int64) % max(size, 1)


def gathered_axis(
    context: NodeErrors, node: OnnxNode, data: tuple[int, ...], indices: tuple[int, ...]
) -> int:
    """The axis of a GatherElements, as an index of 0 or more. `data` and `indices`: shapes of its inputs. Raises
    InvalidNodeError if they do not match.
    """
    axis = one_axis(context, node, data)
    beside = [size for at, size in enumerate(data) if at != axis]
    if len(indices) != len(data) or any(
        count > size for count, size in zip(indices[:axis] + indices[axis + 1 :], beside, strict=True)
    ):
        context.refuse(
            node,
            f"its indices of shape {indices} must have as many axes as its data of shape {data}, and must not be "
            f"longer than its data along an axis other than axis {axis}",
        )
    return axis


def unit_axes(
    context: NodeErrors, node: OnnxNode, shape: tuple[int, ...], given: np.ndarray | None
) -> tuple[int, ...]:
    """The shape after Squeeze or Unsqueeze of a tensor of this `shape`. `given`: the node's input with the axes. It is
    None if the axes are an attribute, or if the node has no axes; a Squeeze then removes all axes of size 1. Raises
    NodeError for wrong axes.
    """
    listed = node.attributes.get("axes") if given is None else given.reshape(-1).tolist()
    squeezes = node.op_type == "Squeeze"
    if listed is None:
        if not squeezes:
            context.refuse(node, "its axes are missing")
        return tuple(size for size in shape if size != 1)
    rank = len(shape) if squeezes else len(shape) + len(listed)
    axes = {axis % rank for axis in listed if -rank <= axis < rank}
    if len(axes) < len(listed) or (squeezes and any(shape[axis] != 1 for axis in axes)):
        allowed = "different axes of size 1 of its input" if squeezes else "different axes of its output"
        context.fail(
            node,
            f"its axes {listed} must be {allowed} (the input has the shape {shape})",
            "export the model again",
        )
    if squeezes:
        return tuple(size for axis, size in enumerate(shape) if axis not in axes)
    rest = iter(shape)
    return tuple(1 if axis in axes else next(rest) for axis in range(rank))


def softmax_axis(context: GraphContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, bool]:
    """Returns two facts about a Softmax, LogSoftmax or Hardmax whose input has this `shape`: its axis, and whether it
    works along this axis alone. Before opset 13 these operators work along all axes from `axis` on; later axes of
    length 1 make no difference.
    """
    alone = context.opset >= SOFTMAX_HAS_ONE_AXIS
    axis = one_axis(context, node, shape, -1 if alone else 1)
    return axis, alone or prod(shape[axis + 1 :]) == 1

"""Operators that compute nothing: Identity, Dropout, Shape, Size, Flatten, Reshape, Squeeze and Unsqueeze, for integer
and float graphs."""

from __future__ import annotations

from math import prod

import numpy as np

from ..attributes import OnnxNode
from ..axes import unit_axes
from ..context import GraphContext


def import_identity(context: GraphContext, node: OnnxNode) -> None:
    """Imports Identity, and Dropout in inference form."""
    if any(node.outputs[1:]):
        context.fail(node, "a mask as its second output is not supported", "export the model for inference")
    training = context.array(node, 2, "training_mode") if node.op_type == "Dropout" else None
    if training is not None and training.any():
        context.refuse(node, "is in training mode", "export the model for inference")
    context.bind_same(node)


def import_shape(context: GraphContext, node: OnnxNode) -> None:
    """Imports Shape and Size. All shapes are static, so the results are constants."""
    shape = context.input_shape(node)
    if node.op_type == "Size":
        context.bind_array(node, np.array(prod(shape), np.int64))
        return
    start, end = node.integer("start", 0), node.attributes.get("end")
    context.bind_array(node, np.array(shape[start:end], np.int64))


def import_view(context: GraphContext, node: OnnxNode) -> None:
    """Imports Flatten, Reshape, Squeeze or Unsqueeze as a view."""
    shape = context.input_shape(node)
    match node.op_type:
        case "Flatten":
            axis = node.integer("axis", 1)
            axis += len(shape) if axis < 0 else 0
            seen = (prod(shape[:axis]), prod(shape[axis:]))
        case "Reshape":
            seen = _target_shape(context, node, shape)
        case _:
            seen = unit_axes(context, node, shape, context.array(node, 1, "axes"))
    if prod(seen) != prod(shape):
        context.refuse(node, f"reshapes {shape} to {seen}, which has another number of elements")
    context.bind_view(node, seen)


def _target_shape(context: GraphContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The target shape of a Reshape, in which 0 is replaced by the size of the same axis of `shape` (unless the node
    has `allowzero`), and -1 by the remaining size.
    """
    target = context.array(node, 1, "shape")
    if target is None:
        context.refuse(node, "its input with the shape is missing")
    wanted = [int(size) for size in target.reshape(-1)]
    if not node.integer("allowzero", 0):
        if any(size == 0 and axis >= len(shape) for axis, size in enumerate(wanted)):
            context.refuse(
                node, f"its shape copies a dimension (0) that its input of shape {shape} does not have"
            )
        wanted = [shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    if wanted.count(-1) > 1 or min(wanted, default=0) < -1:
        context.refuse(node, f"its shape {wanted} must have sizes of at least 0, or one -1")
    if -1 in wanted:
        known = prod([size for size in wanted if size != -1])
        wanted[wanted.index(-1)] = prod(shape) // max(known, 1)
    return tuple(wanted)

"""Operators that only rename or reshape: Identity, Dropout, Flatten, Reshape, Squeeze, Unsqueeze, Transpose.

None becomes a node. A tensor keeps its shape and the value a view of it; what cannot be expressed so is
refused.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .onnx_context import ImportContext, NodeContext, OnnxNode
from .onnx_values import Constant, FloatInput, Pending, QuantizedConstant, Value


def import_identity(context: ImportContext, node: OnnxNode) -> None:
    """Identity, and Dropout as inference runs it."""
    value = _operand(context, node)
    if any(node.outputs[1:]):
        context.fail(node, "asks for its mask", "export the model for inference")
    training = context.array(node, 2, "training_mode") if node.op_type == "Dropout" else None
    if training is not None and training.any():
        context.refuse(node, "is in training mode", "export the model for inference")
    context.bind(node, value)


def import_reshape(context: ImportContext, node: OnnxNode) -> None:
    """Flatten, Reshape, Squeeze or Unsqueeze of an activation."""
    value = _operand(context, node)
    shape = viewed_shape(context, node, value.shape)
    _bind_view(context, node, value, shape)


def import_transpose(context: ImportContext, node: OnnxNode) -> None:
    """Transpose of the model's input, of dimensions of size 1, or of quantized weights."""
    value = _operand(context, node)
    order = node.integers("perm", tuple(reversed(range(len(value.shape)))))
    if sorted(order) != list(range(len(value.shape))):
        context.refuse(
            node, f"has perm {order} for a tensor of shape {value.shape}", "export the model again"
        )
    shape = tuple(value.shape[axis] for axis in order)
    moved = [axis for axis in order if value.shape[axis] != 1]
    match value:
        case QuantizedConstant(integers=integers, axis=axis):
            moved_axis = None if axis is None else order.index(axis)
            context.bind(node, replace(value, integers=integers.transpose(order), axis=moved_axis))
        case _ if moved == sorted(moved):
            _bind_view(context, node, value, shape)
        case FloatInput(declared=declared, permutation=permutation) if value.shape == _permuted(
            declared, permutation
        ):
            before = permutation or tuple(range(len(declared)))
            context.bind(node, replace(value, permutation=tuple(before[axis] for axis in order), shape=shape))
        case _:
            context.fail(
                node,
                f"moves the dimensions {value.shape} to {shape} between two operators",
                "export the model in (N, C, H, W) layout; only the model's input may be transposed",
            )


def _permuted(shape: tuple[int, ...], permutation: tuple[int, ...] | None) -> tuple[int, ...]:
    return shape if permutation is None else tuple(shape[axis] for axis in permutation)


def _operand(context: ImportContext, node: OnnxNode) -> Value:
    value = context.value(node, 0)
    if value is None:
        context.refuse(node, "has no input", "export the model again")
    return value


def _bind_view(context: ImportContext, node: OnnxNode, value: Value, shape: tuple[int, ...]) -> None:
    if np.prod(shape, dtype=np.int64) != np.prod(value.shape, dtype=np.int64):
        context.refuse(node, f"reshapes {value.shape} to {shape}, of another size", "export the model again")
    match value:
        case Constant(array=array):
            context.bind(node, Constant(array=array.reshape(shape)))
        case QuantizedConstant(integers=integers, axis=None):
            context.bind(node, replace(value, integers=integers.reshape(shape)))
        case QuantizedConstant(axis=axis):
            context.fail(
                node, f"reshapes a constant quantized along axis {axis}", "reshape it before quantizing"
            )
        case Pending():
            context.bind(node, replace(value, shape=shape, members=(*value.members, node.name)))
        case _:
            context.bind(node, replace(value, shape=shape))


def viewed_shape(context: NodeContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    """What Flatten, Reshape, Squeeze or Unsqueeze make of a tensor of `shape`."""
    match node.op_type:
        case "Flatten":
            axis = node.integer("axis", 1)
            axis += len(shape) if axis < 0 else 0
            return (
                int(np.prod(shape[:axis], dtype=np.int64)),
                int(np.prod(shape[axis:], dtype=np.int64)),
            )
        case "Reshape":
            return _target_shape(context, node, shape)
        case _:
            return _with_unit_axes(context, node, shape)


def _target_shape(context: NodeContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that Reshape's second input asks for, with 0 (copy) and -1 (the rest) resolved."""
    target = context.array(node, 1, "shape")
    if target is None:
        context.refuse(node, "has no shape input", "export the model again")
    wanted = [int(size) for size in target.reshape(-1)]
    if not node.integer("allowzero", 0):
        if any(size == 0 and axis >= len(shape) for axis, size in enumerate(wanted)):
            context.refuse(node, f"copies a dimension that {shape} does not have", "export the model again")
        wanted = [shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    if wanted.count(-1) > 1 or min(wanted, default=0) < -1:
        context.refuse(node, f"asks for the shape {wanted}", "export the model again")
    if -1 in wanted:
        known = int(np.prod([size for size in wanted if size != -1], dtype=np.int64))
        wanted[wanted.index(-1)] = int(np.prod(shape, dtype=np.int64)) // max(known, 1)
    return tuple(wanted)


def _with_unit_axes(context: NodeContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape after Squeeze or Unsqueeze."""
    given = context.array(node, 1, "axes")
    if given is None and "axes" in node.attributes:
        given = np.array(node.attributes["axes"], np.int64)
    if node.op_type == "Squeeze":
        axes = (
            [axis for axis, size in enumerate(shape) if size == 1]
            if given is None
            else _axes(given, len(shape))
        )
        if any(axis >= len(shape) or shape[axis] != 1 for axis in axes):
            context.fail(
                node, f"squeezes axes {axes} of the shape {shape}", "squeeze only dimensions of size 1"
            )
        return tuple(size for axis, size in enumerate(shape) if axis not in axes)
    if given is None:
        context.refuse(node, "has no axes", "export the model again")
    rank = len(shape) + given.size
    axes = _axes(given, rank)
    rest = iter(shape)
    return tuple(1 if axis in axes else next(rest, 1) for axis in range(rank))


def _axes(given: np.ndarray, rank: int) -> list[int]:
    return [int(axis) % rank for axis in given.reshape(-1)]

"""LayerNormalization and InstanceNormalization of a float model, by mean and variance of the data."""

from __future__ import annotations

import numpy as np

from ..graph import Shape
from ..onnx_context import OnnxNode
from ..operators import Normalization
from .onnx_context import FloatContext


def import_layer_normalization(context: FloatContext, node: OnnxNode) -> None:
    """Imports LayerNormalization over all dimensions from `axis` on, with constant scale and bias of that shape."""
    data = context.operand(node, 0)
    rank = len(data.shape)
    axis = node.integer("axis", -1)
    if not -rank <= axis < rank:
        context.refuse(node, f"has axis {axis} for a tensor of shape {data.shape}", "export the model again")
    if any(node.outputs[1:]):
        context.fail(node, "asks for its mean or deviation", "export the model for inference")
    if node.integer("stash_type", 1) != 1:
        context.fail(node, "computes in another type than float32", "give it the stash_type 1")
    axis %= rank
    _normalize(context, node, axis, data.shape[axis:], by_channel=False)


def import_instance_normalization(context: FloatContext, node: OnnxNode) -> None:
    """Imports InstanceNormalization over all dimensions behind (N, C), with constant scale and bias per channel."""
    data = context.operand(node, 0)
    if len(data.shape) < 3:
        context.fail(node, f"normalizes a tensor of shape {data.shape}", "give it (N, C, ...)")
    _normalize(context, node, 2, data.shape[1:2], by_channel=True)


def _normalize(context: FloatContext, node: OnnxNode, axis: int, shape: Shape, *, by_channel: bool) -> None:
    data = context.operand(node, 0)
    factors: list[str] = []
    for index, what in ((1, "scale"), (2, "bias")):
        array = context.array(node, index, what)
        if array is None:
            if index == 1 or by_channel:
                context.refuse(node, f"its {what} is missing", "export the model again")
            continue
        if array.dtype != np.float32:
            context.fail(node, f"its {what} is of {array.dtype}", "convert the model to float32")
        try:
            whole = np.broadcast_to(array, shape)
        except ValueError:
            context.refuse(
                node, f"its {what} has shape {array.shape} where {shape} is needed", "export the model again"
            )
        factors.append(context.store(f"{node.name}.{what}", whole))
    epsilon = float(np.float32(node.attributes.get("epsilon", 1e-5)))
    operator = Normalization(axis=axis, by_channel=by_channel, epsilon=epsilon)
    context.add(node, operator, (data.name, *factors), data.shape)

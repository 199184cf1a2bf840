"""Softmax, LayerNormalization and RMSNormalization over channels, for accelerators with statistics of rows."""

from __future__ import annotations

import numpy as np

from .onnx_context import ImportContext, OnnxNode
from .onnx_values import Constant, Pending, QuantizedConstant, Real, Shared


def import_rows(context: ImportContext, node: OnnxNode) -> bool:
    """Binds the output of a node that is one of these on this target; whether it was."""
    if not context.abilities.rows or len([name for name in node.outputs if name]) > 1:
        return False
    data = context.value(node, 0)
    if not isinstance(data, Real) or not _along_channels(context, node, data):
        return False
    match node.op_type:
        case "Softmax":
            operation = Shared(data=data)
        case "LayerNormalization" | "RMSNormalization":
            found = _normalization(context, node, data)
            if found is None:
                return False
            operation = found
        case _:
            return False
    stored = context.tensors[data.tensor]
    context.bind(
        node,
        Pending(
            name=node.outputs[0],
            members=(node.name,),
            operation=operation,
            natural=stored.shape,
            shape=data.shape,
        ),
    )
    return True


def _along_channels(context: ImportContext, node: OnnxNode, data: Real) -> bool:
    """Whether a node works along the channels of a tensor that is seen as it is stored."""
    rank = len(data.shape)
    if data.shape != context.tensors[data.tensor].shape:
        return False
    # Before opset 13 softmax flattened what lies behind its axis.
    plain = node.op_type != "Softmax" or context.opset >= 13
    axis = node.integer("axis", -1) % rank
    return axis == 1 and (plain or rank == 2) and (node.op_type == "Softmax" or rank == 2)


def _normalization(context: ImportContext, node: OnnxNode, data: Real) -> Shared | None:
    channels = data.shape[1]
    parts: list[np.ndarray] = []
    for index, default in ((1, 1.0), (2, 0.0)):
        value = context.value(node, index) if index < len(node.inputs) else None
        match value:
            case None:
                array = np.full(channels, default)
            case Constant(array=array):
                pass
            case QuantizedConstant():
                array = value.real()
            case _:
                return None
        if array.size not in (1, channels):
            return None
        parts.append(np.broadcast_to(array.reshape(-1), (channels,)).astype(np.float64))
    return Shared(
        data=data,
        gain=parts[0],
        offset=parts[1],
        centre=node.op_type == "LayerNormalization",
        epsilon=float(node.attributes.get("epsilon", 1e-5)),
    )

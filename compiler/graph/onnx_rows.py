"""Softmax and normalizations along the last axis (softmax: or channels), for machines with statistics of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .abilities import needs
from .onnx_context import ImportContext, OnnxNode
from .onnx_values import Constant, Pending, QuantizedConstant, Real, Shared
from .onnx_views import rows_of, settled

OPERATORS = ("Softmax", "LayerNormalization", "RMSNormalization")


def import_rows(context: ImportContext, node: OnnxNode) -> bool:
    """Binds the output of a node that is one of these on this target; whether it was."""
    abilities = context.abilities
    if node.op_type not in OPERATORS or (abilities.processor and not abilities.rows):
        return False
    data = context.value(node, 0)
    if not isinstance(data, Real) or len([name for name in node.outputs if name]) > 1:
        return False
    rank = len(data.shape)
    axis = node.integer("axis", -1) % rank
    if node.op_type == "Softmax" and context.opset < 13 and axis != rank - 1:
        return False  # It flattened what lies behind its axis.
    if axis != rank - 1 and (axis, rank, node.op_type) != (1, 4, "Softmax"):
        return False
    if not abilities.rows:
        context.fail(node, *needs("rows"))
    operation = Shared(data=data) if node.op_type == "Softmax" else _normalization(context, node, data)
    if operation is None:
        return False
    if axis == rank - 1 and not (rank == 2 and data.view is None):
        rows = rows_of(context, node, data)
        data, natural = rows.data, context.tensors[rows.data.tensor].nchw
        view = rows.view(natural)
    else:
        data = settled(context, node, data)
        natural, view = context.tensors[data.tensor].shape, None
    context.bind(
        node,
        Pending(
            name=node.outputs[0],
            members=(node.name,),
            operation=replace(operation, data=data),
            natural=natural,
            shape=data.shape,
            view=view,
        ),
    )
    return True


def _normalization(context: ImportContext, node: OnnxNode, data: Real) -> Shared | None:
    channels = data.shape[-1]
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

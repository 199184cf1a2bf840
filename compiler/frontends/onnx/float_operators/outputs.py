"""Nodes of a float graph that compute several outputs of an ONNX node."""

from __future__ import annotations

from dataclasses import replace

from ....graph.graph import Shape, Tensor
from ....graph.operators import Operator
from ....ir.types import DType
from ..attributes import OnnxNode
from ..context import GraphContext


def add_outputs(
    context: GraphContext,
    node: OnnxNode,
    operator: Operator,
    inputs: tuple[str, ...],
    shapes: tuple[Shape, ...],
    *,
    dtypes: tuple[DType, ...] = (),
) -> None:
    """Adds a node that computes all outputs of the ONNX node; an omitted output gets a new name.

    `inputs`: names; `shapes`, `dtypes`: of each output of `operator` (`dtypes` empty: all float32).
    """
    dtypes = dtypes or (DType.FLOAT32,) * len(shapes)
    given = (*node.outputs, *[""] * (len(shapes) - len(node.outputs)))
    names: list[str] = []
    for number, (name, shape) in enumerate(zip(given, shapes, strict=True)):
        names.append(name or context.temporary(node, f"output{number}"))
        context.check_shape(node, names[-1], shape)
        context.check_size(node, names[-1], shape, dtypes[number])
        context.tensors[names[-1]] = Tensor(name=names[-1], shape=shape, dtype=dtypes[number])
    context.add(node, operator, inputs, shapes[0], output=names[0], dtype=dtypes[0])
    context.nodes[-1] = replace(context.nodes[-1], more_outputs=tuple(names[1:]))

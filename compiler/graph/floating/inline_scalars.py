"""Constants of one element become numbers in the expressions that read them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...ir.expr import Const, Expr
from ...ir.types import DType
from ...ir.visit import substitute_expr
from ...te.scalars import argument, argument_types
from ..graph import Graph, Node
from ..operators import Elementwise


def inline_scalars(graph: Graph) -> Graph:
    """Element-wise operators of tensors and numbers, without inputs for the numbers. NaN stays an input."""
    nodes = tuple(_inlined(graph, node) for node in graph.nodes)
    same = all(a is b for a, b in zip(nodes, graph.nodes, strict=True))
    return graph if same else replace(graph, nodes=nodes)


def _inlined(graph: Graph, node: Node) -> Node:
    if not isinstance(node.operator, Elementwise):
        return node
    values: dict[str, Expr] = {}
    types = argument_types(node.operator.body)
    kept: list[str] = []
    for i, name in enumerate(node.inputs):
        array = graph.constants.get(name)
        dtype = types.get(argument(i).name, DType.FLOAT32)
        if array is not None and array.size == 1 and not (dtype.is_float and np.isnan(array).any()):
            values[argument(i).name] = Const(array.reshape(-1)[0].item(), dtype)
        else:
            values[argument(i).name] = argument(len(kept), dtype)
            kept.append(name)
    if len(kept) == len(node.inputs) or not kept:
        return node
    body = substitute_expr(node.operator.body, values)
    return replace(node, operator=Elementwise(body=body), inputs=tuple(kept))

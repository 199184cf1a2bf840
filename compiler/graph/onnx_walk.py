"""The walk over the nodes of a model, for integer and float graphs."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from .errors import NodeError
from .onnx_attributes import OnnxNode, read_node
from .onnx_context import GraphContext
from .onnx_table import rows_of


def import_node(context: GraphContext, node: OnnxNode) -> None:
    """Imports one ONNX node: evaluates it if all inputs are constants, else adds operators or nodes in its place. Binds
    its outputs. Raises ModelError for a node that is not supported."""
    if writers := rows_of(node.domain, node.op_type, "integers", "blocked"):
        _import_steps(context, node, writers[0](context, node))
    elif not (context.expand(node) or context.fold(node)):
        context.import_operator(node)


def import_body(context: GraphContext, body: Iterable[onnx.NodeProto]) -> None:
    """Imports the nodes that replace a node."""
    for index, proto in enumerate(body):
        import_node(context, read_node(proto, index))


def _import_steps(context: GraphContext, node: OnnxNode, steps: Iterable[onnx.NodeProto]) -> None:
    """Imports the steps that replace an operator on integers; an error of a step becomes an error of the node."""
    try:
        import_body(context, steps)
    except NodeError as error:
        raise error.of_node(context.source, node) from None

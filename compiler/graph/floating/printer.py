"""The text of a float graph, as dumps show it."""

from __future__ import annotations

from vdla.util.printable import printable

from ...ir.printer import format_expr
from .graph import FloatGraph, Node, Tensor
from .operators import Elementwise, operator_class


def format_graph(graph: FloatGraph) -> str:
    """One line a node, in order: output, operator, inputs, and the ONNX nodes that it stands for."""
    lines = [f"graph {graph.name}"]
    lines += [f"  input   {_tensor(graph.tensors[name])}" for name in graph.inputs]
    lines += [f"  {_node(graph, node)}" for node in graph.nodes]
    lines += [f"  output  {output.name} = {output.tensor}" for output in graph.outputs]
    constants = sum(array.nbytes for array in graph.constants.values())
    lines.append(f"  {len(graph.nodes)} nodes, {len(graph.constants)} constants of {constants} bytes")
    return "\n".join(printable(line, None) for line in lines) + "\n"


def _node(graph: FloatGraph, node: Node) -> str:
    operator = node.operator
    text = (
        f"Elementwise[{format_expr(operator.body)}]" if isinstance(operator, Elementwise) else repr(operator)
    )
    for what, body in (("data", node.data), ("result", node.result)):
        text += "" if body is None else f" with {what} [{format_expr(body)}]"
    inputs = ", ".join(name + (" (constant)" if name in graph.constants else "") for name in node.inputs)
    kind = operator_class(operator)
    outputs = ", ".join(_tensor(graph.tensors[name]) for name in node.outputs)
    return f"{outputs} = {text}({inputs})  # {kind}; {', '.join(node.members)}"


def _tensor(tensor: Tensor) -> str:
    blocks = f" in blocks of {tensor.block}" if tensor.block > 1 else ""
    return f"{tensor.name}: {tensor.dtype}{list(tensor.shape)}{blocks}"

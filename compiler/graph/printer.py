"""The text of a graph, for dumps."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np

from vdla.util.printable import printable

from ..ir.expr import Operand
from ..ir.expression_printer import format_expr
from .graph import Graph, Node, Tensor
from .operators import Elementwise, operator_class
from .storage_plan import StoragePlan


def format_graph(graph: Graph) -> str:
    """The text of a graph. It lists the inputs and outputs, also in the host's form if that differs, and has one line
    for each node. The line has the node's outputs, operator, inputs, class, and the ONNX nodes that it implements.
    """
    lines = [f"graph {graph.name}"]
    for entry in graph.inputs:
        line = f"  input   {_tensor(graph.tensors[entry.tensor])}"
        if graph.tensors[entry.tensor].quantization is not None:
            order = "" if entry.permutation is None else f" permuted {list(entry.permutation)}"
            line += f" = {entry.name}: {entry.dtype}{list(entry.shape)}{order}"
        lines.append(line)
    lines += [f"  {_node(graph, node)}" for node in graph.nodes]
    for output in graph.outputs:
        form = "" if output.quantization is None else f": {output.dtype}{list(output.shape)}"
        lines.append(f"  output  {output.name}{form} = {output.tensor}")
    constants = sum(array.nbytes for array in graph.constants.values())
    lines.append(f"  {len(graph.nodes)} nodes, {len(graph.constants)} constants of {constants} bytes")
    return "\n".join(printable(line, None) for line in lines) + "\n"


def _node(graph: Graph, node: Node) -> str:
    operator = node.operator
    text = (
        f"Elementwise[{format_expr(operator.body)}]"
        if isinstance(operator, Elementwise)
        else _value(operator)
    )
    for what, body in (("data", node.data), ("result", node.result)):
        text += "" if body is None else f" with {what} [{format_expr(body)}]"
    inputs = ", ".join(name + (" (constant)" if name in graph.constants else "") for name in node.inputs)
    kind = operator_class(operator)
    outputs = ", ".join(_tensor(graph.tensors[name]) for name in node.outputs)
    return f"{outputs} = {text}({inputs})  # {kind}; {', '.join(node.members)}"


def _tensor(tensor: Tensor) -> str:
    blocks = f" in blocks of {tensor.block}" if tensor.block > 1 else ""
    text = f"{tensor.name}: {tensor.dtype}{list(tensor.shape)}{blocks}"
    if (grid := tensor.quantization) is not None:
        text += f" ({grid.dtype}, scale {grid.scale!s}, zero {grid.zero_point})"
    return text


def _value(value: object) -> str:
    """The text of an operator or of a part of an operator. An array is shown by its type and shape, not by its
    elements.
    """
    match value:
        case np.ndarray():
            return str(value.item()) if value.size == 1 else f"{value.dtype}{list(value.shape)}"
        case np.generic():
            return str(value)
        case Operand():
            return format_expr(value)  # type: ignore[arg-type]
        case tuple():
            return f"({', '.join(map(_value, value))}{',' * (len(value) == 1)})"
    if is_dataclass(value) and not isinstance(value, type):
        parts = ", ".join(f"{field.name}={_value(getattr(value, field.name))}" for field in fields(value))
        return f"{type(value).__name__}({parts})"
    return repr(value)


def format_plan(graph: Graph, plan: StoragePlan) -> str:
    """The text of a storage plan: one line for each tensor, by address. If two tensors share bytes, they are not alive
    together, or one is a view of the other.
    """
    lines = [f"arena of {plan.bytes} bytes, {plan.bytes_without_reuse} without reuse"]
    for name, offset in sorted(plan.offsets.items(), key=lambda item: item[1]):
        tensor = graph.tensors[name]
        lines.append(
            f"  {offset:>10} to {offset + tensor.bytes:>10}  {name}: {tensor.dtype}{list(tensor.shape)}"
        )
    return "\n".join(printable(line, None) for line in lines) + "\n"

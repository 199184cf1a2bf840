"""An integer graph as text, for dumps: one line a node."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from vdla.util.printable import printable

from .graph import Combine, Graph, Node, Pool, Requantize

_NOT_SHOWN = ("name", "members", "output")


def format_graph(graph: Graph) -> str:
    """Inputs, nodes with what they compute and from which ONNX nodes they are, outputs."""
    lines = [f"graph {graph.name}"]
    for entry in graph.inputs:
        order = "" if entry.permutation is None else f" permuted {list(entry.permutation)}"
        lines.append(
            f"  input {entry.name}: {entry.dtype}{list(entry.shape)}{order} -> {_tensor(graph, entry.tensor)}"
        )
    for node in graph.nodes:
        lines.append(f"  {_tensor(graph, node.output)} = {type(node).__name__}({_fields(node)})")
        lines.append(f"    # {node.name}: {', '.join(node.members)}")
    for output in graph.outputs:
        lines.append(f"  output {output.name}: {output.dtype}{list(output.shape)} = {output.tensor}")
    return "\n".join(printable(line, None) for line in lines) + "\n"


def _tensor(graph: Graph, name: str) -> str:
    tensor = graph.tensors[name]
    quantization = tensor.quantization
    return (
        f"{name}: {quantization.dtype}{list(tensor.shape)} "
        f"scale {quantization.scale!s} zero {quantization.zero_point}"
    )


def _fields(part: Node | Requantize | Combine | Pool) -> str:
    values = ((field.name, getattr(part, field.name)) for field in fields(part))
    return ", ".join(f"{name}={_value(value)}" for name, value in values if name not in _NOT_SHOWN)


def _value(value: object) -> str:
    match value:
        case np.ndarray():
            return str(value.item()) if value.size == 1 else f"{value.dtype}{list(value.shape)}"
        case Requantize() | Combine() | Pool():
            return f"{type(value).__name__}({_fields(value)})"
        case np.generic():
            return str(value)
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
    return str(value)

"""What a node of a float graph costs."""

from __future__ import annotations

from math import prod

from ...ir.visit import walk_expr
from .graph import FloatGraph, Node
from .operators import AveragePool, Convolution, Dense, Elementwise, LstmSteps, MatrixProduct, MaxPool


def count_operations(graph: FloatGraph, node: Node) -> int:
    """Floating-point operations: two a multiply-add of a convolution or product, one an element-wise step."""
    size = prod(graph.tensors[node.output].shape)
    match node.operator:
        case Convolution(transposed=True):
            weight = graph.tensors[node.inputs[1]].shape
            return (
                2
                * prod(graph.tensors[node.inputs[0]].shape)
                * prod(weight)
                // weight[1]
                // node.operator.groups
            )
        case LstmSteps():
            return 2 * 4 * size * graph.tensors[node.output].shape[-1]
        case MatrixProduct():
            return 2 * size * graph.tensors[node.inputs[0]].shape[-1]
        case Convolution():
            return 2 * size * prod(graph.tensors[node.inputs[1]].shape[1:])
        case Dense():
            return 2 * size * graph.tensors[node.inputs[1]].shape[0]
        case MaxPool(window=window) | AveragePool(window=window):
            return size * prod(window.kernel)
        case Elementwise(body=body):
            return size * sum(1 for e in walk_expr(body) if hasattr(e, "op") or hasattr(e, "function"))
    return 0

"""Work of a node: multiplies, and operations on a processor.

Definitions are those of docs/measures.md: multiplies by padding elements count, as in every published number. Only
convolutions and matrix products have multiplies; every other operator counts 0.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..ir.visit import walk_expr
from ..te.ops.recurrent import GATES
from .graph import Graph, Node
from .int8_convolution import Int8Convolution
from .int8_operators import (
    Attention,
    Int8AveragePool,
    Int8Elementwise,
    Int8MaxPool,
    Normed,
    PositionSums,
    Products,
    TransposedProduct,
)
from .operators import (
    AveragePool,
    Convolution,
    Dense,
    DotProductAttention,
    Elementwise,
    LstmSteps,
    MatrixProduct,
    MaxPool,
    RecurrentSteps,
)


def convolution_shape(graph: Graph, node: Node, operator: Int8Convolution) -> tuple[int, int, int, int]:
    """Shape (N, O, OH, OW) of the result of the convolution `operator` in `node`, before a fused pool."""
    batch, _, height, width = graph.tensors[node.inputs[0]].nchw
    if operator.taken is not None:
        height, width = operator.taken, 1
    return (batch, operator.weight.shape[0], *operator.window.outputs(height, width))


def count_macs(graph: Graph, node: Node) -> int:
    """Multiplies of the ONNX convolution or matrix product in a node."""
    node = as_convolution(node)
    if isinstance(operator := node.operator, Attention):
        return sum(
            count_macs(graph, replace(node, operator=item)) for item in (operator.scores, operator.context)
        )
    if isinstance(operator := node.operator, Products):
        return len(operator.groups) * operator.rows * operator.columns * operator.depth
    if not isinstance(operator, Int8Convolution) or not operator.share:
        return 0
    batch, outputs, height, width = convolution_shape(graph, node, operator)
    if (phases := operator.phases) is not None:
        rows, columns = (
            sum(phases.taps(axis)[phase] for phase in phases.remainders(axis)) for axis in range(2)
        )
        return batch * phases.outputs[0] * operator.weight.shape[1] * rows * columns
    return batch * outputs * height * width * operator.weight[0].size


def as_convolution(node: Node) -> Node:
    """Some nodes fuse a convolution with a further step (TransposedProduct, Normed); for such a node, the convolution
    as a node of its own. For a node with PositionSums, a node with its matrix products. Any other node is returned
    unchanged."""
    operator = node.operator
    if isinstance(operator, PositionSums):
        return replace(node, operator=operator.products)
    return (
        replace(node, operator=operator.convolution)
        if isinstance(operator, TransposedProduct | Normed)
        else node
    )


def count_operations(graph: Graph, node: Node) -> int:
    """Operations of a node on a processor. A multiply-add of a convolution, product or recurrent layer counts two; an
    element-wise step, and an element of a pool's window, count one. All other operators count 0."""
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
        case RecurrentSteps(cell=cell):
            return 2 * GATES[cell] * size * graph.tensors[node.output].shape[-1]
        case MatrixProduct():
            return 2 * size * graph.tensors[node.inputs[0]].shape[-1]
        case DotProductAttention():
            from .attention import sizes_of

            sizes = sizes_of(graph, node)
            return 2 * prod(sizes.batch) * sizes.rows * sizes.keys * (sizes.depth + sizes.columns)
        case Convolution():
            return 2 * size * prod(graph.tensors[node.inputs[1]].shape[1:])
        case Dense():
            return 2 * size * graph.tensors[node.inputs[0]].shape[1]
        case Int8Convolution():
            return 2 * count_macs(graph, node)
        case Int8Elementwise():
            return size
        case (
            MaxPool(window=window)
            | AveragePool(window=window)
            | Int8MaxPool(window=window)
            | Int8AveragePool(window=window)
        ):
            return size * prod(window.kernel)
        case Elementwise(body=body):
            return size * sum(1 for e in walk_expr(body) if hasattr(e, "op") or hasattr(e, "function"))
    return 0

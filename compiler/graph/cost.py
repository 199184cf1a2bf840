"""Work of a node for the roofline: multiplies and compulsory bytes, without padding to blocks; and its operations on a
processor.

Definitions are those of docs/measures.md: multiplies by padding positions count (as in every published number); the
input elements that some window reads, weights and output count once at int8 size, biases at four bytes. Only
convolutions and matrix products have work; every other operator counts 0.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ..ir.visit import walk_expr
from ..te.blocks import Pair, Window
from ..te.ops.recurrent import GATES
from .geometry import plane_read
from .graph import Graph, Node
from .int8_operators import (
    Attention,
    Group,
    Int8AveragePool,
    Int8Convolution,
    Int8Elementwise,
    Int8MaxPool,
    Normed,
    Products,
    TransposedProduct,
)
from .operators import (
    AveragePool,
    Convolution,
    Dense,
    Elementwise,
    LstmSteps,
    MatrixProduct,
    MaxPool,
    RecurrentSteps,
)

if TYPE_CHECKING:
    from vdla.isa.config import Config


def convolution_shape(graph: Graph, node: Node, operator: Int8Convolution) -> tuple[int, int, int, int]:
    """Shape (N, O, OH, OW) of a convolution's result before a fused pool."""
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


def input_read(graph: Graph, node: Node, *, fused: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of a node's first input that some window reads: bool (H,) and bool (W,).

    With `fused`, windows of a convolution that its fused pool skips are not counted; without it the convolution is
    taken without its pool.
    """
    height, width = graph.tensors[node.inputs[0]].nchw[2:]
    match as_convolution(node).operator:
        case Int8Convolution(taken=int(taken)):
            rows, columns = divmod(np.arange(height * width), width)
            return np.isin(np.arange(height), rows[:taken]), np.isin(np.arange(width), columns[:taken])
        case Int8Convolution(window=window, pool=pool):
            outputs = None
            if pool is not None and fused:
                outputs = plane_read(window.outputs(height, width), pool)
            return plane_read((height, width), window, outputs)
        case Int8MaxPool(window=window) | Int8AveragePool(window=window):
            return plane_read((height, width), window)
        case _:
            # Operators without windows read every position.
            return np.ones(height, dtype=bool), np.ones(width, dtype=bool)


def input_bytes(graph: Graph, node: Node, *, fused: bool = True) -> int:
    """Bytes (one for each int8 element) of a node's first input that some window reads, see `input_read`."""
    batch, channels, _, _ = graph.tensors[node.inputs[0]].nchw
    rows, columns = input_read(graph, node, fused=fused)
    return batch * channels * int(rows.sum()) * int(columns.sum())


def compulsory_bytes(graph: Graph, node: Node) -> int:
    """Compulsory traffic, in bytes, of the ONNX convolution or matrix product in a node: the input elements that some
    window reads, weights, output and biases.

    A node that is one part of a divided convolution counts its share of the input.
    """
    node = as_convolution(node)
    if isinstance(operator := node.operator, Attention):
        # Scores and attention weights stay on the chip.
        return sum(graph.tensors[name].size for name in (*node.inputs, node.output))
    if isinstance(operator := node.operator, Products):
        rows, columns, depth, groups = operator.rows, operator.columns, operator.depth, operator.groups
        left, right = ({(group.image, *side) for group, side in sides} for sides in _sides(operator))
        return len(left) * rows * depth + len(right) * columns * depth + len(groups) * rows * columns
    if not isinstance(operator, Int8Convolution) or not operator.share:
        return 0
    batch, outputs, height, width = convolution_shape(graph, node, operator)
    weights = operator.weight.size
    if (phases := operator.phases) is not None:
        outputs, height, width = phases.outputs
        weights = outputs * operator.weight.shape[1] * prod(phases.kernel)
    result = batch * outputs * height * width
    images, channels, *plane = graph.tensors[node.inputs[0]].nchw
    positions = _positions_read((plane[0], plane[1]), operator.window)
    read = images * channels * (positions if operator.taken is None else operator.taken)
    return round(read * operator.share) + weights + result + 4 * outputs


def as_convolution(node: Node) -> Node:
    """The convolution inside a TransposedProduct or Normed node, as a node; any other node itself."""
    operator = node.operator
    return (
        replace(node, operator=operator.convolution)
        if isinstance(operator, TransposedProduct | Normed)
        else node
    )


def _sides(operator: Products) -> tuple[list[tuple[Group, Pair]], list[tuple[Group, Pair]]]:
    """Two lists, for the left and the right factors of the products: every group, with the position of the first
    element of its factor.
    """
    groups = operator.groups
    return [(group, group.a) for group in groups], [(group, group.b) for group in groups]


def _positions_read(plane: Pair, window: Window) -> int:
    """Number of positions of an (H, W) plane that a window reads."""
    rows, columns = plane_read(plane, window)
    return int(rows.sum()) * int(columns.sum())


def roofline_cycles(graph: Graph, node: Node, config: Config) -> float:
    """Roofline of a node in cycles: its multiplies at full use of the array, or its bytes on the bus, whichever takes
    longer.
    """
    compute = count_macs(graph, node) / config.multiplies_per_cycle
    return max(compute, compulsory_bytes(graph, node) / config.memory.bus_bytes)


def count_operations(graph: Graph, node: Node) -> int:
    """Operations of a node on a processor: two for each multiply-add of a convolution or product, one for each
    element-wise step."""
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
        case Convolution():
            return 2 * size * prod(graph.tensors[node.inputs[1]].shape[1:])
        case Dense():
            return 2 * size * graph.tensors[node.inputs[1]].shape[0]
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

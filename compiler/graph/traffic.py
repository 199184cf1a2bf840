"""Bytes that a node must read and write, without padding to blocks, and the cycles of its roofline.

Definitions are those of docs/measures.md. Each weight, each output element, and each input element that a window reads
counts one byte. A bias counts four bytes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.timing import bus_cycles

from ..te.blocks import Pair, Window
from .cost import as_convolution, convolution_shape, count_macs
from .geometry import plane_read
from .graph import Graph, Node
from .int8_convolution import Int8Convolution
from .int8_operators import Attention, Group, Int8AveragePool, Int8MaxPool, Products

if TYPE_CHECKING:
    from vdla.isa.config import Config


def input_read(graph: Graph, node: Node, *, fused: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Finds the rows and columns of a node's first input that some window reads. Returns two bool arrays: (H,) for rows
    and (W,) for columns.

    With `fused`, a window of a convolution counts only if the pool that is fused with the convolution reads the
    window's result. Without `fused`, the pool is ignored.
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
    """Number of bytes of a node's first input that are read. Each element that a window reads counts one byte. With
    `fused`, a window of a convolution counts only if the pool that is fused with the convolution reads the window's
    result (`input_read`).
    """
    batch, channels, _, _ = graph.tensors[node.inputs[0]].nchw
    rows, columns = input_read(graph, node, fused=fused)
    return batch * channels * int(rows.sum()) * int(columns.sum())


def compulsory_bytes(graph: Graph, node: Node) -> int:
    """The least number of bytes that a convolution or matrix product must move: the input elements that some window
    reads, the weights, the output and the biases. Operators that are fused with the node are not counted. Returns 0 for
    a node of any other operator.
    """
    return sum(compulsory_traffic(graph, node))


def compulsory_traffic(graph: Graph, node: Node) -> tuple[int, int]:
    """The least number of bytes that a convolution or matrix product must read, and the least that it must write
    (`compulsory_bytes` is their sum). Returns (0, 0) for a node of any other operator.

    A node may compute only a part of a convolution's filters (`share`, below 1). Then the same part of the input's
    bytes is counted.
    """
    node = as_convolution(node)
    if isinstance(operator := node.operator, Attention):
        # Scores and attention weights stay on the chip.
        return sum(graph.tensors[name].size for name in node.inputs), graph.tensors[node.output].size
    if isinstance(operator := node.operator, Products):
        rows, columns, depth, groups = operator.rows, operator.columns, operator.depth, operator.groups
        left, right = ({(group.image, *side) for group, side in sides} for sides in _sides(operator))
        return len(left) * rows * depth + len(right) * columns * depth, len(groups) * rows * columns
    if not isinstance(operator, Int8Convolution) or not operator.share:
        return 0, 0
    batch, outputs, height, width = convolution_shape(graph, node, operator)
    weights = operator.weight.size
    if (phases := operator.phases) is not None:
        outputs, height, width = phases.outputs
        weights = outputs * operator.weight.shape[1] * prod(phases.kernel)
    images, channels, *plane = graph.tensors[node.inputs[0]].nchw
    positions = _positions_read((plane[0], plane[1]), operator.window)
    read = images * channels * (positions if operator.taken is None else operator.taken)
    return round(read * operator.share) + weights + 4 * outputs, batch * outputs * height * width


def _sides(operator: Products) -> tuple[list[tuple[Group, Pair]], list[tuple[Group, Pair]]]:
    """The left factors and the right factors of the matrix products in `operator`. Each factor is a pair: its product
    (`Group`), and the place of its first element, (channel, row-major index of the pixel).
    """
    groups = operator.groups
    return [(group, group.a) for group in groups], [(group, group.b) for group in groups]


def _positions_read(plane: Pair, window: Window) -> int:
    """Number of elements of an (H, W) plane that some window reads."""
    rows, columns = plane_read(plane, window)
    return int(rows.sum()) * int(columns.sum())


def roofline_cycles(graph: Graph, node: Node, config: Config) -> float:
    """Roofline bound of a node in cycles: the greater of two times. One is the time of the node's multiplies at full
    use of the array; the other is the time in which the bus moves the bytes that the node must move
    (`compulsory_traffic`).
    """
    compute = count_macs(graph, node) / config.multiplies_per_cycle
    moved = bus_cycles(config, *compulsory_traffic(graph, node))
    return max(compute, float(moved) / config.memory.bus_bytes)


def most_bytes_per_cycle(config: Config) -> int:
    """The most bytes that the bus moves in a cycle: one beat or, with separate data channels, one beat in each
    direction.
    """
    return 2 * config.memory.bus_bytes // int(bus_cycles(config, 1, 1))

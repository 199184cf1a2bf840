"""True work of a node, for the roofline: multiplies and compulsory bytes, before padding to any block.

Definitions are those of docs/measures.md: padding positions count as multiplies (as they do in every published count);
the input elements that some window reads, weights and output count once at int8 size, biases at four bytes. Only
convolutions and matrix products have work; every other operator counts 0.
"""

from __future__ import annotations

import numpy as np
from vdla.isa.config import Config

from .geometry import output_plane, plane_read
from .graph import AveragePool, Convolution, Graph, MaxPool, Node, reads


def convolution_shape(graph: Graph, node: Convolution) -> tuple[int, int, int, int]:
    """(N, O, OH, OW) of the convolution itself, before a fused pool."""
    batch, _, height, width = graph.tensors[node.data].nchw
    kernel = (node.weight.shape[2], node.weight.shape[3])
    plane = output_plane((height, width), kernel, node.strides, node.dilations, node.pads)
    return (batch, node.weight.shape[0], *plane)


def count_macs(graph: Graph, node: Node) -> int:
    """Multiplies of the ONNX convolution or matrix product in a node."""
    if not isinstance(node, Convolution):
        return 0
    batch, outputs, height, width = convolution_shape(graph, node)
    return batch * outputs * height * width * node.weight[0].size


def input_read(graph: Graph, node: Node, *, fused: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of a node's (first) input that some window reads: bool (H,) and bool (W,).

    Windows of a convolution whose sums a fused pool passes over do not count; but with `fused` False, where the
    convolution stands by itself.
    """
    match node:
        case Convolution(
            data=data, weight=weight, strides=strides, dilations=dilations, pads=pads, pool=pool
        ):
            kernel, plane = (weight.shape[2], weight.shape[3]), graph.tensors[data].nchw[2:]
            outputs = None
            if pool is not None and fused:
                sums = output_plane(plane, kernel, strides, dilations, pads)
                outputs = plane_read(sums, pool.kernel, pool.strides, (1, 1), pool.pads)
            return plane_read(plane, kernel, strides, dilations, pads, outputs)
        case MaxPool(data=data) | AveragePool(data=data):
            return plane_read(graph.tensors[data].nchw[2:], node.kernel, node.strides, (1, 1), node.pads)
        case _:
            # Whatever has no windows reads all.
            height, width = graph.tensors[reads(node)[0]].nchw[2:]
            return np.ones(height, dtype=bool), np.ones(width, dtype=bool)


def input_bytes(graph: Graph, node: Node, *, fused: bool = True) -> int:
    """Elements of a node's (first) input that some window reads, see `input_read`; each is a byte."""
    batch, channels, _, _ = graph.tensors[reads(node)[0]].nchw
    rows, columns = input_read(graph, node, fused=fused)
    return batch * channels * int(rows.sum()) * int(columns.sum())


def compulsory_bytes(graph: Graph, node: Node) -> int:
    """Bytes that the ONNX convolution or matrix product in a node cannot avoid to move: the input elements that some
    window reads, weights, output and biases."""
    if not isinstance(node, Convolution):
        return 0
    batch, outputs, height, width = convolution_shape(graph, node)
    result = batch * outputs * height * width
    return input_bytes(graph, node, fused=False) + node.weight.size + result + 4 * outputs


def roofline_cycles(graph: Graph, node: Node, config: Config) -> float:
    """Cycles that a node takes at least: its multiplies at one array step a cycle, or its bytes on the bus."""
    compute = count_macs(graph, node) / config.multiplies_per_cycle
    return max(compute, compulsory_bytes(graph, node) / config.memory.bus_bytes)

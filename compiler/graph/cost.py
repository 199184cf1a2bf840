"""True work of a node, for the roofline: multiplies and compulsory bytes, before padding to any block.

Definitions are those of the project's measures: padding positions count as multiplies (as they do in every
published count), input, weights and output count once at int8 size, biases at four bytes. Only convolutions
and matrix products have work; every other operator counts 0.
"""

from __future__ import annotations

from vdla.isa.config import Config

from .geometry import output_plane
from .graph import Convolution, Graph, Node


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


def compulsory_bytes(graph: Graph, node: Node) -> int:
    """Bytes of input, weights, output and biases of the ONNX convolution or matrix product in a node."""
    if not isinstance(node, Convolution):
        return 0
    batch, outputs, height, width = convolution_shape(graph, node)
    result = batch * outputs * height * width
    return graph.tensors[node.data].size + node.weight.size + result + 4 * outputs


def roofline_cycles(graph: Graph, node: Node, config: Config) -> float:
    """Cycles that a node takes at least: its multiplies at one array step a cycle, or its bytes on the bus."""
    compute = count_macs(graph, node) / config.multiplies_per_cycle
    return max(compute, compulsory_bytes(graph, node) / config.memory.bus_bytes)

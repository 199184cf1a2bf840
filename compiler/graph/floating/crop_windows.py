"""Drops the rows and columns of convolution windows that read padding only, at every position (dilated windows)."""

from __future__ import annotations

from dataclasses import replace

from ...te.blocks import Window
from ..geometry import cropped
from ..graph import Graph, Node, with_tensors
from ..names import unused
from ..operators import Convolution


def crop_windows(graph: Graph) -> Graph:
    """The graph with each convolution's window cut to the taps that meet the input.

    A 3x3 window with a dilation of 24 on 14 x 14 positions becomes a 1x1 window.
    """
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        if isinstance(node.operator, Convolution) and not node.operator.transposed:
            height, width = graph.data_shape(node)[2:]
            kept, window = cropped(node.operator.window, (height, width))
            if window != node.operator.window:
                graph, node = _with_window(graph, node, kept, window)
                changed = True
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes)) if changed else graph


def _with_window(graph: Graph, node: Node, kept: tuple[slice, slice], window: Window) -> tuple[Graph, Node]:
    assert isinstance(node.operator, Convolution)
    old, (rows, columns) = node.inputs[1], kept
    weight = graph.constants[old][:, :, rows, columns]
    name = unused(f"{old}.cropped", graph.tensors)
    graph = with_tensors(graph, replace(graph.tensors[old], name=name, shape=weight.shape))
    graph = replace(graph, constants={**graph.constants, name: weight})
    inputs = (node.inputs[0], name, *node.inputs[2:])
    return graph, replace(node, operator=replace(node.operator, window=window), inputs=inputs)

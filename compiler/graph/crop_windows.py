"""Removes the outer taps (rows and columns of the window) of convolutions that read only padding for every output
(dilated windows).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.isa.arithmetic import wrap_int32

from ..te.blocks import Pair, Window
from .graph import Graph, Node, unused, with_tensors
from .int8_convolution import Int8Convolution
from .operators import Convolution


def cropped(window: Window, plane: Pair) -> tuple[tuple[slice, slice], Window]:
    """`window` without the outer taps (rows and columns of the window) that read only padding for every output of an
    input plane (H, W).

    Returns the rows and columns of taps that remain, and the smaller window. Windows with large dilations have such
    taps.
    """
    slices: list[slice] = []
    ends, outputs = list(window.pads), window.outputs(*plane)
    for axis, size in enumerate(plane):
        taps, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
        begin, end = ends[axis], ends[axis + 2]
        starts = np.arange(outputs[axis])[:, None] * stride + np.arange(taps) * dilation - begin
        live = np.flatnonzero(((starts >= 0) & (starts < size)).any(axis=0))
        first, last = 0, taps - 1
        if live.size:
            # Pads are never negative.
            first, last = min(int(live[0]), begin // dilation), max(int(live[-1]), taps - 1 - end // dilation)
        ends[axis], ends[axis + 2] = begin - first * dilation, end - (taps - 1 - last) * dilation
        slices.append(slice(first, last + 1))
    rows, columns = slices
    kernel = (rows.stop - rows.start, columns.stop - columns.start)
    if kernel == window.kernel:
        return (rows, columns), window
    dy, dx = (1 if taps == 1 else d for taps, d in zip(kernel, window.dilations, strict=True))
    pads = (ends[0], ends[1], ends[2], ends[3])
    return (rows, columns), replace(window, kernel=kernel, pads=pads, dilations=(dy, dx))


def crop_windows(graph: Graph) -> Graph:
    """The graph in which each convolution's window is cut to the taps (positions in the window) that read the input.

    A 3x3 window with a dilation of 24 on 14 x 14 pixels becomes a 1x1 window.
    """
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        if isinstance(node.operator, Convolution) and not node.operator.transposed:
            height, width = graph.data_shape(node)[2:]
            slices, window = cropped(node.operator.window, (height, width))
            if window != node.operator.window:
                graph, node = _with_window(graph, node, slices, window)
                changed = True
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes)) if changed else graph


def _with_window(graph: Graph, node: Node, slices: tuple[slice, slice], window: Window) -> tuple[Graph, Node]:
    assert isinstance(node.operator, Convolution)
    old, (rows, columns) = node.inputs[1], slices
    weight = graph.constants[old][:, :, rows, columns]
    name = unused(f"{old}.cropped", graph.tensors)
    graph = with_tensors(graph, replace(graph.tensors[old], name=name, shape=weight.shape))
    graph = replace(graph, constants={**graph.constants, name: weight})
    inputs = (node.inputs[0], name, *node.inputs[2:])
    return graph, replace(node, operator=replace(node.operator, window=window), inputs=inputs)


def crop_taps(graph: Graph) -> Graph:
    """The graph in which convolutions lack outer taps (positions in the window) that read only padding for every
    output.

    Windows with large dilations have such taps. A tap of this kind adds the same value to every output: its weights
    times the pad value.
    """
    nodes = [
        replace(node, operator=_cropped(operator, graph.tensors[node.inputs[0]].nchw))
        if isinstance(operator := node.operator, Int8Convolution) and operator.phases is None
        else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))


def _cropped(operator: Int8Convolution, shape: tuple[int, int, int, int]) -> Int8Convolution:
    (rows, columns), window = cropped(operator.window, shape[2:])
    if window == operator.window:
        return operator
    weight = operator.weight[:, :, rows, columns]
    total = operator.weight.sum(axis=(1, 2, 3), dtype=np.int64) - weight.sum(axis=(1, 2, 3), dtype=np.int64)
    bias = wrap_int32(operator.bias.astype(np.int64) + operator.pad_value * total)
    window = replace(window, dilations=operator.window.dilations)
    return replace(operator, weight=weight, bias=bias, window=window)

"""Shrinks the windows of convolutions. In a window with a large dilation, outer rows and columns may read only padding
for every output; these rows and columns are removed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.isa.arithmetic import wrap_int32

from ..graph.graph import Graph, Node, unused, with_tensors
from ..graph.int8_convolution import Int8Convolution
from ..graph.operators import Convolution
from ..te.blocks import Pair, Window


def cropped(window: Window, plane: Pair) -> tuple[tuple[slice, slice], Window]:
    """Removes outer rows and columns of `window` that read only padding for every output, on an input `plane` (H, W).

    Returns the rows and columns of the window that remain, as slices, and the smaller window.
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
    """Removes from each convolution's window, float or int8, the outer rows and columns that read only padding.

    A 3x3 window with a dilation of 24 on 14 x 14 pixels becomes a 1x1 window.
    """
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        operator = node.operator
        if isinstance(operator, Convolution) and not operator.transposed:
            height, width = graph.data_shape(node)[2:]
            if operator.window.has_pad_taps(height, width):
                graph, node = _cropped_float(graph, node, operator, (height, width))
        elif isinstance(operator, Int8Convolution) and operator.phases is None:
            height, width = graph.tensors[node.inputs[0]].nchw[2:]
            if operator.window.has_pad_taps(height, width):
                node = replace(node, operator=_cropped_int8(operator, (height, width)))
        changed = changed or node.operator is not operator
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes)) if changed else graph


def _cropped_float(graph: Graph, node: Node, operator: Convolution, plane: Pair) -> tuple[Graph, Node]:
    """Shrinks a float convolution's window on an input plane (H, W); returns (graph with smaller weights, new node)."""
    (rows, columns), window = cropped(operator.window, plane)
    if window == operator.window:
        return graph, node
    old = node.inputs[1]
    weight = graph.constants[old][:, :, rows, columns]
    name = unused(f"{old}.cropped", graph.tensors)
    graph = with_tensors(graph, replace(graph.tensors[old], name=name, shape=weight.shape))
    graph = replace(graph, constants={**graph.constants, name: weight})
    inputs = (node.inputs[0], name, *node.inputs[2:])
    return graph, replace(node, operator=replace(operator, window=window), inputs=inputs)


def _cropped_int8(operator: Int8Convolution, plane: Pair) -> Int8Convolution:
    """Shrinks an int8 convolution's window on an input plane (H, W). Each removed element of the window has added its
    weight times the pad value to every output; the new bias contains these products instead.
    """
    (rows, columns), window = cropped(operator.window, plane)
    if window == operator.window:
        return operator
    weight = operator.weight[:, :, rows, columns]
    total = operator.weight.sum(axis=(1, 2, 3), dtype=np.int64) - weight.sum(axis=(1, 2, 3), dtype=np.int64)
    bias = wrap_int32(operator.bias.astype(np.int64) + operator.pad_value * total)
    window = replace(window, dilations=operator.window.dilations)
    return replace(operator, weight=weight, bias=bias, window=window)

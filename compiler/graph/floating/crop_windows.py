"""Drops the rows and columns of convolution windows that read padding only, at every position (dilated windows)."""

from __future__ import annotations

from dataclasses import replace

from ...te.blocks import Window
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
            first, window = cropped(node.operator.window, height, width)
            if window != node.operator.window:
                graph, node = _with_window(graph, node, first, window)
                changed = True
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes)) if changed else graph


def cropped(window: Window, height: int, width: int) -> tuple[tuple[int, int], Window]:
    """The first row and column of the window that stay, and the cut window, for `height` x `width` input positions."""
    outputs = window.outputs(height, width)
    before, after = [0, 0], [0, 0]
    for axis, size in enumerate((height, width)):
        kernel, dilation = window.kernel[axis], window.dilations[axis]
        pad, pad_behind = window.pads[axis], window.pads[axis + 2]
        reach = (outputs[axis] - 1) * window.strides[axis]
        # Each dropped tap takes `dilation` positions from the padding; dropping ends where less padding is left.
        while before[axis] < kernel - 1 and reach + before[axis] * dilation < pad:
            if pad < (before[axis] + 1) * dilation:
                break
            before[axis] += 1
        while before[axis] + after[axis] < kernel - 1 and (kernel - 1 - after[axis]) * dilation - pad >= size:
            if pad_behind < (after[axis] + 1) * dilation:
                break
            after[axis] += 1
    rows, columns = window.dilations
    top, left, bottom, right = window.pads
    kernel = tuple([k - b - a for k, b, a in zip(window.kernel, before, after, strict=True)])
    pads = (
        top - before[0] * rows,
        left - before[1] * columns,
        bottom - after[0] * rows,
        right - after[1] * columns,
    )
    dilations = (rows if kernel[0] > 1 else 1, columns if kernel[1] > 1 else 1)
    if kernel == window.kernel:
        return (0, 0), window
    left_over = Window(kernel=(kernel[0], kernel[1]), strides=window.strides, pads=pads, dilations=dilations)
    return (before[0], before[1]), left_over


def _with_window(graph: Graph, node: Node, first: tuple[int, int], window: Window) -> tuple[Graph, Node]:
    assert isinstance(node.operator, Convolution)
    old = node.inputs[1]
    rows, columns = (slice(start, start + size) for start, size in zip(first, window.kernel, strict=True))
    weight = graph.constants[old][:, :, rows, columns]
    name = unused(f"{old}.cropped", graph.tensors)
    graph = with_tensors(graph, replace(graph.tensors[old], name=name, shape=weight.shape))
    graph = replace(graph, constants={**graph.constants, name: weight})
    inputs = (node.inputs[0], name, *node.inputs[2:])
    return graph, replace(node, operator=replace(node.operator, window=window), inputs=inputs)

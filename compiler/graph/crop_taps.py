"""Removes window taps that read only padding: their contribution moves into the bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.isa.arithmetic import wrap_int32

from ..te.blocks import Window
from .graph import Graph
from .int8_operators import Int8Convolution


def crop_taps(graph: Graph) -> Graph:
    """The graph without outer taps of convolutions that lie in the padding for every output.

    Windows with large dilations have them. Such a tap adds the same to every output: its weights times the pad value.
    """
    nodes = [
        replace(node, operator=_cropped(operator, graph.tensors[node.inputs[0]].nchw))
        if isinstance(operator := node.operator, Int8Convolution) and operator.phases is None
        else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))


def _cropped(operator: Int8Convolution, shape: tuple[int, int, int, int]) -> Int8Convolution:
    window, plane = operator.window, shape[2:]
    outputs = window.outputs(*plane)
    kept: list[slice] = []
    pads = list(window.pads)
    for axis, size in enumerate(plane):
        taps, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
        begin, end = pads[axis], pads[axis + 2]
        starts = np.arange(outputs[axis])[:, None] * stride + np.arange(taps) * dilation - begin
        live = np.flatnonzero(((starts >= 0) & (starts < size)).any(axis=0))
        if not live.size:
            kept.append(slice(0, taps))
            continue
        # Pads are never negative.
        first = min(int(live[0]), begin // dilation)
        last = max(int(live[-1]), taps - 1 - end // dilation)
        pads[axis], pads[axis + 2] = begin - first * dilation, end - (taps - 1 - last) * dilation
        kept.append(slice(first, last + 1))
    weight = operator.weight[:, :, kept[0], kept[1]]
    if weight.shape == operator.weight.shape:
        return operator
    total = operator.weight.sum(axis=(1, 2, 3), dtype=np.int64) - weight.sum(axis=(1, 2, 3), dtype=np.int64)
    kernel = (weight.shape[2], weight.shape[3])
    return replace(
        operator,
        weight=weight,
        bias=wrap_int32(operator.bias.astype(np.int64) + operator.pad_value * total),
        window=Window(
            kernel=kernel,
            strides=window.strides,
            pads=(pads[0], pads[1], pads[2], pads[3]),
            dilations=window.dilations,
        ),
    )

"""Removes window taps that read only padding: their contribution moves into the bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.isa.arithmetic import wrap_int32

from .geometry import cropped
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
    (rows, columns), window = cropped(operator.window, shape[2:])
    if window == operator.window:
        return operator
    weight = operator.weight[:, :, rows, columns]
    total = operator.weight.sum(axis=(1, 2, 3), dtype=np.int64) - weight.sum(axis=(1, 2, 3), dtype=np.int64)
    bias = wrap_int32(operator.bias.astype(np.int64) + operator.pad_value * total)
    window = replace(window, dilations=operator.window.dilations)
    return replace(operator, weight=weight, bias=bias, window=window)

"""Max-pools whose window is too large for one pass: a maximum along rows, then one along columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from .geometry import output_size
from .graph import Graph, MaxPool, Node


def split_max_pools(graph: Graph, outputs: Collection[str]) -> Graph:
    """The max-pools that compute `outputs`, if they have more than one row and column, as two of one dimension each.

    Positions outside the input never win in either, so the pads part with the dimensions. The tensor between them is
    called after the output, the node that computes it after the pool.
    """
    nodes: list[Node] = []
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        if not isinstance(node, MaxPool) or 1 in node.kernel or node.output not in outputs:
            nodes.append(node)
            continue
        top, left, bottom, right = node.pads
        n, c, height, width = graph.tensors[node.data].nchw
        columns = output_size(width, node.kernel[1], node.strides[1], 1, left, right)
        between = replace(tensors[node.output], name=f"{node.output}.rows", shape=(n, c, height, columns))
        tensors[between.name] = between
        along = replace(
            node,
            name=f"{node.name}.rows",
            output=between.name,
            kernel=(1, node.kernel[1]),
            strides=(1, node.strides[1]),
            pads=(0, left, 0, right),
        )
        across = replace(
            node,
            data=between.name,
            kernel=(node.kernel[0], 1),
            strides=(node.strides[0], 1),
            pads=(top, 0, bottom, 0),
        )
        nodes.extend((along, across))
    return replace(graph, nodes=tuple(nodes), tensors=tensors)

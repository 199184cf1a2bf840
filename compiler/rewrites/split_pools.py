"""Splits a max-pool whose window is too large for the accelerator's buffers into two max-pools: one along rows, then
one along columns.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..graph.geometry import output_size
from ..graph.graph import Graph, Node
from ..graph.int8_operators import Int8MaxPool
from ..te.blocks import Window


def split_max_pools(graph: Graph, outputs: Collection[str]) -> Graph:
    """Splits each max-pool that computes one of `outputs` into a pool along rows and a pool along columns, if its
    window has more than one row and more than one column.

    Elements outside the input never win in either pool, so each pool gets the pads of its own dimension. The tensor
    between the two pools is called OUTPUT.rows, and the node that computes this tensor NODE.rows.
    """
    nodes: list[Node] = []
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        operator = node.operator
        if not isinstance(operator, Int8MaxPool) or 1 in operator.window.kernel or node.output not in outputs:
            nodes.append(node)
            continue
        window = operator.window
        top, left, bottom, right = window.pads
        n, c, height, width = graph.tensors[node.inputs[0]].nchw
        columns = output_size(width, window.kernel[1], window.strides[1], 1, left, right)
        between = replace(tensors[node.output], name=f"{node.output}.rows", shape=(n, c, height, columns))
        tensors[between.name] = between
        along = replace(
            node,
            name=f"{node.name}.rows",
            output=between.name,
            operator=Int8MaxPool(
                window=Window(
                    kernel=(1, window.kernel[1]), strides=(1, window.strides[1]), pads=(0, left, 0, right)
                )
            ),
        )
        across = replace(
            node,
            inputs=(between.name,),
            operator=Int8MaxPool(
                window=Window(
                    kernel=(window.kernel[0], 1), strides=(window.strides[0], 1), pads=(top, 0, bottom, 0)
                )
            ),
        )
        nodes.extend((along, across))
    return replace(graph, nodes=tuple(nodes), tensors=tensors)

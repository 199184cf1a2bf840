"""Repairs two faults of graphs that ONNX Runtime accepts, but that ONNX's checker refuses or other readers misread:
nodes listed before the nodes whose results they read, and outputs listed twice.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

import onnx
from onnx import checker

from ..attributes import nodes_of, subgraphs


def sort_nodes(graph: onnx.GraphProto) -> None:
    """Moves each node of `graph` behind the nodes whose results it reads; results that its subgraphs read count, too.

    The order changes only where it must. Nodes of subgraphs keep their order. A graph whose nodes read each other's
    results in a cycle is not changed.
    """
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    sorter = TopologicalSorter[int]()
    for place, node in enumerate(graph.node):
        read = list(node.input)
        for body in subgraphs(node):
            read += [info.name for info in body.output]
            read += [name for _, reader in nodes_of(body) for name in reader.input]
        sorter.add(place, *(makers[name] for name in read if name in makers))
    try:
        sorter.prepare()
    except CycleError:
        return
    nodes: list[onnx.NodeProto] = []
    ready: list[int] = []
    while sorter.is_active():
        for place in sorter.get_ready():
            heappush(ready, place)
        first = heappop(ready)
        nodes.append(graph.node[first])
        sorter.done(first)
    del graph.node[:]
    graph.node.extend(nodes)


def check_sorted(model: onnx.ModelProto) -> None:
    """Sorts the nodes of `model` by `sort_nodes`. Raises ValidationError if ONNX's checker still refuses the model."""
    sort_nodes(model.graph)
    checker.check_model(model)


def name_outputs_once(graph: onnx.GraphProto) -> None:
    """Removes duplicates from the list of outputs of `graph`. Outputs with equal names are one tensor, and results are
    returned by name.
    """
    outputs = {info.name: info for info in reversed(graph.output)}
    unique = [outputs[name] for name in dict.fromkeys(info.name for info in graph.output)]
    del graph.output[:]
    graph.output.extend(unique)

"""Dead-code elimination: removes nodes, tensors and constants that no output depends on."""

from __future__ import annotations

from dataclasses import replace

from .graph import Graph, Node


def remove_dead(graph: Graph) -> Graph:
    """The graph without nodes, tensors and constants that no output depends on. Inputs stay."""
    live = {output.tensor for output in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not live.isdisjoint(node.outputs):
            kept.append(node)
            live.update(node.inputs, node.outputs)
    live.update(entry.tensor for entry in graph.inputs)
    if len(kept) == len(graph.nodes) and live >= graph.tensors.keys():
        return graph
    return replace(
        graph,
        nodes=tuple(reversed(kept)),
        tensors={name: tensor for name, tensor in graph.tensors.items() if name in live},
        constants={name: array for name, array in graph.constants.items() if name in live},
    )

"""Rewrites of graphs as rows of a table.

Each row names the operators that its rewrite changes (roots). A rewrite is neither imported nor run for a graph without
its roots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ..graph.graph import Graph, Node
from ..graph.printer import format_graph

Target = TypeVar("Target")
Dump = Callable[[str, str], None]


def _every_target(_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite(Generic[Target]):
    """A rewrite of a graph for a target; the new graph computes the same results.

    `roots`: classes of the operators that the rewrite changes (None: any operator); the rewrite is skipped for a graph
    without them. `takes`: whether a target can run the rewritten nodes. `function` imports the rewrite and returns the
    rewritten graph, or the same object if nothing was rewritten.
    """

    name: str
    function: Callable[[Graph, Target], Graph]
    roots: tuple[type, ...] | None = None
    takes: Callable[[Target], bool] = _every_target


def run_rewrites(
    graph: Graph, rows: Sequence[Rewrite[Target]], target: Target, dump: Dump | None = None
) -> Graph:
    """Applies the rewrites `rows`, in their order, and returns the resulting graph. A rewrite is skipped if the graph
    has none of the rewrite's operators (`roots`), or if `target` cannot run the rewritten nodes. `dump(name, text)`, if
    given, receives each rewrite's name and the new graph's text, or "(unchanged)"."""
    for row in rows:
        occurring = {type(node.operator) for node in graph.nodes}
        result = graph
        if (row.roots is None or not occurring.isdisjoint(row.roots)) and row.takes(target):
            result = row.function(graph, target)
        if dump is not None:
            dump(row.name, "(unchanged)\n" if result is graph else format_graph(result))
        graph = result
    return graph


def remove_dead(graph: Graph) -> Graph:
    """The graph without nodes, tensors and constants that no output depends on. Inputs stay."""
    live = {output.tensor for output in graph.outputs}
    used: list[Node] = []
    for node in reversed(graph.nodes):
        if not live.isdisjoint(node.outputs):
            used.append(node)
            live.update(node.inputs, node.outputs)
    live.update(entry.tensor for entry in graph.inputs)
    if len(used) == len(graph.nodes) and live >= graph.tensors.keys():
        return graph
    return replace(
        graph,
        nodes=tuple(reversed(used)),
        tensors={name: tensor for name, tensor in graph.tensors.items() if name in live},
        constants={name: array for name, array in graph.constants.items() if name in live},
    )

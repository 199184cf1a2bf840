"""Rewrites of graphs as rows of a table. Each row names the operators that its rewrite begins at.

A graph without these operators does not meet the rewrite: neither its code is imported nor a node is asked about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .graph import Graph
from .printer import format_graph

Target = TypeVar("Target")
Dump = Callable[[str, str], None]


def _every_target(_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite(Generic[Target]):
    """A rewrite of a graph for a target, which computes the same results.

    `roots` are classes of operators: a graph without a node of one of them has nothing to rewrite. None stands for
    every operator. `takes` says whether a target can run the rewritten nodes. `function` imports the rewrite and
    returns the rewritten graph, or the same object where nothing was rewritten.
    """

    name: str
    function: Callable[[Graph, Target], Graph]
    roots: tuple[type, ...] | None = None
    takes: Callable[[Target], bool] = _every_target


def run_rewrites(
    graph: Graph, rows: Sequence[Rewrite[Target]], target: Target, dump: Dump | None = None
) -> Graph:
    """The graph after the rewrites of all rows, in their order, whose operators occur when their turn comes.

    `dump(name, text)` gets the graph after each row.
    """
    for row in rows:
        occurring = {type(node.operator) for node in graph.nodes}
        result = graph
        if (row.roots is None or not occurring.isdisjoint(row.roots)) and row.takes(target):
            result = row.function(graph, target)
        if dump is not None:
            dump(row.name, "(unchanged)\n" if result is graph else format_graph(result))
        graph = result
    return graph

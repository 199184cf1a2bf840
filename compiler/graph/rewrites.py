"""Rewrites of graphs as rows of a table. Each row names the operators that its rewrite begins at.

A graph without these operators does not meet the rewrite: neither its code is imported nor a node is asked about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .graph import Graph

Target = TypeVar("Target")


def _every_target(_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite(Generic[Target]):
    """A rewrite of a graph for a target, which computes the same results.

    `roots` are classes of operators: a graph without a node of one of them has nothing to rewrite. `takes` says whether
    a target can run the rewritten nodes. `function` imports the rewrite and returns the rewritten graph.
    """

    name: str
    roots: tuple[type, ...]
    function: Callable[[Graph, Target], Graph]
    takes: Callable[[Target], bool] = _every_target


def run_rewrites(graph: Graph, rows: Sequence[Rewrite[Target]], target: Target) -> Graph:
    """The graph after the rewrites of all rows, in their order, whose operators occur when their turn comes."""
    for row in rows:
        occurring = {type(node.operator) for node in graph.nodes}
        if not occurring.isdisjoint(row.roots) and row.takes(target):
            graph = row.function(graph, target)
    return graph

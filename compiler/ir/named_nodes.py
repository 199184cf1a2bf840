"""Finds and replaces loops and statements by their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .stmt import (
    Assign,
    Copy,
    For,
    Intrinsic,
    NamedStmt,
    Node,
    Reduce,
    Stmt,
)
from .visit import N, loops, map_children, path_to, walk


def find_loop(node: Node, name: str) -> For:
    """The loop called `name`; raises LookupError if there is none."""
    for loop in loops(node):
        if loop.var.name == name:
            return loop
    raise LookupError(f"no loop named {name!r}; there are: {', '.join(loop.name for loop in loops(node))}")


def find_statement(node: Node, name: str) -> NamedStmt:
    """The first Assign, Reduce, Copy or Intrinsic called `name`; raises LookupError if there is none."""
    known: list[str] = []
    for s in walk(node):
        if isinstance(s, Assign | Reduce | Copy | Intrinsic):
            if s.name == name:
                return s
            known.append(s.name)
    raise LookupError(f"no statement named {name!r}; there are: {', '.join(known)}")


def enclosing_loops(node: Node, name: str) -> tuple[For, ...]:
    """The loops in `node` around the loop or statement called `name` (without itself), outermost first. Raises
    LookupError if there is no such name.
    """
    return tuple(n for n in path_to(node, name)[:-1] if isinstance(n, For))


def rewrite_at(node: N, name: str, rewrite: Callable[[Stmt], Stmt]) -> N:
    """The tree `node` in which function `rewrite` has replaced the loop or statement called `name`; only the nodes on
    the path to it are new. Raises LookupError if there is no such name.
    """
    path: Sequence[Node] = path_to(node, name)
    old, new = path[-1], rewrite(path[-1])  # type: ignore[arg-type]
    for parent in reversed(path[:-1]):
        target, replacement = old, new
        new = map_children(parent, lambda s, t=target, r=replacement: r if s is t else s)  # type: ignore[type-var]
        old = parent
    return new  # type: ignore[return-value]

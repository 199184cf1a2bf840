"""Replacement of buffers in a tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .expr import Buffer, Expr, Load
from .stmt import (
    Alloc,
    Assign,
    Copy,
    Intrinsic,
    Program,
    Reduce,
    Region,
    Stmt,
)
from .visit import N, map_children, map_expr, map_expressions


def replace_buffers(node: N, buffers: Mapping[str, Buffer]) -> N:
    """A tree in which each buffer whose name is a key of `buffers` is replaced by that key's value, in accesses,
    regions, allocations and parameters. The old and the new buffer must have the same number of dimensions.
    """

    def expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer.name in buffers:
            return Load(buffers[e.buffer.name], e.indices)
        return e

    def box(r: Region) -> Region:
        new = buffers.get(r.buffer.name)
        return r if new is None else Region(buffer=new, starts=r.starts, extents=r.extents)

    def visit(statement: Stmt) -> Stmt:
        statement = map_expressions(map_children(statement, visit), lambda e: map_expr(e, expr))
        match statement:
            case Alloc(buffer=buffer) | Assign(buffer=buffer) | Reduce(buffer=buffer) if (
                buffer.name in buffers
            ):
                return replace(statement, buffer=buffers[buffer.name])
            case Copy(destination=d, source=s) if d.buffer.name in buffers or s.buffer.name in buffers:
                return replace(statement, destination=box(d), source=box(s))
            case Intrinsic(operands=regions) if any(r.buffer.name in buffers for r in regions):
                return replace(statement, operands=tuple(box(r) for r in regions))
        return statement

    if isinstance(node, Program):
        parameters, body = tuple([buffers.get(p.name, p) for p in node.parameters]), visit(node.body)
        if body is node.body and parameters == node.parameters:
            return node
        return Program(name=node.name, parameters=parameters, body=body)  # type: ignore[return-value]
    return visit(node)  # type: ignore[return-value]

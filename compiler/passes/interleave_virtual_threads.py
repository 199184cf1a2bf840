"""Interleave virtual threads: replicate the buffers of a virtual-thread loop so that its iterations overlap.

    rewrite:  for t in 8 (virtual_thread): alloc A[16, ...] in: BODY(A[...])
              ->  alloc A[2, 16, ...] in: for t in 8: BODY(A[t % 2, ...])

Each iteration (virtual thread) uses its own copy of every buffer, so the loads of the next iteration need not wait for
the computation of this one. Each unit of the accelerator has an instruction queue; instructions of two iterations are
in the queues at the same time. An iteration waits for an earlier one (by tokens, semaphores that a later step inserts)
only before a copy is used again. (TVM's pass interleaves statements; rotating copies also works for nested loops.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ..ir.bounds import interval, loop_ranges
from ..ir.expr import Buffer, Const, Expr, Load, binary
from ..ir.stmt import Alloc, Assign, Copy, For, Intrinsic, Program, Reduce, Region, Seq, Stmt
from ..ir.visit import expressions, loads_in, map_expr, map_expressions
from .split_copies import ELEMENT_DIMENSIONS


def interleave_virtual_threads(
    program: Program, *, threads: int | Mapping[str, int], capacity: Mapping[str, int]
) -> Program:
    """Moves the allocation of every buffer in a scratchpad (a scope of `capacity`) to the program's root, and adds a
    leading dimension of copies to the buffer.

    The number of copies of a buffer is the least of three numbers: `threads` (or `threads[scope]`, if a mapping); the
    iterations of the loops around the buffer; and the copies that fit into `capacity` (elements of each scratchpad by
    scope). It is at least one. Buffers outside virtual-thread loops get one copy. For a loop whose extent depends on
    loops around it, the longest extent counts; in shorter iterations some copies stay unused.
    """
    hoisted: list[Buffer] = []

    def rewrite(statement: Stmt, loops: tuple[For, ...]) -> Stmt:
        match statement:
            case For():
                body = rewrite(statement.body, (*loops, statement))
                kind = "serial" if statement.kind == "virtual_thread" else statement.kind
                return For(var=statement.var, extent=statement.extent, body=body, kind=kind)
            case Seq():
                return Seq(statements=tuple(rewrite(item, loops) for item in statement.statements))
            case Alloc(buffer=buffer) if buffer.scope in capacity:
                most = threads if isinstance(threads, int) else threads[buffer.scope]
                copies, slot = _copies(buffer, loops, most, capacity[buffer.scope])
                wide = Buffer(
                    name=buffer.name, shape=(copies, *buffer.shape), dtype=buffer.dtype, scope=buffer.scope
                )
                hoisted.append(wide)
                return rewrite(in_slot(statement.body, wide, slot), loops)
            case Alloc():
                return Alloc(buffer=statement.buffer, body=rewrite(statement.body, loops))
            case _:
                return statement

    body = rewrite(program.body, ())
    for buffer in reversed(hoisted):
        body = Alloc(buffer=buffer, body=body)
    return replace(program, body=body)


def in_slot(statement: Stmt, wide: Buffer, slot: Expr) -> Stmt:
    """Redirects `statement` to one copy of a buffer: each access to the buffer becomes an access to `wide[slot]`.

    `wide` contains all copies of the buffer, along a new first dimension, and has the buffer's name.
    """

    def access(region: Region) -> Region:
        if region.buffer.name != wide.name:
            return region
        return Region(buffer=wide, starts=(slot, *region.starts), extents=(Const(1), *region.extents))

    def touched(node: Assign | Reduce) -> bool:
        if node.buffer.name == wide.name:
            return True
        return any(load.buffer.name == wide.name for top in expressions(node) for load in loads_in(top))

    def loads(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.buffer.name == wide.name:
            return Load(wide, (slot, *expr.indices))
        return expr

    def visit(node: Stmt) -> Stmt:
        match node:
            case For():
                return For(var=node.var, extent=node.extent, body=visit(node.body), kind=node.kind)
            case Seq():
                return Seq(statements=tuple([visit(item) for item in node.statements]))
            case Alloc():
                return Alloc(buffer=node.buffer, body=visit(node.body))
            case Copy(destination=to, source=of) if (
                to.buffer.name == wide.name or of.buffer.name == wide.name
            ):
                return replace(node, destination=access(to), source=access(of))
            case Intrinsic(operands=operands) if any(item.buffer.name == wide.name for item in operands):
                return replace(node, operands=tuple([access(operand) for operand in operands]))
            case Assign() | Reduce() if touched(node):
                changed = map_expressions(node, lambda expr: map_expr(expr, loads))
                assert isinstance(changed, Assign | Reduce)
                if changed.buffer.name == wide.name:
                    return replace(changed, buffer=wide, indices=(slot, *changed.indices))
                return changed
            case _:
                return node

    return visit(statement)


def elements(buffer: Buffer) -> int:
    """Number of scratchpad elements (vectors, tiles, entries) of a buffer."""
    return prod(buffer.shape[:-ELEMENT_DIMENSIONS])


def _copies(buffer: Buffer, loops: tuple[For, ...], threads: int, capacity: int) -> tuple[int, Expr]:
    instances = 1
    counter: Expr = Const(0)
    ranges = loop_ranges(loops)
    for loop in loops:
        extent = interval(loop.extent, ranges).high
        if extent is None:
            raise ValueError(f"the extent of loop {loop.name} around {buffer.name} must have a bound")
        instances *= extent
        if extent > 1:
            counter = binary("+", binary("*", counter, Const(extent)), loop.var)
    if not any(loop.kind == "virtual_thread" for loop in loops):
        return 1, Const(0)
    copies = max(1, min(threads, instances, capacity // elements(buffer)))
    return (copies, binary("%", counter, Const(copies))) if copies > 1 else (1, Const(0))

"""Interleave virtual threads: replicate the buffers of a virtual-thread loop so that its iterations overlap.

    rewrite:  for t in 8 (virtual_thread): alloc A[16, ...] in: BODY(A[...])
              ->  alloc A[2, 16, ...] in: for t in 8: BODY(A[t % 2, ...])

Each iteration (virtual thread) uses its own copy of every buffer, so the loads of the next iteration need not wait for
the computation of this one: in a decoupled machine whose units have their own queues, the instruction streams of two
threads then interleave, and the tokens (semaphores between units), inserted later, wait only where a copy is reused.
(TVM's pass interleaves the statements; here the queues interleave them, and the rotation also works for nested loops.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ..ir.bounds import interval, loop_ranges
from ..ir.expr import Buffer, Const, Expr, binary
from ..ir.regions import in_slot
from ..ir.stmt import Alloc, For, Program, Seq, Stmt
from .split_copies import ELEMENT_DIMENSIONS


def interleave_virtual_threads(
    program: Program, *, threads: int | Mapping[str, int], capacity: Mapping[str, int]
) -> Program:
    """The program with the allocation of every scratchpad buffer moved to the program's root, and a leading dimension
    of copies added to the buffer.

    A buffer gets at most `threads` copies (a mapping gives the number by scope), at most as many as its loop has
    iterations, and at most as many as fill `capacity` (elements of each scratchpad by scope). Buffers outside
    virtual-thread loops get one copy. For a loop whose extent depends on loops around it, the longest extent counts; in
    shorter iterations some copies stay unused.
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

"""Splits of loops and of buffer dimensions into several (for blocks, for threads, inside a thread), and queries of
scheduled programs (shapes, extents, surrounding loops).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.expr import Buffer, Const
from ...ir.named_nodes import find_loop
from ...ir.stmt import Alloc, For
from ...ir.visit import path_to, walk
from ...schedule import Schedule
from ..cpu.loops import has_loop


def cut(s: Schedule, loop: str, counts: Sequence[int]) -> list[str]:
    """Splits a loop into nested loops with the extents `counts`, whose product is the loop's extent; returns the names
    of the nested loops, outermost first.
    """
    names: list[str] = []
    for d in range(1, len(counts)):
        outer, loop = s.split(loop, prod(counts[d:]))
        names.append(outer)
    return [*names, loop]


def pack_digits(s: Schedule, buffer: str, d: int, counts: Sequence[int]) -> None:
    """Replaces dimension `d` of a buffer by several dimensions of sizes `counts`, whose product is the size of
    dimension `d`.
    """
    for at in range(1, len(counts)):
        rank = len(shape_of(s, buffer))
        s.pack(buffer, ((d, prod(counts[at:])),), (*range(d + 1), rank, *range(d + 1, rank)))
        d += 1


def unroll(s: Schedule, loops: Sequence[str]) -> None:
    """Unrolls loops; a loop of one iteration is replaced by its body."""
    for loop in loops:
        if extent_of(s, loop) == 1:
            s.peel(loop)
        else:
            s.unroll(loop)


def drop_single(s: Schedule, loops: Sequence[str]) -> None:
    """Replaces loops of exactly one iteration by their bodies; ignores names of loops that no longer exist."""
    for loop in loops:
        if has_loop(s, loop) and find_loop(s.program, loop).extent == Const(1):
            s.peel(loop)


def shape_of(s: Schedule, buffer: str) -> tuple[int, ...]:
    """The shape of an allocated buffer."""
    return allocated(s, buffer).shape


def allocated(s: Schedule, buffer: str) -> Buffer:
    """The buffer named `buffer`, which the program allocates."""
    return next(n.buffer for n in walk(s.program) if isinstance(n, Alloc) and n.buffer.name == buffer)


def loops_around(s: Schedule, statement: str) -> list[str]:
    """The names of the loops around a statement, outermost first."""
    return [n.name for n in path_to(s.program, statement) if isinstance(n, For)]


def extent_of(s: Schedule, loop: str) -> int:
    """The extent of a loop, which must be constant."""
    return size_of(find_loop(s.program, loop))


def size_of(loop: For) -> int:
    """The number of iterations of a loop, whose extent must be constant."""
    assert isinstance(loop.extent, Const)
    return int(loop.extent.value)

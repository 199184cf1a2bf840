"""Finds exchanges between the lanes of a warp, for `emulate`: phases in which a warp reads registers of its lanes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from ...ir.grid import distribution
from ...ir.kernels import Phase, is_thread_loop, phase_at
from ...ir.lane_elements import SUMS
from ...ir.stmt import Alloc, Assign, For, Reduce, Stmt
from ...ir.visit import children, expressions, loads_in, walk

X = "thread.x"


def held_by_lanes(alloc: Alloc) -> bool:
    """Whether the threads along x hold different elements of an allocated buffer. This is so in two cases: the buffer
    is distributed over the registers of these threads, or the buffer holds sums of a warp and is also accessed by code
    of single threads.
    """
    buffer = alloc.buffer
    if buffer.scope == SUMS:
        phases = [phase_at(n) for n in walk(alloc.body) if isinstance(n, For) and is_thread_loop(n)]
        return any(_by_thread(phase) and buffer.name in _touched(phase.body) for phase in phases)
    return any(axis == X and n > 1 for axis, n in zip(distribution(alloc), buffer.shape, strict=True))


def exchanges(node: Stmt, held: AbstractSet[str]) -> bool:
    """Whether lanes exchange data in a statement, by a shuffle or by an operation of a warp on its sums. The statement
    must contain whole loops over threads, and no intrinsics: the caller must have inlined them. `held`: names of the
    buffers for which `held_by_lanes` is true.
    """
    if isinstance(node, For) and is_thread_loop(node):
        phase = phase_at(node)
        return not _by_thread(phase) and not _touched(phase.body).isdisjoint(held)
    return any(exchanges(child, held) for child in children(node))


def _by_thread(phase: Phase) -> bool:
    """Whether each thread along x executes a phase by itself, because the phase has a loop over thread.x."""
    return any(loop.kind == X for loop in phase.threads)


def _touched(body: Stmt) -> set[str]:
    """The names of the buffers whose elements a phase's body reads or writes."""
    found = {load.buffer.name for n in walk(body) for e in expressions(n) for load in loads_in(e)}
    return found | {n.buffer.name for n in walk(body) if isinstance(n, Assign | Reduce)}

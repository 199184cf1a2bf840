"""Tiles along borders as kernels of their own."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.expr import Const, Expr
from ..ir.stmt import For
from ..ir.visit import free_vars, loops
from ..schedule import Schedule
from ..schedule.peel import FIRST, LAST


def peel_ends(schedule: Schedule, loop: str, first: bool, last: bool) -> list[str]:
    """Peels the ends of a loop that are asked for; returns what names in its parts end with, the middle ("") first.

    A loop of one iteration goes, and its body is the only part.
    """
    suffixes = [""]
    for end, wanted in ((LAST, last), (FIRST, first)):
        if not wanted or not has_loop(schedule, loop):
            continue
        single = _extent(schedule, loop) == 1
        suffix = schedule.peel(loop, end)
        if single:
            break
        suffixes.append(suffix)
    return suffixes


def parts_of(schedule: Schedule, name: str) -> list[For]:
    """The loop of that name and those that peeling made of it, in program order."""
    return [loop for loop in loops(schedule.program) if _base(loop.name) == name]


def peel_ragged(schedule: Schedule, *names: str) -> None:
    """Peels the last iteration of these tile loops, outermost first, wherever an extent inside depends on them.

    Afterwards the extents inside are constants, as far as these loops are concerned.
    """
    for name in names:
        for loop in parts_of(schedule, name):
            if isinstance(loop.extent, Const) and any(
                name_in(inner.extent, loop) for inner in loops(loop.body)
            ):
                schedule.peel(loop.name)


def parallel_loop(schedule: Schedule, counts: Mapping[str, int], enough: int = 4) -> None:
    """Runs the first of these loops that has `enough` iterations (by `counts`) in parallel, else the one with the most.

    Before peeling: afterwards the parts' accesses differ, and it is harder to see that iterations share nothing.
    """
    chosen = next((name for name, count in counts.items() if count >= enough), None)
    schedule.parallel(chosen or max(counts, key=lambda name: counts[name]))


def name_in(extent: Expr, loop: For) -> bool:
    """Whether an extent depends on a loop."""
    return not isinstance(extent, Const) and loop.name in free_vars(extent)


def _base(name: str) -> str:
    """A loop's name without what peeling put behind it."""
    while True:
        head, _, tail = name.rpartition(".")
        if tail in (FIRST, LAST):
            name = head
        elif tail.isdecimal() and head.rpartition(".")[2] in (FIRST, LAST):
            name = head.rpartition(".")[0]
        else:
            return name


def has_loop(schedule: Schedule, name: str) -> bool:
    """Whether the program has a loop of that name."""
    return any(loop.name == name for loop in loops(schedule.program))


def _extent(schedule: Schedule, name: str) -> int | None:
    loop = next(loop for loop in loops(schedule.program) if loop.name == name)
    return getattr(loop.extent, "value", None)

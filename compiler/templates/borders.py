"""Tiles along borders as kernels of their own."""

from __future__ import annotations

from ..ir.visit import loops
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


def has_loop(schedule: Schedule, name: str) -> bool:
    """Whether the program has a loop of that name."""
    return any(loop.name == name for loop in loops(schedule.program))


def _extent(schedule: Schedule, name: str) -> int | None:
    loop = next(loop for loop in loops(schedule.program) if loop.name == name)
    return getattr(loop.extent, "value", None)

"""Tiles along borders as kernels of their own."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from ...ir.expr import Const, Expr
from ...ir.stmt import For
from ...ir.visit import free_vars, loops
from ...schedule import Schedule
from ...schedule.peel import FIRST, LAST

TEAMS = (2, 4, 8)
"""Numbers of threads that a kernel should do well with."""
FORK_CYCLES = 10000.0
"""Of handing a loop to the threads of a pool (0.7 us with two), and of data that another thread's cache holds."""
PLENTY = 1e7
"""Cycles of a nest of which nothing is known: so many that forks do not count."""


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


def parallel_loop(
    schedule: Schedule,
    counts: Mapping[str, float],
    cycles: float = PLENTY,
    ahead: Mapping[str, float] | None = None,
) -> None:
    """Runs one of these loops in parallel, the one with the least estimated time; arguments as of `team_times`.

    Before peeling: afterwards the parts' accesses differ, and it is harder to see that iterations share nothing.
    """
    times = team_times(counts, cycles, ahead)
    schedule.parallel(min(times, key=lambda name: times[name]))


def team_times(
    counts: Mapping[str, float], cycles: float = PLENTY, ahead: Mapping[str, float] | None = None
) -> dict[str, float]:
    """For each of these loops, the cycles that threads spend if it runs in parallel: mean over teams of `TEAMS`.

    `counts`: iterations of nested loops, outermost first. A fraction is a last, shorter iteration, which becomes a part
    of its own: one thread does it while the others wait. `cycles`: what all iterations take together; `ahead`: what is
    done in a loop ahead of those inside it, in cycles of all its iterations.
    """
    ahead = ahead or {}
    times: dict[str, float] = {}
    forks, serial = 1, 0.0
    for name, count in counts.items():
        unit = cycles / forks / count
        shared = sum(ahead.get(other, 0.0) for other in counts if other not in times)
        whole, rest = divmod(count, 1.0)
        times[name] = sum(
            team * (forks * (ceil(whole / team) * unit + rest * unit + FORK_CYCLES) + serial + shared / team)
            for team in TEAMS
        ) / len(TEAMS)
        forks *= ceil(count)
        serial += ahead.get(name, 0.0)
    return times


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

"""Peeling of tiles along borders into separate kernels, and the choice of the parallel loop."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from ...ir.expr import Const, Expr
from ...ir.stmt import For
from ...ir.visit import free_vars, loops
from ...schedule import Schedule
from ...schedule.peel import FIRST, LAST

TEAMS = (2, 4, 8)
"""Team sizes, in threads, over which defaults are optimized."""
FORK_CYCLES = 10000.0
"""Cycles to fork a loop to the pool's threads (0.7 us with two), with data that is in another thread's cache."""
PLENTY = 1e7
"""Cycles assumed for a nest of unknown cost: so many that forks are negligible."""


def peel_ends(schedule: Schedule, loop: str, first: bool, last: bool) -> list[str]:
    """Peels the `first` and `last` iteration of a loop, if true; returns name suffixes of the parts, middle ("") first.

    A loop of one iteration is replaced by its body, the only part.
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
    """The loop `name` and the loops that peeling made from it, in program order."""
    return [loop for loop in loops(schedule.program) if _base(loop.name) == name]


def peel_ragged(schedule: Schedule, *names: str) -> None:
    """Peels the last iteration of these tile loops, outermost first, if an extent inside depends on them.

    Afterwards no extent inside depends on these loops.
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
    """Makes the loop with the least estimated time parallel; arguments as in `team_times`.

    Call it before peeling: afterwards the parts' accesses differ, and it is harder to prove iterations independent.
    """
    times = team_times(counts, cycles, ahead)
    schedule.parallel(min(times, key=lambda name: times[name]))


def team_times(
    counts: Mapping[str, float], cycles: float = PLENTY, ahead: Mapping[str, float] | None = None
) -> dict[str, float]:
    """For each of these loops, the mean over teams of `TEAMS` of the cycles that all threads spend if the loop runs in
    parallel.

    `counts`: iterations of nested loops, outermost first; a fraction stands for a peeled last, shorter iteration, which
    one thread computes while the others wait. `cycles`: cycles of all iterations together. `ahead`: for a loop, cycles
    (of all its iterations) of work in its body before the inner loops.
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
    """A loop's name without the suffixes of peeling."""
    while True:
        head, _, tail = name.rpartition(".")
        if tail in (FIRST, LAST):
            name = head
        elif tail.isdecimal() and head.rpartition(".")[2] in (FIRST, LAST):
            name = head.rpartition(".")[0]
        else:
            return name


def has_loop(schedule: Schedule, name: str) -> bool:
    """Whether the program has a loop `name`."""
    return any(loop.name == name for loop in loops(schedule.program))


def _extent(schedule: Schedule, name: str) -> int | None:
    loop = next(loop for loop in loops(schedule.program) if loop.name == name)
    return getattr(loop.extent, "value", None)

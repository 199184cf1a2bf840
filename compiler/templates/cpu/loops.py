"""Tools for loops of schedules on a CPU: vectorizing, dividing among threads in chunks of equal work, peeling tiles at
borders into separate kernels, and choosing lengths of partial sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Const, Expr
from ...ir.stmt import For
from ...ir.types import DType
from ...ir.visit import free_vars, loops
from ...passes.sum_in_blocks import BLOCK_TERMS, LONGEST
from ...schedule import Schedule
from ...schedule.peel import FIRST, LAST
from ...te.blocks import ceil_div

TEAMS = (2, 4, 8)
"""Numbers of threads over which the costs of default knobs are averaged."""
FORK_CYCLES = 10000.0
"""Cycles to start a parallel loop on the pool's threads (0.7 us with two threads), if the data are in another thread's
cache.
"""


def peel_ends(schedule: Schedule, loop: str, first: bool, last: bool) -> list[str]:
    """Peels the first (if `first`) and the last (if `last`) iteration of a loop. Returns the name suffixes of the
    resulting parts. The first suffix is "", which belongs to the middle part.

    A loop of one iteration is replaced by its body, which is then the only part.
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
    """The loop `name` and the loops that peeling split off from it, in program order."""
    return [loop for loop in loops(schedule.program) if _base(loop.name) == name]


def peel_ragged(schedule: Schedule, *names: str) -> None:
    """Peels the last iteration of loops over tiles, so that the extents of inner loops become constant. `names`: the
    loops, outermost first. A loop is peeled only if the extent of some inner loop depends on the loop's variable.
    """
    for name in names:
        for loop in parts_of(schedule, name):
            if isinstance(loop.extent, Const) and any(
                name_in(inner.extent, loop) for inner in loops(loop.body)
            ):
                schedule.peel(loop.name)


def team_times(
    counts: Mapping[str, float], cycles: float, ahead: Mapping[str, float] | None = None
) -> dict[str, float]:
    """For each loop in `counts`, the total cycles of all threads if this loop runs in parallel: the mean over the
    numbers of threads in `TEAMS`.

    `counts`: iterations of nested loops, outermost first. A fractional part stands for a shorter last iteration, which
    was peeled: one thread computes it while the others wait. `cycles`: cycles of all iterations together. `ahead`: for
    each loop, cycles of the work in its body before the inner loops, summed over all iterations.
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


VECTORS = 4
"""Vectors of one step of a vectorized loop: enough independent work to hide the latency of an operation."""
GRAIN = 8192
"""Least number of elements in a chunk of a parallel loop: several microseconds of work, many times the cost of starting
threads.
"""


def parallel_grains(s: Schedule, loops: Sequence[tuple[str, int]], work: int) -> None:
    """Makes one of `loops` parallel: the outermost one with at least 4 iterations (or chunks), else the one with most.
    `loops`: names and iterations of nested loops, outermost first.

    `work`: elements of one iteration of the innermost loop. Iterations of fewer than `GRAIN` elements are grouped into
    chunks of `GRAIN`; a nest of fewer than two chunks stays serial.
    """
    inside = work
    for _, size in loops:
        inside *= size
    if inside < 2 * GRAIN:
        return
    best: tuple[int, str] | None = None
    for name, size in loops:
        inside //= size
        if inside < GRAIN:
            piece = ceil_div(GRAIN, inside)
            chunks = ceil_div(size, piece)
            if best is None or chunks > best[0]:
                if piece < size:
                    name, _ = s.split(name, piece)
                best = (chunks, name)
            break
        if best is None or size > best[0]:
            best = (size, name)
        if size >= 4:
            break
    if best is not None and best[0] > 1:
        s.parallel(best[1])


def row_partials(target: CpuTarget) -> int:
    """The argument `width` of row operators (softmax, normalizations, reductions) on this target: the number of partial
    results per row, which fill `VECTORS` vectors.
    """
    return VECTORS * target.lanes(DType.FLOAT32)


def part_size(terms: int, unit: int = 1) -> int | None:
    """Cuts a sum of `terms` terms into partial sums: returns the length of a partial sum in units of `unit` terms, or
    None if the sum is too short to be cut.

    A length that divides the sum evenly is preferred if it is more than half of the largest allowed length.
    """
    units = terms // unit
    most = max(1, BLOCK_TERMS // unit)
    if units <= max(most, LONGEST // unit):
        return None
    return even_part(units, most)


def even_part(units: int, most: int) -> int:
    """The largest divisor of `units` that is at most `most`, if it is more than half of `most`; else `most`."""
    even = max(d for d in range(1, most + 1) if units % d == 0)
    return even if even * 2 > most else most


def named(around: Sequence[str], *suffixes: str) -> tuple[dict[str, str], ...]:
    """For each suffix, a map from the names in `around` (loops of a tile) to these names with the suffix."""
    return tuple({loop: f"{loop}{suffix}" for loop in around} for suffix in suffixes)

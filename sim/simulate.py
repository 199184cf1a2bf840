"""`simulate` runs a program: results and timing, or timing alone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import vdla.isa.timing as timing
from vdla.isa.config import Config
from vdla.isa.layout import Unit
from vdla.isa.scratchpads import Contents, typed_scratchpads

from .deadlock import describe
from .decode import decode
from .errors import CycleLimitError, DeadlockError
from .execute import Scratchpads, execute, trace_uops
from .machine import run_timing, token_queues
from .state import DEADLOCK, OK, TRAFFIC, X_BEGIN, X_DISPATCH, X_END
from .timeline import BUSY_CATEGORIES, CATEGORIES, unit_segments


def discard_stale_code() -> None:
    """Deletes numba's index files beside this module that are older than the newest source in this folder or in `isa`.

    numba notices a change of a cached function, but not a change of the functions that it calls: after an edit of one
    file, machine code of the other files would still contain the old version.
    """
    folder, tables = Path(__file__).parent, Path(timing.__file__).parent
    newest = max(path.stat().st_mtime for path in (*folder.glob("*.py"), *tables.glob("*.py")))
    for index in (folder / "__pycache__").glob("*.nbi"):
        with suppress(OSError):  # Another process may delete the file first, or the folder may be read-only.
            if index.stat().st_mtime < newest:
                index.unlink()


discard_stale_code()

DEFAULT_CYCLE_LIMIT = 1 << 40
"""Number of cycles after which a run is abandoned: three hours at 100 MHz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bus traffic of one kind of transfer: requested data bytes, and bus beats."""

    bytes: int
    beats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCounters:
    """Cycles of one unit by activity (`busy`) and by cause of stall (`stalls`); their sum is the number of cycles of
    the run.

    `busy` has the single key busy for the load and the store unit, and gemm, alu, load_uop, load_acc, other and drain
    for compute. Categories without cycles are left out.
    """

    busy: dict[str, int]
    stalls: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Intervals of one unit's activities and stalls, in order and without gaps over the whole run.

    All arrays are int64 (m,). The interval [start, stop) has the cycles start + 1 .. stop. `category`: index in
    CATEGORIES. `instruction`: index of the instruction that was busy or waited, -1 after the unit's last instruction.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    category: NDArray[np.int64]
    instruction: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulationResult:
    """Cycles and traffic of a run and, if it simulated data, memory and scratchpads at its end.

    `cycles`: number of the cycle in which FINISH retires. `begin`, `end` int64 (n,): cycles of each instruction, -1 if
    it never began (instructions after FINISH); a STORE ends with its last write response. `dispatch` int64 (n,): cycle
    in which fetch moved the instruction to its command queue, -1 if it never did. `traffic`: by kind (`sim.TRAFFIC`).
    `memory` (uint8) and `scratchpads` are None in a run of timing alone. `segments`: for each unit, int64 (m, 4), the
    columns of its Timeline.
    """

    config: Config
    cycles: int
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    dispatch: NDArray[np.int64]
    traffic: dict[str, Traffic]
    memory: NDArray[np.uint8] | None
    scratchpads: Scratchpads | None
    segments: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

    @cached_property
    def units(self) -> dict[str, UnitCounters]:
        """The counters of each unit, by its name: load, compute, store."""
        return {unit.name.lower(): _count(self.segments[unit]) for unit in Unit}

    @property
    def dram_read_bytes(self) -> int:
        """Data bytes read from memory, instructions and micro-ops included."""
        return sum(item.bytes for kind, item in self.traffic.items() if kind != "out")

    @property
    def dram_write_bytes(self) -> int:
        """Data bytes written to memory."""
        return self.traffic["out"].bytes


def _count(segments: NDArray[np.int64]) -> UnitCounters:
    cycles = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(cycles, segments[:, 2], segments[:, 1] - segments[:, 0])
    named = {name: int(value) for name, value in zip(CATEGORIES, cycles, strict=True) if value}
    return UnitCounters(
        busy={name: value for name, value in named.items() if name in BUSY_CATEGORIES},
        stalls={name: value for name, value in named.items() if name not in BUSY_CATEGORIES},
    )


def timeline(result: SimulationResult, unit: Unit) -> Timeline:
    """The timeline of `unit` over the whole run."""
    start, stop, category, instruction = result.segments[unit].T
    return Timeline(start=start, stop=stop, category=category, instruction=instruction)


def compute_timeline(result: SimulationResult) -> Timeline:
    """The timeline of the compute unit, by which reports attribute cycles to layers."""
    return timeline(result, Unit.COMPUTE)


def cycles_by_category(timeline: Timeline, start: int, stop: int) -> dict[str, int]:
    """Numbers of cycles in [start, stop) by category, together stop - start. Categories without cycles are left out."""
    first = int(np.searchsorted(timeline.stop, start, side="right"))
    last = int(np.searchsorted(timeline.start, stop, side="left"))
    inside = np.minimum(timeline.stop[first:last], stop) - np.maximum(timeline.start[first:last], start)
    cycles = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(cycles, timeline.category[first:last], inside)
    return {name: int(value) for name, value in zip(CATEGORIES, cycles, strict=True) if value}


def simulate(
    config: Config,
    instructions: NDArray[np.uint64],
    memory: NDArray[np.uint8],
    *,
    data: bool = True,
    cycle_limit: int | None = None,
    scratchpads: Contents | None = None,
) -> SimulationResult:
    """Runs `instructions`, uint64 (n, words), on `config` with the DRAM image `memory` (uint8, not modified).

    With `data` the result has the final memory and scratchpads, computed instruction by instruction in program order;
    for a program without races this equals execution in order of time. Without `data` the result has timing alone: the
    same cycles, begin and end of every instruction, and counters. `scratchpads`: contents at launch
    (`isa.scratchpads`); scratchpads that it does not name are zero.

    Raises EncodingError for bits that are no instruction, ProgramError for an unknown register, a missing extension or
    an access out of bounds, DeadlockError when nothing can move before FINISH retires, CycleLimitError past
    `cycle_limit` (default DEFAULT_CYCLE_LIMIT).
    """
    decoded = decode(config, instructions, len(memory))
    limit = DEFAULT_CYCLE_LIMIT if cycle_limit is None else cycle_limit
    final: Scratchpads | None = None
    image: NDArray[np.uint8] | None = None
    if data or decoded.rewrites_uops:
        image, final, trace = execute(config, decoded, memory, scratchpads)
    else:
        trace = trace_uops(config, decoded, memory)
    uops = typed_scratchpads(config, scratchpads)["uop"].astype(np.uint64)
    timing = run_timing(config, decoded, len(instructions), len(memory), limit, trace, uops)
    if timing.outcome != OK or timing.cycle > limit:
        what = describe(config, decoded, len(instructions), timing.units, timing.tokens)
        if timing.outcome == DEADLOCK:
            raise DeadlockError(f"deadlock after cycle {timing.cycle}: {what}")
        raise CycleLimitError(
            f"not finished after {limit} cycles: {what}; raise the limit if that is expected"
        )
    record = timing.record
    begin = np.full(len(instructions), -1, np.int64)
    end, dispatch = begin.copy(), begin.copy()
    begin[: len(record)] = record[:, X_BEGIN]
    end[: len(record)] = record[:, X_END]
    dispatch[: len(record)] = record[:, X_DISPATCH]
    pop, push = token_queues()
    first, second, third = (
        unit_segments(record, decoded.rows, pop, push, int(unit), timing.cycle, timing.begin_delay)
        for unit in Unit
    )
    return SimulationResult(
        config=config,
        cycles=timing.cycle,
        begin=begin,
        end=end,
        dispatch=dispatch,
        traffic={
            kind: Traffic(bytes=int(timing.moved[place]), beats=int(timing.beats[place]))
            for place, kind in enumerate(TRAFFIC)
        },
        memory=image if data else None,
        scratchpads=final if data else None,
        segments=(first, second, third),
    )

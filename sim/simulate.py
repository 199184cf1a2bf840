"""`simulate`: function and timing of a program, or timing alone."""

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
    """Deletes numba's index files beside this module that are older than any source in this folder or in `isa`.

    numba's file cache notices a change of a cached function, but not of the functions that it calls: after an edit in
    one file of this folder, compiled code of other files would still contain the old version.
    """
    folder, tables = Path(__file__).parent, Path(timing.__file__).parent
    newest = max(path.stat().st_mtime for path in (*folder.glob("*.py"), *tables.glob("*.py")))
    for index in (folder / "__pycache__").glob("*.nbi"):
        with suppress(OSError):  # Another process may delete the file first, or the folder may be read-only.
            if index.stat().st_mtime < newest:
                index.unlink()


discard_stale_code()

DEFAULT_CYCLE_LIMIT = 1 << 40
"""Cycles after which a run is abandoned: three hours at 100 MHz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bus traffic of one kind of transfer: requested data bytes, and beats."""

    bytes: int
    beats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCounters:
    """Cycles of one unit by activity (`busy`) and by cause of stall (`stalls`); together they sum to the run's cycles.

    `busy` has the single key `busy` for load and store, and gemm, alu, load_uop, load_acc, other, drain for compute.
    Categories with no cycle are left out.
    """

    busy: dict[str, int]
    stalls: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Intervals [start, stop) of one unit, in order and without gaps from 0 to the run's cycles.

    All arrays are (m,) int64. `category` indexes CATEGORIES; `instruction` is the one that was busy or waited, -1 after
    the unit's last instruction. [start, stop) stands for the cycles start + 1 .. stop.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    category: NDArray[np.int64]
    instruction: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulationResult:
    """Cycles and traffic of a run and, if it simulated data, memory and scratchpads at its end.

    `cycles` is the total of hw/README.md. `begin` and `end` are (n,) int64 cycles of each instruction, -1 if it never
    began (instructions after FINISH); the end of a STORE is its last write response. `dispatch` is (n,) int64, the
    cycle in which fetch moves each instruction to its command queue, -1 for instructions never dispatched. `traffic` is
    by kind (`sim.TRAFFIC`). `memory` (uint8) and `scratchpads` are None in a run of timing alone.
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
        """Counters of load, compute and store."""
        return {unit.name.lower(): _count(self.segments[unit]) for unit in Unit}

    @property
    def dram_read_bytes(self) -> int:
        """Data bytes requested from memory, instructions and micro-ops included."""
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
    """The intervals of `unit` over the whole run."""
    start, stop, category, instruction = result.segments[unit].T
    return Timeline(start=start, stop=stop, category=category, instruction=instruction)


def compute_timeline(result: SimulationResult) -> Timeline:
    """The compute unit's intervals, which attribute the run's cycles to layers."""
    return timeline(result, Unit.COMPUTE)


def cycles_by_category(timeline: Timeline, start: int, stop: int) -> dict[str, int]:
    """Cycles of [start, stop) by category; they add up to stop - start. Categories with none are left out."""
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
    """Run (n, words) uint64 `instructions` on `config` with the DRAM image `memory` (uint8, not modified).

    With `data` the result holds the final memory and scratchpads, computed instruction by instruction in program order,
    which for a race-free program equals execution in order of time. Without `data` it has timing alone: the same
    cycles, begin and end of every instruction, and counters. `scratchpads` are the contents at launch
    (`isa.scratchpads`), zero where not named.

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

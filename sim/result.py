"""Results of a run of the simulator: cycles, traffic, counters of units, timelines."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.layout import Unit

from .state import DRAM_CYCLES, M_COUNTS, M_OPENED
from .timeline import BUSY_CATEGORIES, CATEGORIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bus traffic of one kind of transfer: requested data bytes, and bus beats."""

    bytes: int
    beats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCounters:
    """Cycles of one unit by activity (`busy`) and by cause of stall (`stalls`). All of them together are the cycles of
    the run; categories without cycles are left out.

    Keys of `busy`: for the load and the store unit only "busy"; for the compute unit gemm, alu, load_uop, load_acc,
    other and drain.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DramCounts:
    """Counts of the commands of a DRAM's controller up to the last cycle of a run (hw/dram.md, section 9).

    `opened`: ACTIVATE commands. `closed`: PRECHARGE commands to one bank, and column commands with auto-precharge.
    `refreshes`: REFRESH commands. `turnarounds`: changes of the controller from reads to writes. `beats`: bus words
    read and written, one column command each.

    `waits`: cycles in which the controller sends no column command, by cause (hw/dram.md, section 8). `waits` and
    `beats` together are all cycles of the run. Causes while a bank has a request: refresh; precharge (another row must
    be closed) and activate (the request's row must be opened); turnaround between reads and writes; bank (requests wait
    until another bank has executed its own). Causes at other times: latency (bursts are on their way, but no request is
    at a bank) and idle (no burst is on its way).

    `channels`: the counts of each channel of a DRAM with several channels. All other counts are then sums over the
    channels, so `beats` and `waits` together are the cycles of the run times the number of channels.
    """

    opened: int
    closed: int
    refreshes: int
    turnarounds: int
    beats: int
    waits: dict[str, int]
    channels: tuple[DramCounts, ...] = ()

    @property
    def row_hit_rate(self) -> float:
        """Share of column commands that found their row open: 1 - opened / beats; 0 without beats."""
        return max(0.0, 1 - self.opened / self.beats) if self.beats else 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulationResult:
    """Cycles and traffic of a run. If the run simulated data, also the memory and the scratchpads at its end.

    `cycles`: number of the cycle in which FINISH retires. `begin`, `end` int64 (n,): cycles of each instruction, -1 if
    it never began (instructions after FINISH); a STORE ends with its last write response. `dispatch` int64 (n,): cycle
    in which the fetch unit moved the instruction to its command queue, -1 if it never did.

    `traffic`: data bytes and bus beats by kind of data (the names in `sim.state.TRAFFIC`). `memory` (uint8) and
    `scratchpads` are None in a run of timing alone. `segments`: for each unit an array int64 (m, 4), from which
    `timeline` makes its Timeline. `dram`: counts of the DRAM, None on a machine with a fixed memory.
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
    dram: DramCounts | None = None

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


def dram_counts(memory: NDArray[np.int64]) -> DramCounts:
    """The counts in `memory`, the array M at the end of a run (`state.py`) on a machine with a DRAM."""
    found = memory[M_OPENED:].reshape(-1, M_COUNTS)
    channels = () if len(found) == 1 else tuple([_dram_counts(row) for row in found])
    return dataclasses.replace(_dram_counts(found.sum(axis=0)), channels=channels)


def _dram_counts(row: NDArray[np.int64]) -> DramCounts:
    """The counts of a channel; `row`: the columns of the array M from M_OPENED on."""
    opened, closed, refreshes, turns, *numbers = row.tolist()
    cycles: dict[str, int] = dict(zip(DRAM_CYCLES, numbers, strict=True))
    beats = cycles.pop("words")
    return DramCounts(
        opened=opened, closed=closed, refreshes=refreshes, turnarounds=turns, beats=beats, waits=cycles
    )


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
    """The timeline of the compute unit; reports use it to attribute cycles to layers."""
    return timeline(result, Unit.COMPUTE)


def cycles_by_category(timeline: Timeline, start: int, stop: int) -> dict[str, int]:
    """Counts the cycles from `start` + 1 to `stop` by category; categories without cycles are left out. The counts add
    up to `stop` - `start`, unless the run ends before `stop`.
    """
    first = int(np.searchsorted(timeline.stop, start, side="right"))
    last = int(np.searchsorted(timeline.start, stop, side="left"))
    inside = np.minimum(timeline.stop[first:last], stop) - np.maximum(timeline.start[first:last], start)
    cycles = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(cycles, timeline.category[first:last], inside)
    return {name: int(value) for name, value in zip(CATEGORIES, cycles, strict=True) if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratchpads:
    """Contents of the scratchpads at the end of a run.

    `uop` (uop_depth,) of `layout.uop_dtype`; `inp` int8 (inp_depth, batch, block_in); `wgt` int8 (wgt_depth, columns,
    block_in); `acc` int32 (acc_depth, batch, block_out); `par` uint32 (par_depth, 2, block_out), biases and bits of the
    float32 scales; `chain` int8 (chain_depth, batch, block_in); `table` int8 (table_depth, 256); `rows` uint32
    (row_depth, 2), packed factors and values of ROWS.
    """

    uop: NDArray[np.unsignedinteger]
    inp: NDArray[np.int8]
    wgt: NDArray[np.int8]
    acc: NDArray[np.int32]
    par: NDArray[np.uint32]
    chain: NDArray[np.int8]
    table: NDArray[np.int8]
    rows: NDArray[np.uint32]

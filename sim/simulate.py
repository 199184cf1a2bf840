"""`simulate`: function and timing of a program, or timing alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from vdla.isa.config import Config
from vdla.isa.layout import TOKEN_QUEUES, Unit, uop_fields
from vdla.isa.program import instruction_address
from vdla.isa.timing import (
    ALU_LATENCY,
    ALU_READ_STAGE,
    READ_BURST_BEATS,
    STORE_LATENCY,
    gemm_latency,
    gemm_read_stage,
    post_latency,
    read_burst_beats,
    write_burst_beats,
)

from . import state as s
from .cache import discard_stale_code
from .core import run
from .deadlock import describe
from .decode import Decoded, decode, kind_sizes
from .errors import CycleLimitError, DeadlockError
from .execute import Scratchpads, execute, trace_uops
from .ports import B_SIZE, MIXED, find_banks
from .timeline import BUSY_CATEGORIES, CATEGORIES, unit_segments

discard_stale_code()

DEFAULT_CYCLE_LIMIT = 1 << 40
"""Cycles after which a run is given up: three hours at 100 MHz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What one kind of transfer moved over the bus: requested data bytes, and beats."""

    bytes: int
    beats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCounters:
    """Cycles of one unit by what it did and by why it stalled; both together are the run's cycles.

    `busy` has the single key `busy` for load and store, and gemm, alu, load_uop, load_acc, other, drain for
    compute. Categories with no cycle are left out.
    """

    busy: dict[str, int]
    stalls: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Intervals [start, stop) of one unit, in order and without gaps from 0 to the run's cycles.

    All arrays are (m,) int64. `category` indexes CATEGORIES; `instruction` is the one that was busy or waited, -1
    behind the unit's last. [start, stop) stands for the cycles start + 1 .. stop.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    category: NDArray[np.int64]
    instruction: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulationResult:
    """What a run took and, with data, what it left.

    `cycles` is the total of hw/README.md. `begin` and `end` are (n,) int64 cycles of each instruction, -1 if it
    never began (those behind FINISH); the end of a STORE is its last write response. `dispatch` is (n,) int64, the
    cycle in which fetch moves each instruction to its command queue, -1 for those it never does. `traffic` is by kind
    (`sim.TRAFFIC`). `memory` (uint8) and `scratchpads` are None in timing alone.
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
    """The compute unit's intervals: what a layer's cycles are split by."""
    return timeline(result, Unit.COMPUTE)


def cycles_by_category(timeline: Timeline, start: int, stop: int) -> dict[str, int]:
    """Cycles of [start, stop) by category; they add up to stop - start. Categories with none are left out."""
    first = int(np.searchsorted(timeline.stop, start, side="right"))
    last = int(np.searchsorted(timeline.start, stop, side="left"))
    inside = np.minimum(timeline.stop[first:last], stop) - np.maximum(timeline.start[first:last], start)
    cycles = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(cycles, timeline.category[first:last], inside)
    return {name: int(value) for name, value in zip(CATEGORIES, cycles, strict=True) if value}


def _parameters(config: Config, count: int, last: int, memory_size: int, limit: int) -> NDArray[np.int64]:
    memory = config.memory
    values = {
        s.P_BUS: memory.bus_bytes,
        s.P_READ_LATENCY: memory.read_latency,
        s.P_WRITE_LATENCY: memory.write_latency,
        s.P_READS: memory.outstanding_reads,
        s.P_WRITES: memory.outstanding_writes,
        s.P_JITTER: memory.jitter,
        s.P_STALL: memory.stall,
        s.P_SEED: memory.seed,
        s.P_COMMANDS: config.command_queue_depth,
        s.P_TOKENS: config.token_queue_depth,
        s.P_FETCH_DEPTH: config.fetch_buffer_depth,
        s.P_GEMM_LATENCY: gemm_latency(config),
        s.P_GEMM_STAGE: gemm_read_stage(config),
        s.P_ALU_LATENCY: ALU_LATENCY,
        s.P_ALU_STAGE: ALU_READ_STAGE,
        s.P_POST_LATENCY: post_latency(config),
        s.P_STORE_LATENCY: STORE_LATENCY,
        s.P_ACC_DEPTH: config.acc_depth,
        s.P_BANK_DEPTH: config.acc_bank_depth,
        s.P_UOP_DEPTH: config.uop_depth,
        s.P_OUT_BYTES: config.out_bytes,
        s.P_BLOCK_IN: config.block_in,
        s.P_STORE_FIFO: config.store_fifo_bytes,
        s.P_WRITE_BURST: write_burst_beats(config) * memory.bus_bytes,
        s.P_FETCH_BURST: fetch_burst_instructions(config),
        s.P_PROGRAM: instruction_address(memory_size),
        s.P_COUNT: count,
        s.P_LAST: last,
        s.P_LIMIT: limit,
        s.P_UOP_DST: uop_fields(config)[0].width,
        s.P_UOP_SRC: uop_fields(config)[1].width,
    }
    return np.array([values[place] for place in range(s.P_SIZE)], np.int64)


def _clients(config: Config) -> NDArray[np.int64]:
    """FIFO bytes and bytes of the longest burst of each client; fetch keeps its own account."""
    table = np.zeros((4, 2), np.int64)
    for client, size in (
        (s.COMPUTE_CLIENT, config.compute_fifo_bytes),
        (s.STORE_CLIENT, config.operand_fifo_bytes),
        (s.LOAD_CLIENT, config.load_fifo_bytes),
    ):
        table[client] = size, read_burst_beats(config, size) * config.memory.bus_bytes
    return table


def _queues() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Token queue of each unit's (pop_prev, pop_next) and (push_prev, push_next)."""
    pop, push = np.zeros((3, 2), np.int64), np.zeros((3, 2), np.int64)
    for number, queue in enumerate(TOKEN_QUEUES):
        pop[queue.consumer, int(queue.pop_flag == "pop_next")] = number
        push[queue.producer, int(queue.push_flag == "push_next")] = number
    return pop, push


def simulate(
    config: Config,
    instructions: NDArray[np.uint64],
    memory: NDArray[np.uint8],
    *,
    data: bool = True,
    cycle_limit: int | None = None,
) -> SimulationResult:
    """Run (n, 2) uint64 `instructions` on `config` with the DRAM image `memory` (uint8, not modified).

    With `data` the result holds the final memory and scratchpads, computed instruction by instruction in program
    order: a race-free program cannot tell that from the order of time. Without, timing alone: the same cycles,
    begin and end of every instruction, and counters.

    Raises ProgramError (or EncodingError) for a program that names what does not exist, DeadlockError when
    nothing can move before FINISH retires, CycleLimitError past `cycle_limit` (default DEFAULT_CYCLE_LIMIT).
    """
    decoded = decode(config, instructions, len(memory))
    limit = DEFAULT_CYCLE_LIMIT if cycle_limit is None else cycle_limit
    scratchpads: Scratchpads | None = None
    image: NDArray[np.uint8] | None = None
    if data or decoded.rewrites_uops:
        image, scratchpads, trace = execute(config, decoded, memory)
    else:
        trace = trace_uops(config, decoded, memory)
    record, moved, beats, total = _run_timing(config, decoded, len(instructions), len(memory), limit, trace)
    begin = np.full(len(instructions), -1, np.int64)
    end, dispatch = begin.copy(), begin.copy()
    begin[: len(record)] = record[:, s.X_BEGIN]
    end[: len(record)] = record[:, s.X_END]
    dispatch[: len(record)] = record[:, s.X_DISPATCH]
    pop, push = _queues()
    first, second, third = (unit_segments(record, decoded.rows, pop, push, int(unit), total) for unit in Unit)
    return SimulationResult(
        config=config,
        cycles=total,
        begin=begin,
        end=end,
        dispatch=dispatch,
        traffic={
            kind: Traffic(bytes=int(moved[place]), beats=int(beats[place]))
            for place, kind in enumerate(s.TRAFFIC)
        },
        memory=image if data else None,
        scratchpads=scratchpads if data else None,
        segments=(first, second, third),
    )


def _run_timing(
    config: Config, decoded: Decoded, count: int, memory_size: int, limit: int, trace: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]:
    """(record (m, RECORD_COLUMNS), traffic bytes, traffic beats, total cycles)."""
    rows = decoded.rows
    parameters = _parameters(config, count, decoded.last, memory_size, limit)
    pop, push = _queues()
    banks = np.full((len(rows), B_SIZE), MIXED, np.int64)
    kept = find_banks(parameters, rows, decoded.registers, trace, banks)
    record = np.full((len(rows), s.RECORD_COLUMNS), -1, np.int64)
    record[:, s.X_ISSUES] = 0
    moved, beats = np.zeros(len(s.TRAFFIC), np.int64), np.zeros(len(s.TRAFFIC), np.int64)
    units, tokens = np.zeros((3, s.U_SIZE), np.int64), np.zeros((len(TOKEN_QUEUES), s.T_SIZE), np.int64)
    outcome, cycle = run(
        parameters,
        _clients(config),
        rows,
        decoded.registers,
        kind_sizes(config),
        pop,
        push,
        banks,
        kept,
        record,
        moved,
        beats,
        units,
        tokens,
    )
    if outcome == s.OK and cycle <= limit:
        return record, moved, beats, int(cycle)
    what = describe(config, rows, count, decoded.last, units, tokens, record)
    if outcome == s.DEADLOCK:
        raise DeadlockError(f"deadlock after cycle {cycle}: {what}")
    raise CycleLimitError(
        f"not finished after {limit} cycles: {what}; raise the cycle limit if that is expected"
    )


def fetch_burst_instructions(config: Config) -> int:
    """Most instructions one fetch asks for: half the buffer, and no more than the longest read burst."""
    longest = max(1, READ_BURST_BEATS * config.memory.bus_bytes // 16)
    return min(config.fetch_buffer_depth // 2, longest)

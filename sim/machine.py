"""The arrays of one timing run: parameters from a configuration, and the state at launch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from vdla.isa.config import Config
from vdla.isa.fifos import FIFOS
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
from .core import run
from .decode import Decoded, kind_sizes
from .ports import B_SIZE, MIXED, find_banks

Array = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRun:
    """How a run went: `outcome` (OK, DEADLOCK or LIMIT) in `cycle`, the record of each instruction (m, RECORD_COLUMNS),
    final unit and token state, and traffic by kind.
    """

    outcome: int
    cycle: int
    record: Array
    units: Array
    tokens: Array
    moved: Array
    beats: Array


def fetch_burst_instructions(config: Config) -> int:
    """Most instructions one fetch asks for: half the buffer, and no more than the longest read burst."""
    longest = max(1, READ_BURST_BEATS * config.memory.bus_bytes // 16)
    return min(config.fetch_buffer_depth // 2, longest)


def parameters(config: Config, count: int, last: int, memory_size: int, limit: int) -> Array:
    """(P_SIZE,) for a program of `count` instructions with its first FINISH at `last`."""
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
        s.P_POST_PASSES: config.post_passes,
        s.P_ACC_DEPTH: config.acc_depth,
        s.P_BANK_DEPTH: config.acc_bank_depth,
        s.P_UOP_DEPTH: config.uop_depth,
        s.P_OUT_BYTES: config.out_bytes,
        s.P_BLOCK_IN: config.block_in,
        s.P_STORE_FIFO: config.fifo_bytes("store"),
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


def token_queues() -> tuple[Array, Array]:
    """Token queue of each unit's (pop_prev, pop_next), and of its (push_prev, push_next)."""
    pop, push = np.zeros((3, 2), np.int64), np.zeros((3, 2), np.int64)
    for number, queue in enumerate(TOKEN_QUEUES):
        pop[queue.consumer, int(queue.pop_flag == "pop_next")] = number
        push[queue.producer, int(queue.push_flag == "push_next")] = number
    return pop, push


def _clients(config: Config) -> Array:
    table = np.zeros((4, s.C_SIZE), np.int64)
    table[:, s.C_SHOWN] = s.NEVER
    # Fetch keeps its own account of room, in instructions.
    for client, size in (
        (s.COMPUTE_CLIENT, config.fifo_bytes("compute")),
        (s.STORE_CLIENT, config.fifo_bytes("operand")),
        (s.LOAD_CLIENT, config.fifo_bytes("load")),
    ):
        table[client, s.C_FIFO] = size
        table[client, s.C_BURST] = read_burst_beats(config, size) * config.memory.bus_bytes
    return table


def _bursts_kept(config: Config) -> int:
    """A power of two above the bursts of a client that matter at a time: each has a bus word of its FIFO at least."""
    words = max(config.fifo_bytes(fifo) for fifo in FIFOS) // config.memory.bus_bytes
    vectors = config.fifo_bytes("store") // config.out_bytes
    return 1 << max(10, (2 * max(words, vectors)).bit_length())


def _units(rows: Array) -> tuple[Array, Array]:
    """Unit state at launch, and each unit's instructions in program order (3, n)."""
    units = np.zeros((3, s.U_SIZE), np.int64)
    order = np.zeros((3, len(rows)), np.int64)
    for unit in Unit:
        mine = np.flatnonzero(rows[:, s.UNIT] == unit)
        order[unit, : len(mine)] = mine
        units[unit, s.U_COUNT] = len(mine)
    units[:, (s.U_LAST_END, s.U_OTHER_END, s.U_HARD_END, s.U_PREVIOUS_BEGIN)] = -1
    units[:, s.U_READY] = s.BLOCKED
    return units, order


def run_timing(
    config: Config,
    decoded: Decoded,
    count: int,
    memory_size: int,
    limit: int,
    trace: NDArray[np.uint32],
    uops: NDArray[np.uint32],
) -> TimingRun:
    """Run the decoded program; `trace` holds the words of all LOAD.UOPs, `uops` (changed here) those at launch."""
    rows = decoded.rows
    numbers = parameters(config, count, decoded.last, memory_size, limit)
    banks = np.full((len(rows), B_SIZE), MIXED, np.int64)
    kept = find_banks(numbers, rows, decoded.registers, trace, uops, banks)
    units, order = _units(rows)
    ring = _bursts_kept(config)
    pop_queue, push_queue = token_queues()
    memory = np.zeros(s.M_SIZE, np.int64)
    memory[s.M_TOTAL] = s.NEVER
    memory[[s.M_LAST_ACCEPT, s.M_LAST_WRITE_ACCEPT, s.M_LAST_DISPATCH]] = -1
    record = np.full((len(rows), s.RECORD_COLUMNS), -1, np.int64)
    record[:, s.X_ISSUES] = 0
    tokens = np.zeros((len(TOKEN_QUEUES), s.T_SIZE), np.int64)
    moved, beats = np.zeros(len(s.TRAFFIC), np.int64), np.zeros(len(s.TRAFFIC), np.int64)
    outcome, cycle = run(
        numbers,
        memory,
        _clients(config),
        units,
        np.zeros(s.V_SIZE, np.int64),
        tokens,
        np.full((4, ring, s.R_SIZE), s.NEVER, np.int64),
        np.full((s.QUEUE, s.Q_SIZE), s.NEVER, np.int64),
        np.full((ring, s.W_SIZE), s.NEVER, np.int64),
        record,
        np.empty((len(TOKEN_QUEUES), len(rows) + 1), np.int64),
        np.empty((len(TOKEN_QUEUES), len(rows) + 1), np.int64),
        pop_queue,
        push_queue,
        rows,
        decoded.registers,
        order,
        kind_sizes(config),
        banks,
        kept,
        moved,
        beats,
    )
    return TimingRun(
        outcome=int(outcome),
        cycle=int(cycle),
        record=record,
        units=units,
        tokens=tokens,
        moved=moved,
        beats=beats,
    )

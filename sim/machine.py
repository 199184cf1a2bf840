"""Makes the arrays of a timing run, parameters and the state at launch, and runs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.fifos import FIFOS
from vdla.isa.layout import TOKEN_QUEUES, Unit
from vdla.isa.timing import (
    read_burst_beats,
)

from . import state as s
from .arrays import Array, Bus, Program, Tokens, Traffic
from .core import run
from .decode import Decoded, kind_sizes
from .parameters import P_BEGIN_DELAY, Launch, parameter_values
from .ports import B_SIZE, MIXED, find_banks


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRun:
    """Result of a timing run: `outcome` (OK, DEADLOCK or LIMIT) and its `cycle`.

    `record` (m, RECORD_COLUMNS): a row for each instruction. `units`, `tokens`: the arrays U and T at the end. `moved`,
    `beats`: data bytes and bus beats by kind of traffic. `begin_delay`: cycles from the one in which all conditions of
    an instruction hold to its begin.
    """

    outcome: int
    cycle: int
    record: Array
    units: Array
    tokens: Array
    moved: Array
    beats: Array
    begin_delay: int


def token_queues() -> tuple[Array, Array]:
    """The token queues, by index in TOKEN_QUEUES, of each unit's flags: int64 (3, 2) for pop_prev and pop_next, and the
    same for push_prev and push_next.
    """
    pop, push = np.zeros((3, 2), np.int64), np.zeros((3, 2), np.int64)
    for number, queue in enumerate(TOKEN_QUEUES):
        pop[queue.consumer, int(queue.pop_flag == "pop_next")] = number
        push[queue.producer, int(queue.push_flag == "push_next")] = number
    return pop, push


def _clients(config: Config) -> Array:
    table = np.zeros((4, s.C_SIZE), np.int64)
    table[:, s.C_SHOWN] = s.NEVER
    # Fetch is not in this list: it counts the room of its buffer in instructions, not in bytes.
    for client, size in (
        (s.COMPUTE_CLIENT, config.fifo_bytes("compute")),
        (s.STORE_CLIENT, config.fifo_bytes("operand")),
        (s.LOAD_CLIENT, config.fifo_bytes("load")),
    ):
        table[client, s.C_FIFO] = size
        table[client, s.C_BURST] = read_burst_beats(config, size) * config.memory.bus_bytes
    return table


def _bursts_kept(config: Config) -> int:
    """Length of the ring buffers of bursts: a power of two above the number of bursts that a client may have in flight,
    since a burst takes at least one bus word of the client's FIFO.
    """
    words = max(config.fifo_bytes(fifo) for fifo in FIFOS) // config.memory.bus_bytes
    vectors = config.fifo_bytes("store") // config.out_bytes
    return 1 << max(10, (2 * max(words, vectors)).bit_length())


def _units(rows: Array) -> tuple[Array, Array]:
    """The array U at launch, and the indices of each unit's instructions in program order, int64 (3, n)."""
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
    trace: NDArray[np.uint64],
    uops: NDArray[np.uint64],
) -> TimingRun:
    """Runs the timing of a decoded program of `count` instructions up to cycle `limit`.

    `trace`: the words that the LOAD.UOPs write, one load after the other. `uops` (modified): the micro-op scratchpad at
    launch.
    """
    rows = decoded.rows
    numbers = parameter_values(
        Launch(config=config, count=count, last=decoded.last, memory_size=memory_size, limit=limit)
    )
    banks = np.full((len(rows), B_SIZE), MIXED, np.int64)
    kept = find_banks(numbers, rows, decoded.registers, trace, uops, banks)
    units, order = _units(rows)
    ring = _bursts_kept(config)
    pop_queue, push_queue = token_queues()
    memory = np.zeros(s.M_SIZE, np.int64)
    memory[s.M_TOTAL] = s.NEVER
    memory[[s.M_LAST_ACCEPT, s.M_LAST_WRITE_ACCEPT, s.M_LAST_DISPATCH]] = -1
    memory[[s.M_WRITE_FIRST, s.M_WRITE_FIRST_BEFORE, s.M_CUT_FROM]] = -s.NEVER
    record = np.full((len(rows), s.RECORD_COLUMNS), -1, np.int64)
    record[:, s.X_ISSUES] = 0
    bus = Bus(
        M=memory,
        C=_clients(config),
        R=np.full((4, ring, s.R_SIZE), s.NEVER, np.int64),
        Q=np.full((s.QUEUE, s.Q_SIZE), s.NEVER, np.int64),
        W=np.full((ring, s.W_SIZE), s.NEVER, np.int64),
    )
    tokens = Tokens(
        T=np.zeros((len(TOKEN_QUEUES), s.T_SIZE), np.int64),
        pushed=np.empty((len(TOKEN_QUEUES), len(rows) + 1), np.int64),
        popped=np.empty((len(TOKEN_QUEUES), len(rows) + 1), np.int64),
        pop_queue=pop_queue,
        push_queue=push_queue,
    )
    program = Program(
        rows=rows, registers=decoded.registers, order=order, sizes=kind_sizes(config), B=banks, kept=kept
    )
    traffic = Traffic(moved=np.zeros(len(s.TRAFFIC), np.int64), beats=np.zeros(len(s.TRAFFIC), np.int64))
    store = np.zeros(s.V_SIZE, np.int64)
    store[[s.V_LOAD, s.V_LAST_LOAD]] = s.BLOCKED
    store[s.V_LAST_READ] = -s.NEVER
    outcome, cycle = run(numbers, units, store, record, bus, tokens, program, traffic)
    return TimingRun(
        outcome=int(outcome),
        cycle=int(cycle),
        record=record,
        units=units,
        tokens=tokens.T,
        moved=traffic.moved,
        beats=traffic.beats,
        begin_delay=int(numbers[P_BEGIN_DELAY]),
    )

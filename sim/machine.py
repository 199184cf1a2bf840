"""A timing run: its arrays (parameters, accumulator banks, the state at launch) and its main loop.

Only the memory is simulated cycle by cycle, because the address that it accepts and the burst that it serves depend on
the requests of that cycle. All other times are sums and maxima of earlier times (but the store unit also waits for
cycles in which the compute unit does not read accumulators). The loop derives every time that it can, then makes the
memory's next decision, in order of time. A time that cannot be derived yet depends on a later decision of the memory
and is at least one cycle after that decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.dram_memory import FIXED
from vdla.isa.fifos import FIFOS
from vdla.isa.layout import TOKEN_QUEUES, Unit
from vdla.isa.scratchpads import Contents, typed_scratchpads
from vdla.isa.timing import read_burst_beats
from vdla.util.machine_code import compiled

from . import state as s
from .arrays import Array, Bus, Program, RunArrays, Tokens, Traffic
from .cache import timing_code
from .decode import Decoded, kind_sizes
from .folds import FOLD, groups_of
from .memory import accept_read, accept_writes, next_accept, next_slot, serve, show_request
from .parameters import (
    P_ACC_DEPTH,
    P_BANK_DEPTH,
    P_BEGIN_DELAY,
    P_LIMIT,
    P_UOP_DEPTH,
    P_UOP_DST,
    P_UOP_SRC,
    Launch,
    parameter_values,
)
from .ports import ALL, B_BANK, B_READS, B_SIZE, B_SOURCE, B_UOPS, BY_PART, MIXED, NONE, load_size
from .store import advance_store, read_vectors
from .units import advance_compute, advance_load, dispatch, show_fetch

if TYPE_CHECKING:
    from .dram_machine import WordLog


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRun:
    """Result of a timing run: `outcome` (OK, DEADLOCK or LIMIT) and its `cycle`.

    `record` (m, RECORD_COLUMNS): a row for each instruction. `units`, `tokens`: the arrays U and T at the end. `moved`,
    `beats`: data bytes and bus beats by kind of traffic. `memory`: the array M at the end. `begin_delay`: number of
    cycles from the cycle in which all conditions of an instruction hold to the cycle in which it begins.
    """

    outcome: int
    cycle: int
    record: Array
    units: Array
    tokens: Array
    moved: Array
    beats: Array
    memory: Array
    begin_delay: int


def token_queues() -> tuple[Array, Array]:
    """Two arrays, int64 (3, 2), of indices in TOKEN_QUEUES: of each unit's pop flags (prev, next), and push flags."""
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
    """Length of the ring buffers that record bursts: a power of two above the largest number of a client's bursts in
    flight. A client has at most one burst in flight for each bus word of its FIFO.
    """
    words = max(config.fifo_bytes(fifo) for fifo in FIFOS) // config.memory.bus_bytes
    vectors = config.fifo_bytes("store") // config.out_bytes
    return 1 << max(10, (2 * max(words, vectors)).bit_length())


def _units(rows: Array) -> tuple[Array, Array]:
    """Returns the state array U of the units at launch, and each unit's indices in `rows` in order, int64 (3, n)."""
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
    scratchpads: Contents | None,
    log: WordLog | None = None,
) -> TimingRun:
    """Returns the timing run of a decoded program of `count` instructions up to cycle `limit`. `memory_size`: bytes of
    its image. `trace`: the words that the LOAD.UOPs write, load after load. `scratchpads`: contents at launch.

    `log`: filled with the runs of words of a DRAM.
    """
    uops = typed_scratchpads(config, scratchpads)["uop"].astype(np.uint64)
    rows = decoded.rows
    numbers = parameter_values(
        Launch(config=config, count=count, last=decoded.last, memory_size=memory_size, limit=limit)
    )
    banks = np.full((len(rows), B_SIZE), MIXED, np.int64)
    kept = find_banks(numbers, rows, decoded.registers, trace, uops, banks)
    units, order = _units(rows)
    ring = _bursts_kept(config)
    pop_queue, push_queue = token_queues()
    memory = np.zeros(s.M_OPENED + s.M_COUNTS * config.memory.channels, np.int64)
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
    arrays = RunArrays(numbers, units, store, record, bus, tokens, program, traffic)
    if config.memory.kind == FIXED:
        outcome, cycle = run(*arrays)
    else:
        outcome, cycle = import_module(".dram_machine", __package__).run_on_dram(config, arrays, log)
    return TimingRun(
        outcome=int(outcome),
        cycle=int(cycle),
        record=record,
        units=units,
        tokens=tokens.T,
        moved=traffic.moved,
        beats=traffic.beats,
        memory=memory,
        begin_delay=int(numbers[P_BEGIN_DELAY]),
    )


_SLOTS = 256


_S_BGN, _S_END, _S_VERSION, _S_DST_LOW, _S_DST_HIGH, _S_SRC_LOW, _S_SRC_HIGH, _S_UOPS = range(8)


@compiled()
def _one_bank(P, low, high, row, out, inner):  # type: ignore[no-untyped-def]
    high += (row[s.ITER_OUT] - 1) * row[out] + (row[s.ITER_IN] - 1) * row[inner]
    if high < P[P_ACC_DEPTH] and low // P[P_BANK_DEPTH] == high // P[P_BANK_DEPTH]:
        return low // P[P_BANK_DEPTH]
    return np.int64(MIXED)


@compiled()
def find_banks(P, rows, registers, trace, uops, B):  # type: ignore[no-untyped-def]
    """Finds the accumulator banks that each GEMM, DEPTHWISE, TAPS and ALU of a program (`rows`, `registers`: see
    `Decoded`) reads, and fills the array B with them. Returns copies of the micro-ops of instructions that read several
    banks, uint64; column B_UOPS of B is the index of an instruction's first micro-op in this array.

    `trace`: uint64, the micro-ops that the LOAD.UOPs write, in order. `uops`: uint64 (uop_depth,), the micro-op
    scratchpad at launch, which is overwritten.
    """
    slots = np.full((_SLOTS, 8), -1, np.int64)
    kept = np.empty(1024, np.uint64)
    used, cursor, version = 0, 0, 0
    dst_mask, src_mask = (1 << P[P_UOP_DST]) - 1, (1 << P[P_UOP_SRC]) - 1
    for i in range(len(rows)):
        row = rows[i]
        kind = row[s.KIND]
        B[i, B_READS] = NONE
        if kind == s.LOAD_UOP:
            count = load_size(row)
            for k in range(count):
                uops[(row[s.SRAM_BASE] + k) % P[P_UOP_DEPTH]] = trace[cursor + k]
            cursor += count
            version += 1
        if kind not in s.MATRIX and kind != s.ALU:
            continue
        first, last = row[s.UOP_BGN], row[s.UOP_END]
        if last <= first or row[s.ITER_OUT] == 0 or row[s.ITER_IN] == 0:
            continue
        reads = ALL
        if kind != s.ALU and (row[s.RESET] or row[s.OVERWRITE]):
            if kind != s.GEMM or row[s.RESET] or groups_of(registers[row[s.REGISTERS_AT], FOLD]) == 1:
                continue
            reads = BY_PART
        B[i, B_READS] = reads
        slot = slots[(first * 31 + last) & (_SLOTS - 1)]
        if slot[_S_BGN] != first or slot[_S_END] != last or slot[_S_VERSION] != version:
            slot[_S_BGN], slot[_S_END], slot[_S_VERSION], slot[_S_UOPS] = first, last, version, -1
            slot[_S_DST_LOW] = slot[_S_SRC_LOW] = 1 << 40
            slot[_S_DST_HIGH] = slot[_S_SRC_HIGH] = -1
            for k in range(first, last):
                word = np.int64(uops[k % P[P_UOP_DEPTH]])
                dst, src = word & dst_mask, word >> P[P_UOP_DST] & src_mask
                slot[_S_DST_LOW] = min(slot[_S_DST_LOW], dst)
                slot[_S_DST_HIGH] = max(slot[_S_DST_HIGH], dst)
                slot[_S_SRC_LOW] = min(slot[_S_SRC_LOW], src)
                slot[_S_SRC_HIGH] = max(slot[_S_SRC_HIGH], src)
        base = registers[row[s.REGISTERS_AT], 0] & 0xFFFF
        B[i, B_BANK] = _one_bank(
            P, base + slot[_S_DST_LOW], base + slot[_S_DST_HIGH], row, s.DST_OUT, s.DST_IN
        )
        B[i, B_SOURCE] = B[i, B_BANK]
        if kind == s.ALU and row[s.USE_IMM] == 0:
            B[i, B_SOURCE] = _one_bank(
                P, base + slot[_S_SRC_LOW], base + slot[_S_SRC_HIGH], row, s.SRC_OUT, s.SRC_IN
            )
        if B[i, B_BANK] == MIXED or B[i, B_SOURCE] == MIXED or reads == BY_PART:
            if slot[_S_UOPS] < 0:
                if used + last - first > len(kept):
                    grown = np.empty(2 * (used + last - first), np.uint64)
                    # Element by element: an assignment of slices would compile numba's error message for shapes that
                    # differ, 2 s.
                    for k in range(used):
                        grown[k] = kept[k]
                    kept = grown
                slot[_S_UOPS] = used
                for k in range(first, last):
                    kept[used] = uops[k % P[P_UOP_DEPTH]]
                    used += 1
            B[i, B_UOPS] = slot[_S_UOPS]
    return kept


# One bit for each read client for which new times may be derivable.
_FETCH, _COMPUTE, _STORE, _LOAD = 1, 2, 4, 8
_ALL = 15


@timing_code
def run(P, U, V, X, bus, tokens, program, traffic):  # type: ignore[no-untyped-def]
    """Runs the timing of a program. Returns (OK, last cycle), (DEADLOCK, last end of a load or store) or (LIMIT, first
    event past the limit). The arguments are the state arrays of `sim/arrays.py` from `run_timing`.
    """
    M, C, R, Q, W = bus
    work = _ALL
    while True:
        while work:
            todo, work = work, 0
            if todo & _FETCH:
                if dispatch(P, U, X, bus, program):
                    work = _ALL
                show_fetch(P, M, C, R, X)
            if todo & _LOAD:
                if advance_load(P, U, X, bus, tokens, program):
                    work = _ALL
                show_request(P, C, R, s.LOAD_CLIENT)
            if todo & _COMPUTE:
                if advance_compute(P, U, X, bus, tokens, program):
                    work = _ALL
                show_request(P, C, R, s.COMPUTE_CLIENT)
            if todo & _STORE:
                if advance_store(P, U, V, X, bus, tokens, program):
                    work = _ALL
                show_request(P, C, R, s.STORE_CLIENT)
                accept_writes(P, M, W)
        accept, slot = next_accept(P, M, C, Q), next_slot(M, Q, W)
        event = min(accept, slot)
        if read_vectors(P, U, V, X, bus, program, traffic, event):
            work = _STORE
            continue
        if event > M[s.M_TOTAL]:
            return s.OK, M[s.M_TOTAL]
        if event == s.NEVER:
            return s.DEADLOCK, max(U[s.LOAD, s.U_LAST_END], U[s.STORE, s.U_LAST_END])
        if event > P[P_LIMIT]:
            return s.LIMIT, event
        # A client's address or data concerns that client's unit alone, until the unit begins or ends something.
        if accept <= slot:
            work = 1 << accept_read(P, M, C, Q, accept, traffic.moved, traffic.beats)
        else:
            work = 1 << serve(P, M, C, R, Q, W, slot)

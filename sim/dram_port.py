"""State of the machine's side of a DRAM's AXI port, for `dram_machine.py` and `dram_cycles.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import Array
from .cache import timing_code
from .memory import show_request
from .parameters import P_INSTRUCTION
from .state import (
    C_SERVED,
    C_TAKEN,
    COMPUTE_CLIENT,
    FETCH_CLIENT,
    LOAD_CLIENT,
    NEVER,
    Q_CLIENT,
    Q_READY,
    R_ADDRESS,
    R_BYTES,
    R_FREE,
    R_RESERVED,
    R_START,
    STORE_CLIENT,
)
from .store import advance_store
from .units import advance_compute, advance_load, dispatch, show_fetch

FETCH_WORK, COMPUTE_WORK, STORE_WORK, LOAD_WORK = (
    1 << FETCH_CLIENT,
    1 << COMPUTE_CLIENT,
    1 << STORE_CLIENT,
    1 << LOAD_CLIENT,
)
ALL_WORK = FETCH_WORK | COMPUTE_WORK | STORE_WORK | LOAD_WORK

R_REQUEST = R_RESERVED
"""Column of ring R in a run with a DRAM: 1 + the number of a request if the entry is the request's last beat, else 0.
"""
Q_REQUEST = Q_READY
"""Column of array Q in a run with a DRAM: the number of the request, an index of ring A."""

# E, used by both: log2 of the bytes of a bus word; write bursts whose address was on the bus, and whether one waits
# there for its acceptance; beats of the current write that have moved; beats of the oldest read that have moved, the
# address of the first byte of the next entry of R, and the cycle after the last beat; for each client, entries of R
# whose room `_free_room` has seen.
(E_SHIFT, E_ANNOUNCED, E_WAITS, E_SENT, E_ARRIVED, E_FIRST, E_FOLLOWS, E_SEEN) = range(8)
# Used by `dram_cycles.py`: the next cycle to simulate; the first cycle in which a read address may be on the bus; reads
# and writes that are outstanding; responses that came; whether the bridge's request waited for another bank in the
# cycle before, and whether the request did so that no bank holds yet.
(E_CYCLE, E_OPEN, E_READS, E_WRITING, E_RESPONSES, E_BLOCKED, E_CHANGES) = range(E_SEEN + 4, E_SEEN + 11)
# Used by `dram_machine.py`: whether writes have the grant of the bridge; the cycle of the last request; the cycles from
# which the registers for read and write addresses are free once their bursts have begun; the cycle in which the last
# write address came to the bus; write bursts that have begun; write data: the first cycle in which the next word may
# enter the bridge's FIFO, words that entered, and words whose cycle of leaving is in T; the cycle of the last beat or
# response of the bursts that have begun; runs of words so far (`Bursts.L`).
(
    E_WRITES, E_END, E_READ_FREE, E_WRITE_FREE, E_OFFERED, E_WRITTEN, E_ENTERS, E_ENTERED, E_LEFT, E_DONE,
    E_RUNS,
) = range(E_SEEN + 11, E_SEEN + 22)  # fmt: skip
E_SIZE = E_SEEN + 22
# Columns of L, a row for each run of words with column commands in consecutive cycles: the cycle of the first column
# command, words, bank, row, whether they are written, rows that were opened for the run, channel.
L_CYCLE, L_WORDS, L_BANK, L_ROW, L_WRITE, L_OPENED, L_CHANNEL, L_SIZE = range(8)


class Cycles(NamedTuple):
    """State arrays of a memory that is simulated cycle by cycle. A: requests of the read clients, as ring R of a run
    without DRAM. E: the machine's side of the AXI port. P, G, B, L, M, F: parameters and state of the controller
    (`sim/dram.py`), with its `inputs`. K: cycles by what the controller does (`sim/dram_waits.py`).
    """

    A: Array
    E: Array
    P: Array
    G: Array
    B: Array
    L: Array
    M: Array
    F: Array
    inputs: Array
    K: Array


class Bursts(NamedTuple):
    """State arrays of a memory whose bursts are computed as a whole. A: requests of the read clients, as ring R of a
    run without DRAM. E: the machine's side of the AXI port. P, G, B, S: parameters and state of the controller
    (`sim/dram_words.py`). T: a ring of the cycles in which written words leave the bridge's FIFO. K: cycles by what the
    controller does (`sim/dram_waits.py`). L: runs of words, as many as the array has rows.
    """

    A: Array
    E: Array
    P: Array
    G: Array
    B: Array
    S: Array
    T: Array
    K: Array
    L: Array


@timing_code
def _free_room(C, R, A, E, c):  # type: ignore[no-untyped-def]
    """Copies to the requests of client `c` in ring A the cycles in which their FIFO room is free again. State arrays: C
    (read clients), R (runs of beats that arrived), A (read clients' requests), E (AXI port).
    """
    while E[E_SEEN + c] < C[c, C_TAKEN]:
        beat = R[c, E[E_SEEN + c] & (R.shape[1] - 1)]
        if beat[R_REQUEST]:
            A[c, (beat[R_REQUEST] - 1) & (A.shape[1] - 1), R_FREE] = beat[R_FREE]
        E[E_SEEN + c] += 1


@timing_code
def advance_units(arrays, A, E, work):  # type: ignore[no-untyped-def]
    """Computes all times of the units that follow from the memory's decisions so far, and shows the units' next read
    addresses on the bus. `arrays`: the `RunArrays`. State arrays: A (read clients' requests), E (AXI port). `work`: a
    set of clients, as bits: those whose unit may compute further times.
    """
    P, U, V, X, bus, tokens, program, _ = arrays
    M, C, R, _, _ = bus
    while work:
        todo, work = work, 0
        if todo & FETCH_WORK:
            if dispatch(P, U, X, bus, program):
                work = ALL_WORK
            show_fetch(P, M, C, A, X)
        if todo & LOAD_WORK:
            if advance_load(P, U, X, bus, tokens, program):
                work = ALL_WORK
            _free_room(C, R, A, E, LOAD_CLIENT)
            show_request(P, C, A, LOAD_CLIENT)
        if todo & COMPUTE_WORK:
            if advance_compute(P, U, X, bus, tokens, program):
                work = ALL_WORK
            _free_room(C, R, A, E, COMPUTE_CLIENT)
            show_request(P, C, A, COMPUTE_CLIENT)
        if todo & STORE_WORK:
            if advance_store(P, U, V, X, bus, tokens, program):
                work = ALL_WORK
            _free_room(C, R, A, E, STORE_CLIENT)
            show_request(P, C, A, STORE_CLIENT)


@timing_code
def note_beats(P, bus, A, E, read, count, last, cycle):  # type: ignore[no-untyped-def]
    """Notes that `count` beats of the oldest request `read` (a row of array Q) move from `cycle` on, one a cycle.
    `last`: the beats include the request's last one. Returns the request's client if the client's unit may compute
    further times, else -1. For the load and compute units only the last beat of a request matters. P: the parameters of
    the run. State arrays: `bus` (memory port), A (read clients' requests), E (AXI port).
    """
    C, R = bus.C, bus.R
    c, shift, before = read[Q_CLIENT], E[E_SHIFT], E[E_ARRIVED]
    request = A[c, read[Q_REQUEST] & (A.shape[1] - 1)]
    word = (request[R_ADDRESS] >> shift) + before
    if before == 0:
        E[E_FIRST] = request[R_ADDRESS]
    end = min((word + count) << shift, request[R_ADDRESS] + request[R_BYTES])
    E[E_ARRIVED] = 0 if last else before + count
    if c == FETCH_CLIENT and end & (P[P_INSTRUCTION] - 1):
        return np.int64(-1)
    by_request = c not in (FETCH_CLIENT, STORE_CLIENT)
    beat = R[c, (C[c, C_SERVED] - 1) & (R.shape[1] - 1)]
    if by_request and before > 0 and C[c, C_TAKEN] < C[c, C_SERVED] and E[E_FOLLOWS] == cycle:
        beat[R_BYTES] += end - E[E_FIRST]
    else:
        beat = R[c, C[c, C_SERVED] & (R.shape[1] - 1)]
        beat[R_ADDRESS], beat[R_BYTES] = E[E_FIRST], end - E[E_FIRST]
        beat[R_START] = cycle - word + (E[E_FIRST] >> shift)
        C[c, C_SERVED] += 1
    beat[R_REQUEST] = read[Q_REQUEST] + 1 if last else 0
    beat[R_FREE] = NEVER
    E[E_FIRST] = end
    E[E_FOLLOWS] = cycle + count
    return c if last or not by_request else np.int64(-1)

"""Runs streams of AXI bursts on the model of the DRAM, without an accelerator: for each burst, the cycles in which its
address is accepted and in which its data begin and end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vdla.isa.dram import Controller
from vdla.isa.dram_streams import (
    S_EARLIEST,
    S_GAP,
    S_WORD,
    S_WORDS,
    S_WRITE,
    T_ACCEPTED,
    T_END,
    T_FIRST,
    Streams,
)
from vdla.util.machine_code import compiled

from .cache import timing_code
from .dram import (
    G_CYCLE,
    I_AR_ADDRESS,
    I_AR_LEN,
    I_AR_VALID,
    I_AW_ADDRESS,
    I_AW_LEN,
    I_AW_VALID,
    I_B_READY,
    I_R_READY,
    I_SIZE,
    I_W_LAST,
    I_W_VALID,
    M_AR_READY,
    M_AW_READY,
    M_B_VALID,
    M_R_LAST,
    M_R_VALID,
    M_W_READY,
    Array,
    clock,
    outputs,
    parameters,
    quiet_until,
    state,
)

# State of a master: requests issued, reads and writes ended, writes whose data are sent, reads and writes in flight,
# words of the current write sent, cycles until the next word, words of the current read received.
D_NEXT, D_READS, D_WRITES, D_SENT, D_READING, D_WRITING, D_WORD, D_PAUSE, D_GOT, D_SIZE = range(10)
NEVER = 1 << 40


class _Memory(NamedTuple):
    """P, G, B, L, M, F: parameters and state of the DRAM's controller (`sim/dram.py`). `inputs`: the AXI signals that
    each master drives in the current cycle.
    """

    P: Array
    G: Array
    B: Array
    L: Array
    M: Array
    F: Array
    inputs: Array


class _Masters(NamedTuple):
    """Streams of bursts and the masters that send them. D: the state of each master. `requests`: the bursts of each
    master (`isa/dram_streams.py`). `kinds`: for each master, the indices of its reads (row 0) and of its writes (row
    1). `stalls`: for each master, in how many of 8 cycles it takes no data. `most`: largest numbers of reads and of
    writes in flight. `times`: for each burst the cycles T_ACCEPTED, T_FIRST and T_END, -1 where there is none yet.
    """

    D: Array
    requests: Array
    kinds: Array
    stalls: Array
    most: Array
    times: Array


@timing_code
def accepts(cycle, master, stall):  # type: ignore[no-untyped-def]
    """Whether a master takes data and responses in a cycle: pseudo-random, false in `stall` of 8 cycles on average."""
    mixed = (np.uint64(cycle) * np.uint64(2654435761) + np.uint64(master) * np.uint64(40503)) >> np.uint64(9)
    return np.int64(mixed & np.uint64(7)) >= stall


@timing_code
def _give(d, given, requests, kinds, most_reads, most_writes, cycle, ready):  # type: ignore[no-untyped-def]
    """Sets `given`, the AXI signals that a master drives in a cycle, from the master's state `d` and its `requests`.
    `kinds`: indices in `requests` of the reads (row 0) and of the writes (row 1). `most_reads`, `most_writes`: limits
    on the bursts in flight. `ready`: whether the master accepts data and responses in the cycle.
    """
    given[:] = 0
    place = d[D_NEXT]
    if cycle >= 0 and place < len(requests) and cycle >= requests[place, S_EARLIEST]:
        if requests[place, S_WRITE]:
            given[I_AW_VALID] = d[D_WRITING] < most_writes
        else:
            given[I_AR_VALID] = d[D_READING] < most_reads
        given[I_AW_ADDRESS] = given[I_AR_ADDRESS] = requests[place, S_WORD]
        given[I_AW_LEN] = given[I_AR_LEN] = requests[place, S_WORDS] - 1
    if d[D_SENT] < d[D_WRITES] + d[D_WRITING]:
        given[I_W_VALID] = d[D_PAUSE] == 0
        given[I_W_LAST] = d[D_WORD] == requests[kinds[1, d[D_SENT]], S_WORDS] - 1
    given[I_R_READY] = given[I_B_READY] = ready


@timing_code
def _take(d, given, made, requests, kinds, times, cycle):  # type: ignore[no-untyped-def]
    """Advances the state `d` of a master by a cycle, and notes the cycle in `times` for each burst that is accepted,
    begins or ends. `given`: the signals that the master drove; `made`: the signals that the master's bridge drove;
    `kinds`: as in `_give`. Returns the number of bursts that end in the cycle.
    """
    ended = 0
    if d[D_PAUSE] > 0:
        d[D_PAUSE] -= 1
    if given[I_W_VALID] and made[M_W_READY]:
        d[D_PAUSE] = requests[kinds[1, d[D_SENT]], S_GAP]
        d[D_WORD] += 1
        if given[I_W_LAST]:
            d[D_WORD] = 0
            d[D_SENT] += 1
    if made[M_R_VALID] and given[I_R_READY]:
        burst = kinds[0, d[D_READS]]
        if d[D_GOT] == 0:
            times[burst, T_FIRST] = cycle
        d[D_GOT] += 1
        if made[M_R_LAST]:
            times[burst, T_END] = cycle
            d[D_GOT] = 0
            d[D_READS] += 1
            d[D_READING] -= 1
            ended += 1
    if made[M_B_VALID] and given[I_B_READY]:
        times[kinds[1, d[D_WRITES]], T_END] = cycle
        d[D_WRITES] += 1
        d[D_WRITING] -= 1
        ended += 1
    if given[I_AR_VALID] and made[M_AR_READY]:
        times[d[D_NEXT], T_ACCEPTED] = cycle
        d[D_READING] += 1
        d[D_NEXT] += 1
    if given[I_AW_VALID] and made[M_AW_READY]:
        times[d[D_NEXT], T_ACCEPTED] = cycle
        d[D_WRITING] += 1
        d[D_NEXT] += 1
    return ended


@timing_code
def _next_request(D, requests, cycle):  # type: ignore[no-untyped-def]
    """The first cycle from `cycle` on in which a master may drive a signal: `cycle` itself if a master has bursts in
    flight, else the earliest cycle in which a master may issue its next request; `cycle` + NEVER if none is left. State
    array: D (masters).
    """
    first = cycle + NEVER
    for m in range(len(D)):
        if D[m, D_READING] or D[m, D_WRITING]:
            return cycle
        if D[m, D_NEXT] < requests.shape[1]:
            first = min(first, max(requests[m, D[m, D_NEXT], S_EARLIEST], cycle))
    return first


@compiled(error_model="numpy", _nrt=False)
def _run(memory, masters, start, limit):  # type: ignore[no-untyped-def]
    """Runs the streams of all masters and fills `masters.times`. Cycle 0 is `start` cycles after reset; the run stops
    in cycle `limit`. `memory`: state of the DRAM.
    """
    P, G, B, L, M, F, inputs = memory
    D, requests, kinds, stalls, most, times = masters
    left = requests.shape[0] * requests.shape[1]
    cycle = -start
    while left and cycle < limit:
        outputs(P, G, B, L, M, F)
        for m in range(len(M)):
            ready = cycle >= 0 and accepts(cycle, m, stalls[m])
            _give(D[m], inputs[m], requests[m], kinds[m], most[0], most[1], cycle, ready)
            left -= _take(D[m], inputs[m], M[m], requests[m], kinds[m], times[m], cycle)
        clock(P, G, B, L, M, F, inputs)
        cycle += 1
        skipped = min(quiet_until(G, M) - G[G_CYCLE], _next_request(D, requests, cycle) - cycle)
        G[G_CYCLE] += skipped
        cycle += skipped


def run_streams(
    controller: Controller, streams: Streams, *, start: int = 50, limit: int = 10_000_000
) -> Array:
    """Runs `streams` and returns the cycles of each burst, int64 (masters, n, 3), with the columns T_ACCEPTED, T_FIRST
    and T_END; -1 for an event that did not happen. Cycle 0 is `start` cycles after reset; the run stops when all bursts
    have ended, at the latest in cycle `limit`.
    """
    masters, count = streams.requests.shape[:2]
    kinds = np.zeros((masters, 2, count), np.int64)
    for of_master, requests in zip(kinds, streams.requests, strict=True):
        for row, write in zip(of_master, (0, 1), strict=True):
            places = np.flatnonzero(requests[:, S_WRITE] == write)
            row[: len(places)] = places
    inputs = np.zeros((masters, I_SIZE), np.int64)
    memory = _Memory(parameters(controller), *state(controller, masters), inputs)
    of_masters = _Masters(
        D=np.zeros((masters, D_SIZE), np.int64),
        requests=streams.requests,
        kinds=kinds,
        stalls=streams.stalls,
        most=np.array([streams.reads, streams.writes]),
        times=np.full((masters, count, 3), -1, np.int64),
    )
    _run(memory, of_masters, start, limit)
    return of_masters.times

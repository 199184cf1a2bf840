"""Streams of AXI bursts on the DRAM alone: the cycles in which addresses are accepted and bursts begin and end."""

from __future__ import annotations

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

from .dram import (
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
    dram_code,
    outputs,
    parameters,
    state,
)

# State of a master: requests issued, reads and writes ended, writes whose data are sent, reads and writes in flight,
# words of the current write sent, cycles until the next word, words of the current read received.
D_NEXT, D_READS, D_WRITES, D_SENT, D_READING, D_WRITING, D_WORD, D_PAUSE, D_GOT, D_SIZE = range(10)


@dram_code
def _of_kind(requests, write):  # type: ignore[no-untyped-def]
    """The indices of a master's reads or writes, in order."""
    return np.flatnonzero(requests[:, S_WRITE] == write)


@dram_code
def accepts(cycle, master, stall):  # type: ignore[no-untyped-def]
    """Whether a master takes data and responses in a cycle: pseudo-random, `stall` of 8 cycles not."""
    mixed = (np.uint64(cycle) * np.uint64(2654435761) + np.uint64(master) * np.uint64(40503)) >> np.uint64(9)
    return np.int64(mixed & np.uint64(7)) >= stall


@dram_code
def _run(P, G, B, L, M, F, requests, stalls, most_reads, most_writes, start, limit):  # type: ignore[no-untyped-def]
    masters, count = requests.shape[:2]
    D = np.zeros((masters, D_SIZE), np.int64)
    times = np.full((masters, count, 3), -1, np.int64)
    inputs = np.zeros((masters, I_SIZE), np.int64)
    reads = [_of_kind(requests[m], 0) for m in range(masters)]
    writes = [_of_kind(requests[m], 1) for m in range(masters)]
    left = masters * count
    cycle = -start
    while left and cycle < limit:
        outputs(P, G, B, L, M, F)
        for m in range(masters):
            d, given = D[m], inputs[m]
            given[:] = 0
            place = d[D_NEXT]
            if cycle >= 0 and place < count and cycle >= requests[m, place, S_EARLIEST]:
                request = requests[m, place]
                if request[S_WRITE]:
                    given[I_AW_VALID] = d[D_WRITING] < most_writes
                    given[I_AW_ADDRESS], given[I_AW_LEN] = request[S_WORD], request[S_WORDS] - 1
                else:
                    given[I_AR_VALID] = d[D_READING] < most_reads
                    given[I_AR_ADDRESS], given[I_AR_LEN] = request[S_WORD], request[S_WORDS] - 1
            sending = d[D_SENT] < d[D_WRITES] + d[D_WRITING]
            given[I_W_VALID] = sending and d[D_PAUSE] == 0
            if sending:
                given[I_W_LAST] = d[D_WORD] == requests[m, writes[m][d[D_SENT]], S_WORDS] - 1
            ready = cycle >= 0 and accepts(cycle, m, stalls[m])
            given[I_R_READY] = given[I_B_READY] = ready
            # The master's next state.
            if d[D_PAUSE] > 0:
                d[D_PAUSE] -= 1
            if given[I_W_VALID] and M[m, M_W_READY]:
                burst = writes[m][d[D_SENT]]
                d[D_PAUSE] = requests[m, burst, S_GAP]
                d[D_WORD] += 1
                if given[I_W_LAST]:
                    d[D_WORD] = 0
                    d[D_SENT] += 1
            if M[m, M_R_VALID] and ready:
                burst = reads[m][d[D_READS]]
                if d[D_GOT] == 0:
                    times[m, burst, T_FIRST] = cycle
                d[D_GOT] += 1
                if M[m, M_R_LAST]:
                    times[m, burst, T_END] = cycle
                    d[D_GOT] = 0
                    d[D_READS] += 1
                    d[D_READING] -= 1
                    left -= 1
            if M[m, M_B_VALID] and ready:
                times[m, writes[m][d[D_WRITES]], T_END] = cycle
                d[D_WRITES] += 1
                d[D_WRITING] -= 1
                left -= 1
            if given[I_AR_VALID] and M[m, M_AR_READY]:
                times[m, place, T_ACCEPTED] = cycle
                d[D_READING] += 1
                d[D_NEXT] += 1
            if given[I_AW_VALID] and M[m, M_AW_READY]:
                times[m, place, T_ACCEPTED] = cycle
                d[D_WRITING] += 1
                d[D_NEXT] += 1
        clock(P, G, B, L, M, F, inputs)
        cycle += 1
    return times


def run_streams(
    controller: Controller, streams: Streams, *, start: int = 50, limit: int = 10_000_000
) -> Array:
    """Cycles of each burst, int64 (masters, n, 3), with the columns T_ACCEPTED, T_FIRST, T_END. Cycle 0 is `start`
    cycles after reset; the run stops in cycle `limit`.
    """
    arrays = state(controller, len(streams.requests))
    return _run(
        parameters(controller),
        *arrays,
        streams.requests,
        streams.stalls,
        streams.reads,
        streams.writes,
        start,
        limit,
    )

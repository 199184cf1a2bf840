"""State of the machine's side of a DRAM's AXI port (`dram_machine.py`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import Array
from .cache import timing_code
from .parameters import P_INSTRUCTION, P_READS
from .state import (
    C_SERVED,
    C_TAKEN,
    FETCH_CLIENT,
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

R_REQUEST = R_RESERVED
"""Column of ring R in a run with a DRAM: 1 + the number of the request of which the entry is the last beat, else 0."""
Q_REQUEST = Q_READY
"""Column of array Q in a run with a DRAM: the number of the request, an index of ring A."""

# E: the next cycle to simulate; the first cycle in which a read address may be on the bus; reads and writes that are
# outstanding; write bursts whose address was shown, and whether one waits for its acceptance; beats of the current
# write, and of the oldest read, that have moved; responses that came; the address of the first byte of the next entry
# of R; the cycle after the last beat of a read; log2 of the bytes of a bus word; for each client, entries of R whose
# room `_free_room` has seen.
(
    E_CYCLE, E_OPEN, E_READS, E_WRITES, E_ANNOUNCED, E_WAITS, E_SENT, E_ARRIVED, E_RESPONSES, E_FIRST, E_FOLLOWS,
    E_SHIFT, E_SEEN,
) = range(13)  # fmt: skip
E_SIZE = E_SEEN + 4


class Dram(NamedTuple):
    """State arrays of the memory. A: requests of the read clients, as ring R of a run without DRAM. E: the machine's
    side of the AXI port. P, G, B, L, M, F: parameters and state of the controller (`sim/dram.py`), with its `inputs`.
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


@timing_code
def note_beats(P, C, R, A, E, read, count, last, cycle):  # type: ignore[no-untyped-def]
    """Notes that `count` beats of the oldest request `read` (a row of array Q) move from `cycle` on, one a cycle.
    `last`: they include the request's last one. Returns the client if its unit may derive new times, else -1: a load
    ends with a request, so beats within one change nothing. P, C, R, A, E: state arrays.
    """
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


@timing_code
def note_last(P, E, cycle):  # type: ignore[no-untyped-def]
    """Notes that the last beat of a request moves in `cycle`: if as many requests were outstanding as may be, the next
    read address may be on the bus from the next cycle on. P, E: state arrays.
    """
    if E[E_READS] == P[P_READS]:
        E[E_OPEN] = cycle + 1
    E[E_READS] -= 1

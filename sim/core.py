"""The main loop of a timing run. Only memory needs a clock; all other times follow in closed form from earlier times.

Times are sums and maxima of earlier times, with two exceptions. Which client's address memory accepts and which burst
it serves depends on the requests of that cycle, and the store unit reads accumulators only while compute does not. The
loop derives every time that it can, then makes memory's next decision, in order of time. A time that cannot be derived
yet depends on a later decision and is at least one cycle after it.
"""

from __future__ import annotations

from .cache import timing_code
from .memory import accept_read, accept_writes, next_accept, next_slot, serve, show_request
from .parameters import P_LIMIT
from .state import (
    COMPUTE_CLIENT,
    DEADLOCK,
    LIMIT,
    LOAD,
    LOAD_CLIENT,
    M_TOTAL,
    NEVER,
    OK,
    STORE,
    STORE_CLIENT,
    U_LAST_END,
)
from .store import advance_store, read_vectors
from .units import advance_compute, advance_load, dispatch, show_fetch

# One bit for each read client for which new times may be derivable.
_FETCH, _COMPUTE, _STORE, _LOAD = 1, 2, 4, 8
_ALL = 15


@timing_code
def run(P, U, V, X, bus, tokens, program, traffic):  # type: ignore[no-untyped-def]
    """Runs a program; returns (OK, DEADLOCK or LIMIT, the cycle of that outcome). `machine.py` makes the arrays."""
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
                show_request(P, C, R, LOAD_CLIENT)
            if todo & _COMPUTE:
                if advance_compute(P, U, X, bus, tokens, program):
                    work = _ALL
                show_request(P, C, R, COMPUTE_CLIENT)
            if todo & _STORE:
                if advance_store(P, U, V, X, bus, tokens, program):
                    work = _ALL
                show_request(P, C, R, STORE_CLIENT)
                accept_writes(P, M, W)
        accept, slot = next_accept(P, M, C, Q), next_slot(M, Q, W)
        event = min(accept, slot)
        if read_vectors(P, U, V, X, bus, program, traffic, event):
            work = _STORE
            continue
        if event > M[M_TOTAL]:
            return OK, M[M_TOTAL]
        if event == NEVER:
            return DEADLOCK, max(U[LOAD, U_LAST_END], U[STORE, U_LAST_END])
        if event > P[P_LIMIT]:
            return LIMIT, event
        # A client's address or data concerns that client's unit alone, until the unit begins or ends something.
        if accept <= slot:
            work = 1 << accept_read(P, M, C, Q, accept, traffic.moved, traffic.beats)
        else:
            work = 1 << serve(P, M, C, R, Q, W, slot)

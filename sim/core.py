"""The main loop. Everything but memory follows in closed form from what is known, so only memory needs a clock.

All times are sums and maxima of earlier times, with two exceptions: which client's address is accepted and which
burst the data slot serves depend on who asks at that moment, and the store unit reads accumulators when compute
does not. So: derive all that can be derived; then let memory take its next decision, in the order of time. A
fact not derivable yet depends on a decision still to come, and lies at least one cycle behind it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import accept_read, accept_writes, next_accept, next_slot, serve, show_request
from .state import (
    BLOCKED,
    C_SHOWN,
    C_SIZE,
    COMPUTE_CLIENT,
    DEADLOCK,
    LIMIT,
    LOAD,
    LOAD_CLIENT,
    M_LAST_ACCEPT,
    M_LAST_DISPATCH,
    M_LAST_WRITE_ACCEPT,
    M_SIZE,
    M_TOTAL,
    NEVER,
    OK,
    P_LIMIT,
    Q_SIZE,
    QUEUE,
    R_SIZE,
    RING,
    STORE,
    STORE_CLIENT,
    U_COUNT,
    U_HARD_END,
    U_LAST_END,
    U_OTHER_END,
    U_PREVIOUS_BEGIN,
    U_READY,
    UNIT,
    V_SIZE,
    W_SIZE,
)
from .store import advance_store, read_vectors
from .units import advance_compute, advance_load, dispatch, show_fetch


@njit(cache=True)
def _order(rows):  # type: ignore[no-untyped-def]
    """Instructions of each unit in program order (3, n), and how many."""
    order = np.empty((3, len(rows)), np.int64)
    counts = np.zeros(3, np.int64)
    for i in range(len(rows)):
        u = rows[i, UNIT]
        order[u, counts[u]] = i
        counts[u] += 1
    return order, counts


@njit(cache=True)
def run(P, clients, rows, registers, sizes, pop_queue, push_queue, B, kept, X, moved, beats, U, T):  # type: ignore[no-untyped-def]
    """Run the program; (outcome, cycle in which it was decided). Fills X, U, T and the traffic counters."""
    order, counts = _order(rows)
    M = np.zeros(M_SIZE, np.int64)
    C = np.zeros((4, C_SIZE), np.int64)
    V = np.zeros(V_SIZE, np.int64)
    R = np.full((4, RING, R_SIZE), NEVER, np.int64)
    Q = np.full((QUEUE, Q_SIZE), NEVER, np.int64)
    W = np.full((RING, W_SIZE), NEVER, np.int64)
    pushed = np.empty((len(pop_queue) * 2, len(rows) + 1), np.int64)
    popped = np.empty((len(pop_queue) * 2, len(rows) + 1), np.int64)
    C[:, :2] = clients
    C[:, C_SHOWN] = NEVER
    M[M_TOTAL] = NEVER
    M[M_LAST_ACCEPT] = M[M_LAST_WRITE_ACCEPT] = M[M_LAST_DISPATCH] = -1
    for u in range(3):
        U[u, U_COUNT] = counts[u]
        U[u, U_READY] = BLOCKED
        U[u, U_LAST_END] = U[u, U_OTHER_END] = U[u, U_HARD_END] = U[u, U_PREVIOUS_BEGIN] = -1
    while True:
        progress = True
        while progress:
            progress = dispatch(P, M, C, U, R, X, rows, order)
            progress |= show_fetch(P, M, C, R, X)
            progress |= advance_load(
                P, C, U, T, R, X, pushed, popped, pop_queue, push_queue, rows, registers, order, sizes
            )
            progress |= show_request(P, C, R, LOAD_CLIENT)
            progress |= advance_compute(
                P, M, C, U, T, R, X, pushed, popped, pop_queue, push_queue, rows, order, sizes
            )
            progress |= show_request(P, C, R, COMPUTE_CLIENT)
            progress |= advance_store(
                P,
                M,
                C,
                U,
                V,
                T,
                R,
                W,
                X,
                pushed,
                popped,
                pop_queue,
                push_queue,
                rows,
                registers,
                order,
                sizes,
            )
            progress |= show_request(P, C, R, STORE_CLIENT)
            progress |= accept_writes(P, M, W)
        accept, slot = next_accept(P, M, C, Q), next_slot(M, Q, W)
        event = min(accept, slot)
        if read_vectors(P, M, C, U, V, R, W, X, rows, registers, order, B, kept, moved, beats, event):
            continue
        if event > M[M_TOTAL]:
            return OK, M[M_TOTAL]
        if event == NEVER:
            return DEADLOCK, max(U[LOAD, U_LAST_END], U[STORE, U_LAST_END])
        if event > P[P_LIMIT]:
            return LIMIT, event
        if accept <= slot:
            accept_read(P, M, C, Q, accept, moved, beats)
        else:
            serve(P, M, C, R, Q, W, slot)

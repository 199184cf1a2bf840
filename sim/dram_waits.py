"""Counts the cycles of a DRAM's controller: those with a column command, and those without one by cause.

hw/dram.md, section 8, has the causes. `count_until` counts intervals, for a memory whose bursts are computed as a
whole. `cause_of_cycle` finds the cause of one cycle from the state of a controller that is simulated cycle by cycle.
"""

from __future__ import annotations

import numpy as np

from .arrays import Array
from .cache import timing_code
from .dram import (
    ACTIVATE,
    ACTIVATING,
    AUTOPRECHARGE,
    B_HELD,
    B_HELD_ROW,
    B_HELD_WRITE,
    B_OPEN,
    B_ROW,
    B_STATE,
    G_BUSY,
    G_STATE,
    G_STOPS,
    M_BANK,
    M_VALID,
    PRECHARGE,
    PRECHARGING,
    REFRESH,
    WRITES,
)
from .dram_port import E_BLOCKED, E_CHANGES
from .state import DRAM_CYCLES

CAUSES = len(DRAM_CYCLES)
WORDS, REFRESHED, CLOSES, OPENS, TURNS, CHANGES, LATENCY, IDLE = range(CAUSES)
# K: cycles by cause; the first cycle that is not counted yet; number of intervals counted; from K_KEPT on: cause and
# end (exclusive) of the last `_KEPT` intervals.
K_NEXT, K_INTERVALS, K_KEPT = range(CAUSES, CAUSES + 3)
_KEPT = 128


def no_counts() -> Array:
    """The array K before cycle 1."""
    counts = np.zeros(K_KEPT + 2 * _KEPT, np.int64)
    counts[K_NEXT] = 1
    return counts


@timing_code
def count_until(K, cause, end):  # type: ignore[no-untyped-def]
    """Counts as cycles of `cause` all cycles before `end` that have not been counted for any cause yet. State array: K
    (cycles by cause).
    """
    if end > K[K_NEXT]:
        K[cause] += end - K[K_NEXT]
        place = K_KEPT + 2 * (K[K_INTERVALS] & (_KEPT - 1))
        K[place], K[place + 1] = cause, end
        K[K_NEXT] = end
        K[K_INTERVALS] += 1


def counts_up_to(K: Array, total: int) -> Array:
    """The numbers of cycles by cause, int64 (CAUSES,), of cycles 1 to `total`. K may already have counted up to `_KEPT`
    intervals of later cycles.
    """
    counts, number, end = K[:CAUSES].copy(), int(K[K_INTERVALS]), int(K[K_NEXT])
    while end > total + 1:
        number -= 1
        place, before = (K_KEPT + 2 * (i & (_KEPT - 1)) for i in (number, number - 1))
        begin = int(K[before + 1]) if number else 1
        counts[K[place]] -= end - max(begin, total + 1)
        end = begin
    return counts


@timing_code
def holder(G, B):  # type: ignore[no-untyped-def]
    """The number of the bank that holds requests of the only master, -1 if none does. A master uses one bank at a time,
    so at most one bank holds requests. State arrays: G (controller), B (banks).
    """
    busy, b = G[G_BUSY], np.int64(0)
    while busy >> b:
        if busy >> b & 1 and B[b, B_HELD]:
            return b
        b += 1
    return np.int64(-1)


@timing_code
def cause_of_cycle(G, B, master, E, outstanding):  # type: ignore[no-untyped-def]
    """The cause of this cycle if the controller sends no column command in it; to be called between `dram.outputs` and
    `dram.clock`. `outstanding`: whether a burst or its address is on its way. `master`: the only row of array M. State
    arrays: G (controller), B (banks), E (AXI port).
    """
    busy, number = G[G_BUSY], holder(G, B)
    if busy == 0:
        E[E_CHANGES] = E[E_BLOCKED]
    E[E_BLOCKED] = master[M_VALID] and busy & ~(1 << master[M_BANK])
    if number < 0:
        if E[E_CHANGES]:
            return CHANGES
        return LATENCY if outstanding else IDLE
    E[E_CHANGES] = 0
    bank = B[number]
    state = bank[B_STATE]
    if G[G_STOPS] or G[G_STATE] == REFRESH:
        return REFRESHED
    if state in (PRECHARGE, AUTOPRECHARGE, PRECHARGING):
        return CLOSES
    if state in (ACTIVATE, ACTIVATING) or not bank[B_OPEN]:
        return OPENS
    if bank[B_ROW] != bank[B_HELD_ROW]:
        return CLOSES
    if G[G_STATE] > WRITES or bank[B_HELD_WRITE] != (G[G_STATE] == WRITES):
        return TURNS
    return CHANGES

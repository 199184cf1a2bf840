"""Timing of a DRAM behind LiteDRAM's controller for a single master, in closed form (hw/dram.md has the rules).

One master uses one bank at a time, so the controller executes the master's requests one after the other in their order.
Requests for consecutive words of an open row send a column command in each cycle, so `next_words` computes the times of
a run of words (same bank, row and direction) from the time of the first one. `_column_command` computes that time from
the rules about rows, the data bus and refreshes. `dram.py` computes the same times cycle by cycle, for any number of
masters; tests compare the two.

The arrays G and B are those of `dram.py`, of which this module uses the columns that last from one request to the next.
A bank that has no request is in the state regular. Times are cycles of the master.
"""

from __future__ import annotations

import numpy as np

from vdla.isa.dram import Controller

from .cache import timing_code
from .dram import (
    B_OPEN,
    B_RAS,
    B_RC,
    B_ROW,
    B_WTP,
    G_ACTIVATE,
    G_CALIBRATE_AT,
    G_CLOSED,
    G_COLUMN_GRANT,
    G_FAW,
    G_REFRESH_AT,
    G_REFRESHES,
    G_ROW_GRANT,
    G_RRD,
    G_STATE,
    G_TURNS,
    G_WTR,
    P_BANK_BITS,
    P_BANK_SHIFT,
    P_COLUMN_BITS,
    P_PHASES,
    P_QUEUE,
    P_RAS,
    P_RC,
    P_RCD,
    P_REFI,
    P_RFC,
    P_RP,
    P_TURNAROUND,
    P_WTP,
    P_WTR,
    P_ZQCS,
    P_ZQCS_PERIOD,
    READS,
    WRITES,
    Array,
    note_activate,
    state,
)
from .dram_waits import CHANGES, CLOSES, LATENCY, OPENS, REFRESHED, TURNS, WORDS, count_until

# S: bank of the last request; cycles in which it was accepted and in which its column command was sent; number of
# requests so far; the first cycle in which no write of any bank delays a precharge; the cycle in which the last refresh
# begins; from S_CLOSED on: the cycles of the last `CLOSED_KEPT` commands that closed a row; from S_HELD on: the cycle
# from which the bank holds the request, for the last `_KEPT` requests.
S_BANK, S_ACCEPTED, S_COLUMN, S_COUNT, S_WTP, S_REFRESHED, S_CLOSED = range(7)
CLOSED_KEPT, _KEPT = 4, 16
_KEPT_MASK = _KEPT - 1
S_HELD = S_CLOSED + CLOSED_KEPT
S_SIZE = S_HELD + _KEPT


def has_closed_form(controller: Controller) -> bool:
    """Whether this module computes the timing of a DRAM controller. It needs a column command in every cycle, a read
    FIFO that cannot be full while the master takes all words, and a write FIFO with more words than are on their way.
    """
    waiting = controller.queue + 1
    return (
        controller.t_ccd == 1
        and controller.queue < _KEPT
        and waiting + controller.read_latency + 2 < controller.read_fifo
        and waiting + controller.write_latency + 4 < controller.write_fifo
    )


def closed_state(controller: Controller, reset_cycles: int) -> tuple[Array, Array, Array]:
    """The state arrays (G, B, S) of a controller that left its reset `reset_cycles` cycles before the master's cycle 0
    and was idle since.
    """
    common, banks = state(controller, 1)[:2]
    common[[G_RRD, G_WTR, G_REFRESH_AT, G_CALIBRATE_AT]] -= reset_cycles
    common[G_ACTIVATE : G_ACTIVATE + 3] -= reset_cycles
    banks[:, [B_WTP, B_RC, B_RAS]] -= reset_cycles
    own = np.full(S_SIZE, -reset_cycles, np.int64)
    own[S_BANK], own[S_COUNT], own[S_WTP] = -1, 0, banks[:, B_WTP].max()
    own[S_COLUMN] = 0
    return common, banks, own


@timing_code
def _row_command(D, G, bank, cycle, opens):  # type: ignore[no-untyped-def]
    """Bank number `bank` asks for a row command from `cycle` on. Returns the cycle in which the command is accepted,
    and moves the chooser's grant to this bank. `opens`: the command is an ACTIVATE, else a PRECHARGE. State arrays: D
    (controller's parameters), G (controller).
    """
    free = max(G[G_RRD], G[G_FAW]) if opens else cycle
    chooser = G_ROW_GRANT
    if D[P_PHASES] == 1:
        chooser, cycle = G_COLUMN_GRANT, max(cycle, free)
    if G[chooser] != bank:
        G[chooser] = bank
        cycle += 1
    return max(cycle, free)


@timing_code
def _note_closed(G, S, cycle):  # type: ignore[no-untyped-def]
    """Records a command in `cycle` that closes a row: a PRECHARGE of one bank, or auto-precharge. State arrays: G
    (controller), S (last requests and commands).
    """
    S[S_CLOSED + G[G_CLOSED] % CLOSED_KEPT] = cycle
    G[G_CLOSED] += 1


@timing_code
def _open(D, G, bank, number, row, cycle):  # type: ignore[no-untyped-def]
    """Opens row `row` of the bank `number`, whose state is `bank`, a row of the array B. The bank asks for the ACTIVATE
    from `cycle` on. Returns the first cycle in which the bank is regular again (may send column commands). State
    arrays: D (controller's parameters), G (controller).
    """
    opened = _row_command(D, G, number, max(cycle, bank[B_RC]), True)
    note_activate(D, G, opened)
    bank[B_OPEN], bank[B_ROW] = 1, row
    if D[P_RC] >= 0:
        bank[B_RC] = opened + D[P_RC]
    if D[P_RAS] >= 0:
        bank[B_RAS] = opened + D[P_RAS]
    return opened + D[P_RCD]


@timing_code
def refresh(D, G, B, S, cycle):  # type: ignore[no-untyped-def]
    """Executes the next refresh, after which all rows are closed. `cycle`: first cycle in which no row command and no
    change of direction delays the refresh. Returns the first cycle in which the banks are regular again. State arrays:
    D (controller's parameters), G (controller), B (banks), S (last requests and commands).
    """
    begin = max(cycle, G[G_REFRESH_AT] + 2, S[S_WTP]) + 1
    end = begin + D[P_RP] + D[P_RFC] + 1
    while G[G_CALIBRATE_AT] < end:
        G[G_CALIBRATE_AT] += D[P_ZQCS_PERIOD]
    if D[P_ZQCS] >= 0 and end == G[G_CALIBRATE_AT]:
        end += D[P_RP] + D[P_ZQCS] + 1
        G[G_CALIBRATE_AT] = end + D[P_ZQCS_PERIOD]
    while G[G_REFRESH_AT] <= end:
        G[G_REFRESH_AT] += D[P_REFI]
    G[G_REFRESHES] += 1
    G[G_STATE] = READS
    S[S_REFRESHED] = begin
    for b in range(len(B)):
        B[b, B_OPEN] = 0
    return end + 1


@timing_code
def _column_command(dram, number, row, write, held, queued):  # type: ignore[no-untyped-def]
    """The cycle in which the column command is sent for a request for row `row` of bank `number`. `dram`: the state of
    the memory (`dram_port.Bursts`). `write`: whether the request is a write. `held`: the cycle from which the bank
    holds the request. `queued`: the request was in the bank's queue when the last column command was sent. Counts the
    cycles from `held` to the returned cycle by cause in the array K.
    """
    D, G, B, S, K = dram.P, dram.G, dram.B, dram.S, dram.K
    bank = B[number]
    cycle = held
    over = turned = np.int64(0)
    if queued and bank[B_OPEN] and bank[B_ROW] != row:
        # The last column command closed the row.
        _note_closed(G, S, S[S_COLUMN])
        cycle = max(held, bank[B_WTP], bank[B_RAS]) + D[P_RP]
        count_until(K, CLOSES, min(cycle, G[G_REFRESH_AT] + 1))
        cycle = over = _open(D, G, bank, number, row, cycle)
        count_until(K, OPENS, min(cycle, G[G_REFRESH_AT] + 1))
    while True:
        if cycle > G[G_REFRESH_AT]:
            cycle = max(held, refresh(D, G, B, S, max(over + 1, turned)))
            count_until(K, REFRESHED, cycle)
            over = turned = np.int64(0)
        elif bank[B_OPEN] == 0 or bank[B_ROW] != row:
            cycle += 1
            if bank[B_OPEN]:
                ready = max(cycle, bank[B_WTP], bank[B_RAS])
                closed = _row_command(D, G, number, ready, False)
                _note_closed(G, S, closed)
                cycle = closed + D[P_RP]
                count_until(K, CLOSES, min(cycle, G[G_REFRESH_AT] + 1))
            cycle = over = _open(D, G, bank, number, row, cycle)
            count_until(K, OPENS, min(cycle, G[G_REFRESH_AT] + 1))
        else:
            turned = cycle
            if write and G[G_STATE] == READS:
                turned += D[P_TURNAROUND] + 1
                G[G_STATE] = WRITES
                G[G_TURNS] += 1
            elif not write and G[G_STATE] == WRITES:
                turned = max(cycle + 1, G[G_WTR]) + 1
                G[G_STATE] = READS
            cycle = turned
            count_until(K, TURNS, min(cycle, G[G_REFRESH_AT] + 1))
            if G[G_COLUMN_GRANT] != number and cycle <= G[G_REFRESH_AT]:
                G[G_COLUMN_GRANT] = number
                cycle += 1
                count_until(K, CHANGES, cycle)
            if cycle <= G[G_REFRESH_AT]:
                return cycle


@timing_code
def next_words(dram, word, most, write, cycle):  # type: ignore[no-untyped-def]
    """Executes requests for consecutive bus words from `word` on, as long as their column commands are in consecutive
    cycles; at most `most` words. `dram`: the state of the memory (`dram_port.Bursts`). `write`: whether the requests
    are writes. `cycle`: the first one in which the master may send a request. Returns the number of words; S[S_COLUMN]
    and S[S_ACCEPTED] have the times of the last word.
    """
    D, G, B, S, K = dram.P, dram.G, dram.B, dram.S, dram.K
    place, within = word >> D[P_BANK_SHIFT], word & ((1 << D[P_BANK_SHIFT]) - 1)
    number = place & (len(B) - 1)
    row = (place >> D[P_BANK_BITS] << D[P_BANK_SHIFT] | within) >> D[P_COLUMN_BITS]
    first, queue = S[S_COUNT], D[P_QUEUE]
    # A bank's queue has room when the request that came `queue` requests before has left it.
    accepted = max(cycle, S[S_HELD + ((first - queue) & _KEPT_MASK)])
    waits = number != S[S_BANK] and accepted <= S[S_COLUMN]
    if waits:
        accepted = S[S_COLUMN] + 1
    queued = number == S[S_BANK] and accepted < S[S_COLUMN]
    held = max(accepted + 2, S[S_COLUMN] + 1)
    count_until(K, CHANGES if waits else LATENCY, held)
    column = _column_command(dram, number, row, write, held, queued)
    row_words = 1 << D[P_COLUMN_BITS]
    count = min(most, row_words - (word & (row_words - 1)), G[G_REFRESH_AT] - column + 1)
    S[S_HELD + (first & _KEPT_MASK)] = held
    for i in range(max(1, count - queue), count):
        S[S_HELD + ((first + i) & _KEPT_MASK)] = column + i
    last = count - 1
    accepted += last
    if last > queue:
        accepted = max(accepted, column + last - queue)
    elif last > 0:
        accepted = max(accepted, S[S_HELD + ((first + last - queue) & _KEPT_MASK)])
    count_until(K, WORDS, column + count)
    S[S_BANK], S[S_ACCEPTED], S[S_COLUMN] = number, accepted, column + last
    S[S_COUNT] += count
    if write:
        G[G_WTR] = column + last + D[P_WTR]
        B[number, B_WTP] = S[S_WTP] = column + last + D[P_WTP]
    return count

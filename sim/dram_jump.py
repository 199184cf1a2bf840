"""Does several cycles of a DRAM at once if each of them repeats the one before (`jump`).

In most cycles a bank waits for a time to pass, or a request is accepted, a column command is sent and a beat arrives,
as in the cycle before. Then counts grow by the same amounts, and nothing else changes until one reaches a bound.
`jump` computes the first bound; a cycle in which anything else happens is left to `dram_machine._memory_cycle`.

Only one bank has requests at a time, since a master uses one bank at a time (hw/dram.md, section 3).
"""

from __future__ import annotations

import numpy as np

from .cache import timing_code
from .dram import (
    A_ADDRESS,
    A_BEAT,
    A_INNER,
    A_LAST,
    A_OUT,
    A_PIPE,
    A_RESERVED,
    A_SIZE,
    A_TAKEN,
    A_VALID,
    A_WORDS,
    ACTIVATE,
    ACTIVATING,
    AUTOPRECHARGE,
    B_HEAD,
    B_HELD,
    B_HELD_ROW,
    B_HELD_WRITE,
    B_OPEN,
    B_QUEUED,
    B_RAS,
    B_RC,
    B_ROW,
    B_STATE,
    B_UNTIL,
    B_WTP,
    CALIBRATES,
    G_ACTIVE,
    G_BUSY,
    G_CCD,
    G_COLUMN_GRANT,
    G_CYCLE,
    G_REFRESH_AT,
    G_REFRESHER,
    G_SEQUENCE_END,
    G_STATE,
    G_UNTIL,
    G_WTR,
    IDLE,
    M_GRANT,
    M_READ,
    M_RESPONSES,
    M_WRITE,
    P_BANK_BITS,
    P_BANK_SHIFT,
    P_CCD,
    P_COLUMN_BITS,
    P_QUEUE,
    P_READ_FIFO,
    P_READ_LATENCY,
    P_WRITE_FIFO,
    P_WRITE_LATENCY,
    P_WTP,
    P_WTR,
    PRECHARGE,
    PRECHARGING,
    READS,
    REFRESH,
    REFRESHES,
    REGULAR,
    TO_READS,
    TO_WRITES,
    WRITES,
)
from .dram_port import (
    E_ANNOUNCED,
    E_ARRIVED,
    E_CYCLE,
    E_READS,
    E_SENT,
    E_WAITS,
    E_WRITES,
    note_beats,
    note_last,
)
from .memory import first_show
from .parameters import P_FIFO_LATENCY, P_LIMIT, P_READS, P_ROOM_DELAY, P_STORE_LATENCY, P_WRITES
from .state import (
    C_SHOWN,
    FETCH_CLIENT,
    M_SERVED,
    M_TOTAL,
    M_WRITE_ACCEPTED,
    M_WRITE_SERVED,
    M_WRITE_SHOWN,
    Q_BEATS,
    Q_CLIENT,
    QUEUE_MASK,
    STORE_CLIENT,
    V_COUNT,
    V_EARLIEST,
    V_INDEX,
    V_LATENCY,
    W_BEATS,
)

_ROOM = 3
"""Fewer cycles than pass from a word's arrival in a client's FIFO to a request that this arrival allows."""
_FAR = 1 << 40


@timing_code
def _run_length(pipe, latency, inserted):  # type: ignore[no-untyped-def]
    """For how many cycles the output of a pipe of `latency` bits stays as it is, if each cycle inserts `inserted`."""
    first = pipe >> (latency - 1)
    rest = pipe ^ ((1 << latency) - 1) if first else pipe
    if rest == 0:
        return _FAR if inserted == first else latency
    length = 1
    while not rest >> (latency - 1 - length):
        length += 1
    return length


@timing_code
def _shifted(pipe, latency, inserted, n):  # type: ignore[no-untyped-def]
    if n >= latency:
        return (1 << latency) - 1 if inserted else 0
    return (pipe << n | ((1 << n) - 1 if inserted else 0)) & ((1 << latency) - 1)


@timing_code
def _banks_wait(G, B, L):  # type: ignore[no-untyped-def]
    """(cycles, bank). The number of cycles in which all banks do what they do in this cycle: wait, or send column
    commands. `bank`: the one that sends column commands, or -1.
    """
    cycle, works, n = G[G_CYCLE], -1, _FAR
    refreshes = G[G_REFRESHER] != IDLE
    if G[G_STATE] == TO_WRITES:
        n = G[G_UNTIL] - cycle
    elif G[G_STATE] == TO_READS:
        n = G[G_WTR] - cycle
    elif G[G_STATE] == REFRESH and not refreshes:
        return 0, works
    active, b = G[G_ACTIVE], 0
    while active >> b:
        if active >> b & 1:
            bank = B[b]
            state = bank[B_STATE]
            if bank[B_QUEUED] and not bank[B_HELD]:
                return 0, works
            if state == REGULAR:
                if refreshes or (bank[B_HELD] and not (bank[B_OPEN] and bank[B_ROW] == bank[B_HELD_ROW])):
                    return 0, works
                if bank[B_HELD] and G[G_STATE] <= WRITES:
                    if bank[B_HELD_WRITE] != (G[G_STATE] == WRITES):
                        return 0, works
                    if bank[B_QUEUED] == 0 or cycle < G[G_CCD] or G[G_COLUMN_GRANT] != b:
                        return 0, works
                    slot = bank[B_HEAD]
                    for _ in range(bank[B_QUEUED]):
                        if L[b, slot, 0] != bank[B_HELD_WRITE] or L[b, slot, 1] != bank[B_HELD_ROW]:
                            return 0, works
                        slot = slot + 1 if slot + 1 < L.shape[1] else 0
                    works = b
            elif state in (PRECHARGING, ACTIVATING):
                n = min(n, bank[B_UNTIL] - cycle)
            elif state in (AUTOPRECHARGE, PRECHARGE):
                n = min(n, max(bank[B_WTP], bank[B_RAS]) - cycle)
            elif state == ACTIVATE:
                n = min(n, bank[B_RC] - cycle)
            elif not refreshes:
                return 0, works
        b += 1
    return n, works


@timing_code
def jump(P, V, bus, dram):  # type: ignore[no-untyped-def]
    """Does as many cycles of the memory as repeat one another, if these are two or more; else none. Returns the set of
    clients for which new times may be derivable, as bits. P, V: state arrays (`sim/arrays.py`).
    """
    M, C, R, Q, W = bus
    A, E, D, G, B, L, N, F, _ = dram
    master, cycle, controller = N[0], E[E_CYCLE], G[G_CYCLE]
    read, write = master[M_READ : M_READ + A_SIZE], master[M_WRITE : M_WRITE + A_SIZE]
    # --- the refresher
    n = G[G_REFRESH_AT] - controller
    if G[G_REFRESHER] == REFRESHES or G[G_REFRESHER] == CALIBRATES:
        n = min(n if n > 0 else _FAR, G[G_SEQUENCE_END] - controller)
        if G[G_STATE] != REFRESH:
            return np.int64(0)
    elif G[G_REFRESHER] != IDLE:
        return np.int64(0)
    if n < 2 or master[M_RESPONSES]:
        return np.int64(0)
    # --- read data
    arrives = read[A_OUT]
    if read[A_INNER] != arrives or read[A_PIPE] >> (D[P_READ_LATENCY] - 1) != arrives:
        return np.int64(0)
    client, oldest = np.int64(-1), Q[M[M_SERVED] & QUEUE_MASK]
    if arrives:
        client = oldest[Q_CLIENT]
        n = min(n, oldest[Q_BEATS] - E[E_ARRIVED])
        if client == FETCH_CLIENT:
            return np.int64(0)
        if client == STORE_CLIENT:
            n = min(n, P[P_FIFO_LATENCY] + P[P_STORE_LATENCY])
    if n < 2:
        return np.int64(0)
    waits, works = _banks_wait(G, B, L)
    n = min(n, waits)
    if n < 2:
        return np.int64(0)
    reads_sent, writes_sent = works >= 0 and G[G_STATE] == READS, works >= 0 and G[G_STATE] == WRITES
    n = min(n, _run_length(read[A_PIPE], D[P_READ_LATENCY], reads_sent))
    # --- write data
    leaves = write[A_PIPE] >> (D[P_WRITE_LATENCY] - 1)
    n = min(n, _run_length(write[A_PIPE], D[P_WRITE_LATENCY], writes_sent))
    enters = False
    if E[E_ANNOUNCED] > M[M_WRITE_SERVED]:
        if write[A_INNER] == D[P_WRITE_FIFO]:
            return np.int64(0)
        enters = True
        n = min(n, W[M[M_WRITE_SERVED] & (W.shape[0] - 1), W_BEATS] - E[E_SENT] - 1)
    if leaves:
        if not write[A_OUT]:
            return np.int64(0)
        if not enters:
            n = min(n, write[A_INNER])
        elif write[A_INNER] == 0:
            return np.int64(0)
    else:
        if not write[A_OUT] and (enters or write[A_INNER]):
            return np.int64(0)
        if enters:
            n = min(n, D[P_WRITE_FIFO] - write[A_INNER])
    # --- requests
    writes = master[M_GRANT] == 0
    port = write if writes else read
    full = write[A_INNER] + write[A_OUT] - write[A_RESERVED]
    may_read = read[A_VALID] and read[A_RESERVED] != D[P_READ_FIFO]
    may_write = write[A_VALID] and full > 0
    accepts, bank, row = False, 0, 0
    if may_write if writes else may_read:
        word = port[A_ADDRESS] + port[A_BEAT]
        place, within = word >> D[P_BANK_SHIFT], word & ((1 << D[P_BANK_SHIFT]) - 1)
        bank = place & (len(B) - 1)
        row = (place >> D[P_BANK_BITS] << D[P_BANK_SHIFT] | within) >> D[P_COLUMN_BITS]
        accepts = B[bank, B_QUEUED] < D[P_QUEUE] and not G[G_BUSY] & ~(1 << bank)
        if accepts:
            n = min(n, port[A_LAST] - port[A_BEAT])
            n = min(n, (1 << D[P_COLUMN_BITS]) - (word & ((1 << D[P_COLUMN_BITS]) - 1)))
            if writes:
                if not enters:
                    n = min(n, full)
            elif not arrives:
                n = min(n, D[P_READ_FIFO] - read[A_RESERVED])
            if not B[bank, B_HELD]:
                return np.int64(0)
            if works < 0:
                n = min(n, D[P_QUEUE] - B[bank, B_QUEUED])
            elif bank != works or row != B[bank, B_HELD_ROW] or writes != B[bank, B_HELD_WRITE]:
                return np.int64(0)
        elif works == bank:
            return np.int64(0)  # the queue is full now, and has room in the next cycle
    elif may_read or may_write or (enters and write[A_VALID]) or (arrives and read[A_VALID]):
        return np.int64(0)  # the grant moves, or a request gets room
    if works >= 0 and not accepts:
        n = min(n, B[works, B_QUEUED])
    # --- addresses
    if not read[A_VALID] and E[E_READS] != P[P_READS]:
        shown = min(min(C[0, C_SHOWN], C[1, C_SHOWN]), min(C[2, C_SHOWN], C[3, C_SHOWN]))
        n = min(n, shown - cycle)
        if arrives:
            n = min(n, P[P_FIFO_LATENCY] + _ROOM)
    if M[M_WRITE_ACCEPTED] < M[M_WRITE_SHOWN] and E[E_WRITES] < P[P_WRITES] and not E[E_WAITS]:
        n = min(n, first_show(P, M, W) - cycle)
    # --- the store unit's next vector, and the end of the run
    if V[V_INDEX] < V[V_COUNT]:
        # A vector read leads to a write address after the pipeline, to a read address after FIFO room is free.
        delay = V[V_LATENCY] if read[A_VALID] else min(V[V_LATENCY], P[P_ROOM_DELAY])
        n = min(n, max(V[V_EARLIEST] - cycle, 0) + delay)
    n = min(n, min(M[M_TOTAL], P[P_LIMIT]) + 1 - cycle)
    if leaves and n >= 2:
        taken, i = write[A_TAKEN], 0
        while i < n and not F[0, 1, (taken + i) & (F.shape[2] - 1)]:
            i += 1
        n = i
    if n < 2:
        return np.int64(0)
    # --- n equal cycles
    work = np.int64(0)
    if accepts:
        port[A_BEAT] += n
        port[A_RESERVED] += n
        if not writes:
            for i in range(n):
                F[0, 0, (read[A_WORDS] + i) & (F.shape[2] - 1)] = 0
            read[A_WORDS] += n
        if works < 0:
            slot = B[bank, B_HEAD] + B[bank, B_QUEUED]
            for i in range(n):
                place = (slot + i) % L.shape[1]
                L[bank, place, 0], L[bank, place, 1] = writes, row
            B[bank, B_QUEUED] += n
        else:
            for i in range(L.shape[1]):
                L[bank, i, 0], L[bank, i, 1] = writes, row
            B[bank, B_HEAD] = (B[bank, B_HEAD] + n) % L.shape[1]
    elif works >= 0:
        B[works, B_HEAD] = (B[works, B_HEAD] + n) % L.shape[1]
        B[works, B_QUEUED] -= n
    last = controller + n - 1
    if works >= 0:
        G[G_CCD] = last + D[P_CCD] if D[P_CCD] >= 0 else 0
        if writes_sent:
            if D[P_WTR] >= 0:
                G[G_WTR] = last + D[P_WTR]
            if D[P_WTP] >= 0:
                B[works, B_WTP] = last + D[P_WTP]
    read[A_PIPE] = _shifted(read[A_PIPE], D[P_READ_LATENCY], reads_sent, n)
    write[A_PIPE] = _shifted(write[A_PIPE], D[P_WRITE_LATENCY], writes_sent, n)
    if arrives:
        read[A_RESERVED] -= n
        read[A_TAKEN] += n
        last_beat = E[E_ARRIVED] + n == oldest[Q_BEATS]
        known = note_beats(P, C, R, A, E, oldest, n, last_beat, cycle)
        if known >= 0:
            work = 1 << known
        if last_beat:
            M[M_SERVED] += 1
            note_last(P, E, cycle + n - 1)
    if leaves:
        write[A_RESERVED] -= n
        write[A_TAKEN] += n
        write[A_INNER] -= n
    if enters:
        for i in range(n):
            F[0, 1, (write[A_WORDS] + i) & (F.shape[2] - 1)] = 0
        write[A_WORDS] += n
        write[A_INNER] += n
        E[E_SENT] += n
    G[G_CYCLE] += n
    E[E_CYCLE] += n
    return work

"""Timing of a DRAM behind LiteDRAM's controller, cycle by cycle (hw/dram.md has the rules).

Each master has an AXI bridge, which turns bursts into requests for single bus words. A crossbar gives the requests to
state machines, one for each bank, which open and close rows. A multiplexer chooses one row command and one column
command a cycle, and changes between reads and writes; a refresher stops all banks for a refresh.

A cycle has two halves. `outputs` computes from the state alone which requests are accepted, the banks' commands, and
the outputs of the AXI channels. `clock` takes the masters' inputs of the cycle and computes the next state.
`quiet_until` tells which cycles can be left out while no master asks for anything.

A set of banks is stored as the bits of an integer. A timing constraint is stored as the first cycle in which it no
longer holds, so that no counter must be decremented in each cycle: only banks with work cost simulation time.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from vdla.isa.dram import Controller

from .cache import timing_code

Array = NDArray[np.int64]

# Parameters: the fields of `isa.dram.Controller` in their order, and the bits of a bank's number.
(
    P_BANKS, P_PHASES, P_COLUMN_BITS, P_BANK_SHIFT, P_WORD_BYTES, P_QUEUE, P_READ_TIME, P_WRITE_TIME, P_READ_LATENCY,
    P_WRITE_LATENCY, P_TURNAROUND, P_RP, P_RCD, P_WTP, P_RC, P_RAS, P_RRD, P_FAW, P_CCD, P_WTR, P_REFI, P_RFC,
    P_ZQCS, P_ZQCS_PERIOD, P_READ_FIFO, P_WRITE_FIFO, P_BANK_BITS,
) = range(27)  # fmt: skip

# States of a bank.
REGULAR, PRECHARGE, AUTOPRECHARGE, PRECHARGING, ACTIVATE, ACTIVATING, REFRESHING = range(7)
# Columns of B: state, first cycle of the next state, open row; the request in work; the queue; the master that has the
# grant; first cycles after t_wtp, t_rc and t_ras; the command in this cycle, and whether it closes the row.
(
    B_STATE, B_UNTIL, B_ROW, B_OPEN, B_HELD, B_HELD_WRITE, B_HELD_ROW, B_QUEUED, B_HEAD, B_GRANT, B_WTP, B_RC, B_RAS,
    B_COMMAND, B_AUTO, B_SIZE,
) = range(16)  # fmt: skip
# Commands of a bank in a cycle.
NONE, READ, WRITE, ROW_CLOSE, ROW_OPEN = range(5)

# States of the multiplexer.
READS, WRITES, TO_WRITES, TO_READS, REFRESH = range(5)
# States of the refresher.
IDLE, WAIT, REFRESHES, CALIBRATES = range(4)
# Columns of G. The cycle; the multiplexer's state, the first cycle of this state and the last one of TO_WRITES; the
# grants of both choosers; the first cycles after t_rrd, t_ccd, t_wtr, t_faw; the cycles of the last three activates;
# the refresher's state, the next cycle in which it wants a refresh, the end of its sequence, whether banks must stop;
# sets of banks: with requests, with work, that ask for a row command, a read, a write; the next calibration's cycle;
# counts: rows opened, rows closed by a precharge or auto-precharge, refreshes, changes from reads to writes.
(
    G_CYCLE, G_STATE, G_SINCE, G_UNTIL, G_ROW_GRANT, G_COLUMN_GRANT, G_RRD, G_CCD, G_WTR, G_FAW, G_ACTIVATE,
    _G_SECOND, _G_THIRD, G_REFRESHER, G_REFRESH_AT, G_SEQUENCE_END, G_STOPS, G_BUSY, G_ACTIVE, G_ASK_ROWS,
    G_ASK_READS, G_ASK_WRITES, G_CALIBRATE_AT, G_OPENED, G_CLOSED, G_REFRESHES, G_TURNS, G_SIZE,
) = range(28)  # fmt: skip

# Columns of M: the AXI bridge of each master. Reads and writes have the same columns, from M_READ and M_WRITE on: the
# burst in the address register, its next word; words requested and not yet moved; words in the FIFO and its output
# register; counts of words that entered and left; words on their way between FIFO and memory, a bit for each cycle.
(A_VALID, A_ADDRESS, A_LAST, A_BEAT, A_RESERVED, A_INNER, A_OUT, A_WORDS, A_TAKEN, A_PIPE, A_SIZE) = range(11)
M_READ, M_WRITE = 0, A_SIZE
# Whether writes (0) or reads (1) have the grant; the request to the crossbar in this cycle; responses that wait; the
# outputs; the next owner of the requested bank, plus 1, if the bank's grant moves.
(
    M_GRANT, M_VALID, M_BANK, M_ROW, M_ACCEPTED, M_ENDS, M_RESPONSES, M_AR_READY, M_AW_READY, M_W_READY, M_R_VALID,
    M_R_LAST, M_B_VALID, M_MOVES, M_SIZE,
) = range(2 * A_SIZE, 2 * A_SIZE + 15)  # fmt: skip
# Inputs of a master in a cycle.
(
    I_AR_VALID, I_AR_ADDRESS, I_AR_LEN, I_AW_VALID, I_AW_ADDRESS, I_AW_LEN, I_W_VALID, I_W_LAST, I_R_READY, I_B_READY,
    I_SIZE,
) = range(11)  # fmt: skip


def parameters(controller: Controller) -> Array:
    """The fields of a DRAM controller as the array P, int64, which the constants P_... index."""
    return np.array((*dataclasses.astuple(controller), controller.banks.bit_length() - 1), np.int64)


def _first_ready(time: int) -> int:
    """The first cycle after reset in which a timer of `time` cycles lets a command pass; 0 if `time` is negative.

    A timer is 0 at reset, and its first decrement wraps to its largest value. It therefore takes as many cycles as it
    has values: 8 for a timer of 6 cycles, which has 3 bits.
    """
    return 0 if time < 0 else 1 << (max(time, 2) - 1).bit_length()


def state(controller: Controller, masters: int) -> tuple[Array, Array, Array, Array, Array]:
    """The state arrays (G, B, L, M, F) at reset for a number of masters. G: state common to all banks; B: banks; L: for
    each entry of the banks' queues (is a write, row); M: masters' AXI bridges; F: for each word in the bridges' FIFOs
    for reads and writes, whether it is the last word of a burst.
    """
    G, B = np.zeros(G_SIZE, np.int64), np.zeros((controller.banks, B_SIZE), np.int64)
    G[[G_RRD, G_CCD, G_WTR]] = [
        _first_ready(t) for t in (controller.t_rrd, controller.t_ccd, controller.t_wtr)
    ]
    B[:, [B_WTP, B_RC, B_RAS]] = [
        _first_ready(t) for t in (controller.t_wtp, controller.t_rc, controller.t_ras)
    ]
    G[G_SINCE] = -controller.read_time
    G[G_ACTIVATE : G_ACTIVATE + 3] = -controller.t_refi
    G[G_REFRESH_AT], G[G_CALIBRATE_AT] = controller.t_refi, controller.zqcs_period - 1
    L = np.zeros((controller.banks, controller.queue, 2), np.int64)
    M = np.zeros((masters, M_SIZE), np.int64)
    words = 1 << (max(controller.read_fifo, controller.write_fifo) + 3).bit_length()
    F = np.zeros((masters, 2, words), np.int64)
    return G, B, L, M, F


@timing_code
def _next_grant(grant, requests, count):  # type: ignore[no-untyped-def]
    """Round-robin choice: the next index after `grant` (modulo `count`) whose bit in `requests` is 1; `grant` itself if
    no other bit is 1, whether it is in `requests` or not.
    """
    others = requests & ~(1 << grant)
    if others == 0:
        return grant
    index = grant
    while True:
        index = index + 1 if index + 1 < count else 0
        if others >> index & 1:
            return index


@timing_code
def _locked_elsewhere(G, B, master, bank):  # type: ignore[no-untyped-def]
    """Whether a bank other than `bank` (both are indices) still has requests of master number `master` to execute.
    State arrays: G (controller), B (banks).
    """
    others, other = G[G_BUSY] & ~(1 << bank), 0
    while others >> other:
        if others >> other & 1 and B[other, B_GRANT] == master:
            return True
        other += 1
    return False


@timing_code
def quiet_until(G, M):  # type: ignore[no-untyped-def]
    """The first cycle in which the state can change without an input of a master: this cycle, or the next request for a
    refresh if no bank and no bridge has work. State arrays: G (controller), M (masters' bridges).
    """
    if G[G_ACTIVE] or G[G_REFRESHER] != IDLE or G[G_STATE] > WRITES:
        return G[G_CYCLE]
    for m in range(len(M)):
        master = M[m]
        for port in (M_READ, M_WRITE):
            if (
                master[port + A_VALID]
                or master[port + A_INNER]
                or master[port + A_OUT]
                or master[port + A_PIPE]
            ):
                return G[G_CYCLE]
        if master[M_RESPONSES]:
            return G[G_CYCLE]
    return G[G_REFRESH_AT]


@timing_code
def _bridge_outputs(P, G, B, master, number, flags):  # type: ignore[no-untyped-def]
    """Sets in `master`, the bridge's row of M: the bridge's request in this cycle, whether a bank accepts the request,
    and the outputs of the AXI channels. `number`: index of the master; `flags`: its part of F. State arrays: P
    (controller's parameters), G (controller), B (banks).
    """
    write = master[M_GRANT] == 0
    port = M_WRITE if write else M_READ
    master[M_VALID] = master[M_ACCEPTED] = master[M_ENDS] = 0
    if master[port + A_VALID]:
        full = master[M_WRITE + A_INNER] + master[M_WRITE + A_OUT]
        room = full > master[M_WRITE + A_RESERVED] if write else master[M_READ + A_RESERVED] != P[P_READ_FIFO]
        if room:
            word = master[port + A_ADDRESS] + master[port + A_BEAT]
            place, within = word >> P[P_BANK_SHIFT], word & ((1 << P[P_BANK_SHIFT]) - 1)
            bank = place & (len(B) - 1)
            row = (place >> P[P_BANK_BITS] << P[P_BANK_SHIFT] | within) >> P[P_COLUMN_BITS]
            master[M_VALID], master[M_BANK], master[M_ROW] = 1, bank, row
            master[M_ENDS] = master[port + A_BEAT] == master[port + A_LAST]
            mine = B[bank, B_GRANT] == number and B[bank, B_QUEUED] < P[P_QUEUE]
            master[M_ACCEPTED] = mine and not _locked_elsewhere(G, B, number, bank)
    taken = master[M_ACCEPTED] and master[M_ENDS]
    master[M_AR_READY] = not master[M_READ + A_VALID] or (taken and not write)
    master[M_AW_READY] = not master[M_WRITE + A_VALID] or (taken and write)
    master[M_W_READY] = master[M_WRITE + A_INNER] != P[P_WRITE_FIFO]
    master[M_R_VALID] = master[M_READ + A_OUT]
    if master[M_R_VALID]:
        master[M_R_LAST] = flags[0, master[M_READ + A_TAKEN] & (flags.shape[1] - 1)]
    master[M_B_VALID] = master[M_RESPONSES] > 0


@timing_code
def outputs(P, G, B, L, M, F):  # type: ignore[no-untyped-def]
    """The first half of a cycle: sets, in the state arrays, the requests that banks accept (M_ACCEPTED), the commands
    that banks ask for (B_COMMAND), and the outputs of the AXI channels. State arrays: P (controller's parameters), G
    (controller), B (banks), L (banks' queues), M (masters' bridges), F (words in the bridges' FIFOs).
    """
    cycle = G[G_CYCLE]
    for m in range(len(M)):
        _bridge_outputs(P, G, B, M[m], m, F[m])
    while G[G_CALIBRATE_AT] < cycle:
        G[G_CALIBRATE_AT] += P[P_ZQCS_PERIOD]
    over = cycle == G[G_SEQUENCE_END]
    calibrates = over and cycle == G[G_CALIBRATE_AT] and P[P_ZQCS] >= 0
    refresher = G[G_REFRESHER]
    G[G_STOPS] = refresher != IDLE and (
        refresher == WAIT or not over or (refresher == REFRESHES and calibrates)
    )
    rows, reads, writes, active, b = 0, 0, 0, G[G_ACTIVE], 0
    while active >> b:
        if active >> b & 1:
            bank = B[b]
            command = NONE
            bank[B_AUTO] = 0
            if bank[B_STATE] == REGULAR:
                if not G[G_STOPS] and bank[B_HELD] and bank[B_OPEN] and bank[B_ROW] == bank[B_HELD_ROW]:
                    command = WRITE if bank[B_HELD_WRITE] else READ
                    bank[B_AUTO] = bank[B_QUEUED] > 0 and L[b, bank[B_HEAD], 1] != bank[B_HELD_ROW]
            elif bank[B_STATE] == PRECHARGE:
                if cycle >= bank[B_WTP] and cycle >= bank[B_RAS]:
                    command = ROW_CLOSE
            elif bank[B_STATE] == ACTIVATE and cycle >= bank[B_RC]:
                command = ROW_OPEN
            bank[B_COMMAND] = command
            if command >= ROW_CLOSE:
                rows |= 1 << b
            elif command == READ:
                reads |= 1 << b
            elif command == WRITE:
                writes |= 1 << b
        b += 1
    G[G_ASK_ROWS], G[G_ASK_READS], G[G_ASK_WRITES] = rows, reads, writes


@timing_code
def _choose(P, G, B):  # type: ignore[no-untyped-def]
    """Arbitrates between the banks: returns (bank whose row command is accepted in this cycle, bank whose column
    command is accepted), -1 for none. State arrays: P (controller's parameters), G (controller), B (banks).

    Also moves the round-robin grants of the choosers for row and column commands. If a controller clock is one DRAM
    clock, the column chooser alone chooses among commands of both kinds.
    """
    cycle, count = G[G_CYCLE], len(B)
    rows = G[G_ASK_ROWS]
    works = G[G_STATE] == READS or G[G_STATE] == WRITES
    may_open = cycle >= G[G_RRD] and cycle >= G[G_FAW]
    columns = rows
    if works:
        columns = G[G_ASK_READS] if G[G_STATE] == READS else G[G_ASK_WRITES]
        if P[P_PHASES] == 1:
            for b in range(count):
                if rows >> b & 1 and (may_open or B[b, B_COMMAND] == ROW_CLOSE):
                    columns |= 1 << b
    column, row_bank, column_bank = G[G_COLUMN_GRANT], -1, -1
    ready = works and cycle >= G[G_CCD]
    if P[P_PHASES] == 1:
        opening = columns >> column & 1 and B[column, B_COMMAND] == ROW_OPEN
        ready = ready and (not opening or may_open)
    else:
        row = G[G_ROW_GRANT]
        asks = rows >> row & 1
        row_ready = works and (may_open or not asks or B[row, B_COMMAND] != ROW_OPEN)
        if asks and row_ready:
            row_bank = row
        if row_ready or not asks:
            G[G_ROW_GRANT] = _next_grant(row, rows, count)
    asks = columns >> column & 1
    if asks and ready:
        column_bank = column
    if ready or not asks:
        G[G_COLUMN_GRANT] = _next_grant(column, columns, count)
    return row_bank, column_bank


@timing_code
def note_activate(P, G, cycle):  # type: ignore[no-untyped-def]
    """Records an ACTIVATE in `cycle`: the next one waits t_rrd cycles; at most four happen within t_faw cycles. State
    arrays: P (controller's parameters), G (controller).
    """
    oldest = G[G_ACTIVATE]
    if P[P_RRD] >= 0:
        G[G_RRD] = cycle + P[P_RRD]
    if P[P_FAW] >= 0 and oldest >= cycle - P[P_FAW]:
        # The controller's count of activates has two bits if the window has up to four cycles; then 4 reads as 0.
        G[G_FAW] = oldest + P[P_FAW] + 2 if P[P_FAW] > 4 else cycle + 2
    G[G_ACTIVATE], G[G_ACTIVATE + 1], G[G_ACTIVATE + 2] = G[G_ACTIVATE + 1], G[G_ACTIVATE + 2], cycle
    G[G_OPENED] += 1


@timing_code
def _clock_multiplexer(P, G, B):  # type: ignore[no-untyped-def]
    """Changes the multiplexer's state in G to that of the next cycle: which direction it serves, or a refresh. State
    arrays: P (controller's parameters), G (controller), B (banks).
    """
    cycle, before = G[G_CYCLE], G[G_STATE]
    reads, writes, after = G[G_ASK_READS], G[G_ASK_WRITES], before
    if before == READS:
        if writes and (not reads or cycle - G[G_SINCE] >= P[P_READ_TIME] - 1):
            after, G[G_UNTIL] = TO_WRITES, cycle + P[P_TURNAROUND]
            G[G_TURNS] += 1
    elif before == WRITES:
        if reads and (not writes or cycle - G[G_SINCE] >= P[P_WRITE_TIME] - 1):
            after = TO_READS
    elif before == TO_WRITES:
        after = WRITES if cycle == G[G_UNTIL] else before
    elif before == TO_READS:
        after = READS if cycle >= G[G_WTR] else before
    elif not G[G_STOPS]:
        after = READS
    if G[G_STOPS] and before <= WRITES:
        stopped = True
        for b in range(len(B)):
            stopped = stopped and B[b, B_STATE] == REFRESHING and cycle >= B[b, B_WTP]
        after = REFRESH if stopped else after
    if after != before:
        G[G_STATE], G[G_SINCE] = after, cycle + 1


@timing_code
def _clock_refresher(P, G, ready):  # type: ignore[no-untyped-def]
    """Changes the refresher's state in G to that of the next cycle; `ready`: the multiplexer is in state REFRESH. State
    arrays: P (controller's parameters), G (controller).
    """
    cycle, state = G[G_CYCLE], G[G_REFRESHER]
    over = cycle == G[G_SEQUENCE_END]
    G[G_REFRESHES] += state == REFRESHES and cycle == G[G_SEQUENCE_END] - P[P_RFC]
    asked = cycle == G[G_REFRESH_AT]
    if asked:
        G[G_REFRESH_AT] += P[P_REFI]
    if state == IDLE and asked:
        G[G_REFRESHER] = WAIT
    elif state == WAIT and ready:
        G[G_REFRESHER], G[G_SEQUENCE_END] = REFRESHES, cycle + P[P_RP] + P[P_RFC] + 1
    elif state == REFRESHES and over:
        calibrates = cycle == G[G_CALIBRATE_AT] and P[P_ZQCS] >= 0
        G[G_REFRESHER] = CALIBRATES if calibrates else IDLE
        if calibrates:
            G[G_SEQUENCE_END] = cycle + P[P_RP] + P[P_ZQCS] + 1
    elif state == CALIBRATES and over:
        G[G_REFRESHER], G[G_CALIBRATE_AT] = IDLE, cycle + P[P_ZQCS_PERIOD]


@timing_code
def _clock_bank(P, G, bank, queue, accepted):  # type: ignore[no-untyped-def]
    """Changes the state of `bank`, a row of B, to that of the next cycle, without requests that enter the bank's
    `queue`, a row of L, in this cycle. `accepted`: whether the bank's command of this cycle is accepted. State arrays:
    P (controller's parameters), G (controller).
    """
    cycle, state, command = G[G_CYCLE], bank[B_STATE], bank[B_COMMAND]
    if state == REGULAR:
        if G[G_STOPS]:
            bank[B_STATE] = REFRESHING
        elif bank[B_HELD]:
            if not bank[B_OPEN]:
                bank[B_STATE] = ACTIVATE
            elif bank[B_ROW] != bank[B_HELD_ROW]:
                bank[B_STATE] = PRECHARGE
            elif accepted and bank[B_AUTO]:
                bank[B_STATE] = AUTOPRECHARGE
        if accepted:
            if command == WRITE and P[P_WTP] >= 0:
                bank[B_WTP] = cycle + P[P_WTP]
            bank[B_HELD] = 0
    elif state == REFRESHING:
        bank[B_OPEN] = 0
        if not G[G_STOPS]:
            bank[B_STATE] = REGULAR
    elif state in (PRECHARGE, AUTOPRECHARGE):
        bank[B_OPEN] = 0
        if accepted or (state == AUTOPRECHARGE and cycle >= bank[B_WTP] and cycle >= bank[B_RAS]):
            bank[B_STATE], bank[B_UNTIL] = PRECHARGING if P[P_RP] > 1 else ACTIVATE, cycle + P[P_RP] - 1
    elif state == ACTIVATE:
        if command == ROW_OPEN:
            bank[B_OPEN], bank[B_ROW] = 1, bank[B_HELD_ROW]
        if accepted:
            bank[B_STATE], bank[B_UNTIL] = ACTIVATING if P[P_RCD] > 1 else REGULAR, cycle + P[P_RCD] - 1
            if P[P_RC] >= 0:
                bank[B_RC] = cycle + P[P_RC]
            if P[P_RAS] >= 0:
                bank[B_RAS] = cycle + P[P_RAS]
    elif cycle == bank[B_UNTIL]:
        bank[B_STATE] = ACTIVATE if state == PRECHARGING else REGULAR
    if not bank[B_HELD] and bank[B_QUEUED]:
        bank[B_HELD] = 1
        bank[B_HELD_WRITE], bank[B_HELD_ROW] = queue[bank[B_HEAD], 0], queue[bank[B_HEAD], 1]
        bank[B_HEAD] = bank[B_HEAD] + 1 if bank[B_HEAD] + 1 < len(queue) else 0
        bank[B_QUEUED] -= 1


@timing_code
def _clock_fifo(port, enters, leaves):  # type: ignore[no-untyped-def]
    """Changes the state of a FIFO with an output register, in columns of `port`, to that of the next cycle. `enters`:
    whether a word enters the FIFO; `leaves`: whether the reader takes the word in the output register, if there is one.
    """
    moves = port[A_INNER] > 0 and (not port[A_OUT] or leaves)
    port[A_INNER] += enters - moves
    if moves:
        port[A_OUT] = 1
    elif leaves:
        port[A_OUT] = 0


@timing_code
def _clock_address(port, valid, address, last, accepted, ends):  # type: ignore[no-untyped-def]
    """Changes the state of an address channel, in columns of `port`, to that of the next cycle. The channel's register
    takes the next burst that the master offers when the register is empty, or when the last word of the burst in the
    register is requested. `valid`: the master offers a burst, with first word `address` and `last` + 1 words.
    `accepted`: a word is requested; `ends`: this word is the last one of its burst.
    """
    if accepted:
        port[A_BEAT] = 0 if ends else port[A_BEAT] + 1
    if not port[A_VALID] or (accepted and ends):
        port[A_VALID] = valid
        if valid:
            port[A_ADDRESS], port[A_LAST] = address, last


@timing_code
def _clock_bridge(P, master, flags, given, read_data, write_data):  # type: ignore[no-untyped-def]
    """Changes the state of a bridge, in its row `master` of M and its `flags` in F, to that of the next cycle. `given`:
    the AXI signals that the master drives; `read_data`, `write_data`: whether the controller's column command of this
    cycle is a read, or a write, of this master. State array: P (controller's parameters).
    """
    read, write = master[M_READ : M_READ + A_SIZE], master[M_WRITE : M_WRITE + A_SIZE]
    writes = master[M_GRANT] == 0
    accepted, ends = master[M_ACCEPTED], master[M_ENDS]
    if not master[M_VALID] or (accepted and ends):
        if writes:
            if read[A_VALID] and read[A_RESERVED] != P[P_READ_FIFO]:
                master[M_GRANT] = 1
        elif write[A_VALID] and write[A_INNER] + write[A_OUT] > write[A_RESERVED]:
            master[M_GRANT] = 0
    arrives = read[A_PIPE] >> (P[P_READ_LATENCY] - 1)
    sent = write[A_PIPE] >> (P[P_WRITE_LATENCY] - 1)
    read[A_PIPE] = (read[A_PIPE] - (arrives << (P[P_READ_LATENCY] - 1))) << 1 | read_data
    write[A_PIPE] = (write[A_PIPE] - (sent << (P[P_WRITE_LATENCY] - 1))) << 1 | write_data
    read_leaves = read[A_OUT] and given[I_R_READY]
    write_leaves = write[A_OUT] and sent
    if accepted:
        if writes:
            write[A_RESERVED] += 1
        else:
            read[A_RESERVED] += 1
            flags[0, read[A_WORDS] & (flags.shape[1] - 1)] = ends
            read[A_WORDS] += 1
    if read_leaves:
        read[A_RESERVED] -= 1
        read[A_TAKEN] += 1
    if master[M_RESPONSES] > 0 and given[I_B_READY]:
        master[M_RESPONSES] -= 1
    if write_leaves:
        write[A_RESERVED] -= 1
        master[M_RESPONSES] += flags[1, write[A_TAKEN] & (flags.shape[1] - 1)]
        write[A_TAKEN] += 1
    enters = given[I_W_VALID] and write[A_INNER] != P[P_WRITE_FIFO]
    if enters:
        flags[1, write[A_WORDS] & (flags.shape[1] - 1)] = given[I_W_LAST]
        write[A_WORDS] += 1
    _clock_fifo(read, arrives, given[I_R_READY])
    _clock_fifo(write, enters, sent)
    _clock_address(
        read, given[I_AR_VALID], given[I_AR_ADDRESS], given[I_AR_LEN], accepted and not writes, ends
    )
    _clock_address(write, given[I_AW_VALID], given[I_AW_ADDRESS], given[I_AW_LEN], accepted and writes, ends)


@timing_code
def _clock_crossbar(G, B, M):  # type: ignore[no-untyped-def]
    """Decides which idle banks will be granted to another master in the next cycle, because that master requests the
    bank (M_MOVES). State arrays: G (controller), B (banks), M (masters' bridges).
    """
    for m in range(len(M)):
        bank = M[m, M_BANK]
        if not M[m, M_VALID] or G[G_BUSY] >> bank & 1 or B[bank, B_GRANT] == m:
            continue
        requests = 0
        for other in range(len(M)):
            if M[other, M_VALID] and M[other, M_BANK] == bank and not _locked_elsewhere(G, B, other, bank):
                requests |= 1 << other
        if not requests >> B[bank, B_GRANT] & 1:
            M[m, M_MOVES] = _next_grant(B[bank, B_GRANT], requests, len(M)) + 1


@timing_code
def clock(P, G, B, L, M, F, inputs):  # type: ignore[no-untyped-def]
    """The second half of a cycle, after `outputs`: changes the state arrays to the next state. `inputs` [masters,
    I_SIZE]: the AXI signals that the masters drive in this cycle; addresses in bus words, lengths in words - 1. State
    arrays: P (controller's parameters), G (controller), B (banks), L (banks' queues), M (masters' bridges), F (words in
    the bridges' FIFOs).
    """
    cycle = G[G_CYCLE]
    row_bank, column_bank = _choose(P, G, B)
    reader, writer = -1, -1
    ready = G[G_STATE] == REFRESH
    opens = row_bank
    if column_bank >= 0:
        command = B[column_bank, B_COMMAND]
        if command == READ:
            reader = B[column_bank, B_GRANT]
        elif command == WRITE:
            writer = B[column_bank, B_GRANT]
        else:
            opens = column_bank
    _clock_multiplexer(P, G, B)
    if opens >= 0 and B[opens, B_COMMAND] == ROW_OPEN:
        note_activate(P, G, cycle)
    G[G_CLOSED] += opens >= 0 and B[opens, B_COMMAND] == ROW_CLOSE
    G[G_CLOSED] += (reader >= 0 or writer >= 0) and B[column_bank, B_AUTO]
    if reader >= 0 or writer >= 0:
        G[G_CCD] = cycle + P[P_CCD] if P[P_CCD] >= 0 else 0
    if writer >= 0 and P[P_WTR] >= 0:
        G[G_WTR] = cycle + P[P_WTR]
    if len(M) > 1:
        _clock_crossbar(G, B, M)
    stops = G[G_STOPS]
    active = (1 << len(B)) - 1 if stops else G[G_ACTIVE]
    for m in range(len(M)):
        if M[m, M_ACCEPTED]:
            active |= 1 << M[m, M_BANK]
    left, busy, b = 0, 0, 0
    while active >> b:
        if active >> b & 1:
            bank, owner = B[b], B[b, B_GRANT]
            slot = bank[B_HEAD] + bank[B_QUEUED]
            _clock_bank(P, G, bank, L[b], b in (row_bank, column_bank))
            if M[owner, M_ACCEPTED] and M[owner, M_BANK] == b:
                slot = slot if slot < P[P_QUEUE] else slot - P[P_QUEUE]
                L[b, slot, 0], L[b, slot, 1] = M[owner, M_GRANT] == 0, M[owner, M_ROW]
                bank[B_QUEUED] += 1
            if bank[B_HELD] or bank[B_QUEUED]:
                busy |= 1 << b
                left |= 1 << b
            elif bank[B_STATE] != REGULAR:
                left |= 1 << b
            else:
                bank[B_COMMAND] = NONE
        b += 1
    G[G_ACTIVE], G[G_BUSY] = left, busy
    if len(M) > 1:
        for m in range(len(M)):
            if M[m, M_MOVES]:
                B[M[m, M_BANK], B_GRANT] = M[m, M_MOVES] - 1
                M[m, M_MOVES] = 0
    _clock_refresher(P, G, ready)
    for m in range(len(M)):
        _clock_bridge(P, M[m], F[m], inputs[m], reader == m, writer == m)
    G[G_CYCLE] = cycle + 1

"""Timing of a DRAM behind LiteDRAM's controller, cycle by cycle (hw/README.md has the rules).

Each master has an AXI bridge, which turns bursts into requests for single bus words. A crossbar gives the requests to
machines, one for each bank, which open and close rows. A multiplexer chooses one row command and one column command a
cycle, and changes between reads and writes; a refresher stops all banks for a refresh.

A cycle has two halves. `outputs` computes from the state alone which requests and commands are accepted, and the
outputs of the AXI channels. `clock` takes the masters' inputs of the cycle and computes the next state.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from vdla.isa.dram import Controller
from vdla.util.machine_code import compiled

Array = NDArray[np.int64]
dram_code = compiled(error_model="numpy")
"""Decorator of the functions of the DRAM's timing."""

# Parameters: the fields of `isa.dram.Controller` in their order.
(
    P_BANKS, P_PHASES, P_COLUMN_BITS, P_WORD_BYTES, P_QUEUE, P_READ_TIME, P_WRITE_TIME, P_READ_LATENCY,
    P_WRITE_LATENCY, P_TURNAROUND, P_RP, P_RCD, P_WTP, P_RC, P_RAS, P_RRD, P_FAW, P_CCD, P_WTR, P_REFI, P_RFC,
    P_ZQCS, P_ZQCS_PERIOD, P_READ_FIFO, P_WRITE_FIFO,
) = range(25)  # fmt: skip

# States of a bank.
REGULAR, PRECHARGE, AUTOPRECHARGE, PRECHARGING, ACTIVATE, ACTIVATING, REFRESHING = range(7)
# Columns of B: the state of each bank. The timers are pairs: ready, and the clocks until the timer is ready.
(
    B_STATE, B_LEFT, B_ROW, B_OPEN, B_HELD, B_HELD_WRITE, B_HELD_ROW, B_QUEUED, B_HEAD, B_GRANT, B_WTP, B_WTP_LEFT,
    B_RC, B_RC_LEFT, B_RAS, B_RAS_LEFT, B_COMMAND, B_AUTO, B_ACCEPTED, B_REQUESTED, B_SIZE,
) = range(21)  # fmt: skip
# Commands of a bank in a cycle.
NONE, READ, WRITE, ROW_CLOSE, ROW_OPEN = range(5)

# States of the multiplexer.
READS, WRITES, TO_WRITES, TO_READS, REFRESH = range(5)
# States of the refresher.
IDLE, WAIT, REFRESHES, CALIBRATES = range(4)
# State of everything that exists once.
(
    G_CYCLE, G_STATE, G_LEFT, G_READ_LEFT, G_WRITE_LEFT, G_ROW_GRANT, G_COLUMN_GRANT, G_RRD, G_RRD_LEFT, G_CCD,
    G_CCD_LEFT, G_WTR, G_WTR_LEFT, G_ACTIVATES, G_FAW, G_REFRESHER, G_REFI_LEFT, G_WANTS, G_SEQUENCE, G_DONE,
    G_ZQCS_LEFT, G_ZQCS_SEQUENCE, G_ZQCS_DONE, G_REFRESH, G_SIZE,
) = range(25)  # fmt: skip

# Columns of M: the AXI bridge of each master. Reads and writes have the same columns, from M_READ and M_WRITE on.
(A_VALID, A_ADDRESS, A_LAST, A_BEAT, A_RESERVED, A_INNER, A_OUT, A_WORDS, A_TAKEN, A_PIPE, A_SIZE) = range(11)
M_READ, M_WRITE = 0, A_SIZE
(
    M_GRANT, M_VALID, M_BANK, M_ROW, M_ACCEPTED, M_ENDS, M_RESPONSES, M_AR_READY, M_AW_READY, M_W_READY, M_R_VALID,
    M_R_LAST, M_B_VALID, M_SIZE,
) = range(2 * A_SIZE, 2 * A_SIZE + 14)  # fmt: skip
# Inputs of a master in a cycle.
(
    I_AR_VALID, I_AR_ADDRESS, I_AR_LEN, I_AW_VALID, I_AW_ADDRESS, I_AW_LEN, I_W_VALID, I_W_LAST, I_R_READY, I_B_READY,
    I_SIZE,
) = range(11)  # fmt: skip


def parameters(controller: Controller) -> Array:
    """The numbers of a controller as the array P."""
    return np.array(dataclasses.astuple(controller), np.int64)


def state(controller: Controller, masters: int) -> tuple[Array, Array, Array, Array, Array]:
    """The arrays (G, B, L, M, F) at reset, for a number of masters: common state, banks, their queues (write, row),
    bridges, and the flags "last word of a burst" of the words in the bridges' FIFOs (reads, writes).
    """
    G, B = np.zeros(G_SIZE, np.int64), np.zeros((controller.banks, B_SIZE), np.int64)
    for flag, time in ((G_RRD, controller.t_rrd), (G_CCD, controller.t_ccd), (G_WTR, controller.t_wtr)):
        G[flag] = time < 0
    for flag, time in ((B_WTP, controller.t_wtp), (B_RC, controller.t_rc), (B_RAS, controller.t_ras)):
        B[:, flag] = time < 0
    G[G_FAW] = 1
    G[G_REFI_LEFT], G[G_ZQCS_LEFT] = controller.t_refi - 1, controller.zqcs_period - 1
    L = np.zeros((controller.banks, controller.queue, 2), np.int64)
    M = np.zeros((masters, M_SIZE), np.int64)
    F = np.zeros((masters, 2, max(controller.read_fifo, controller.write_fifo) + 4), np.int64)
    return G, B, L, M, F


@dram_code
def _timer(A, ready, time, starts):  # type: ignore[no-untyped-def]
    """A clock of the timer in columns `ready` and `ready` + 1 of A: not ready for `time` - 1 clocks after it starts.

    At reset a timer counts down from 0 and wraps, as the register of the controller does.
    """
    if time < 0:
        return
    if starts:
        A[ready + 1] = time - 1
        A[ready] = time == 1
    elif not A[ready]:
        last = A[ready + 1] == 1
        mask = 1
        while mask < max(time, 2) - 1:
            mask = 2 * mask + 1
        A[ready + 1] = (A[ready + 1] - 1) & mask
        A[ready] = last


@dram_code
def _next_grant(grant, requests):  # type: ignore[no-untyped-def]
    """The next of the indices behind `grant`, in a circle, that requests; `grant` if none of the others does."""
    count = len(requests)
    for more in range(1, count):
        if requests[(grant + more) % count]:
            return (grant + more) % count
    return grant


@dram_code
def _locked_elsewhere(B, master, bank):  # type: ignore[no-untyped-def]
    """Whether another bank than `bank` still works on requests of the master."""
    for other in range(len(B)):
        busy = B[other, B_QUEUED] > 0 or B[other, B_HELD]
        if other != bank and busy and B[other, B_GRANT] == master:
            return True
    return False


@dram_code
def outputs(P, G, B, L, M, F):  # type: ignore[no-untyped-def]
    """The first half of a cycle: requests that banks accept (M_ACCEPTED), commands of the banks (B_COMMAND), and the
    outputs of the AXI channels.
    """
    for m in range(len(M)):
        master = M[m]
        write = master[M_GRANT] == 0
        port = M_WRITE if write else M_READ
        full = master[M_WRITE + A_INNER] + master[M_WRITE + A_OUT]
        room = full > master[M_WRITE + A_RESERVED] if write else master[M_READ + A_RESERVED] != P[P_READ_FIFO]
        word = master[port + A_ADDRESS] + master[port + A_BEAT]
        bank = (word >> P[P_COLUMN_BITS]) % len(B)
        master[M_VALID] = master[port + A_VALID] and room
        master[M_BANK] = bank
        master[M_ROW] = word >> P[P_COLUMN_BITS]
        master[M_ROW] //= len(B)
        master[M_ENDS] = master[port + A_BEAT] == master[port + A_LAST]
        free = not _locked_elsewhere(B, m, bank)
        master[M_ACCEPTED] = (
            master[M_VALID] and free and B[bank, B_GRANT] == m and B[bank, B_QUEUED] < P[P_QUEUE]
        )
        taken = master[M_ACCEPTED] and master[M_ENDS]
        master[M_AR_READY] = not master[M_READ + A_VALID] or (taken and not write)
        master[M_AW_READY] = not master[M_WRITE + A_VALID] or (taken and write)
        master[M_W_READY] = master[M_WRITE + A_INNER] != P[P_WRITE_FIFO]
        master[M_R_VALID] = master[M_READ + A_OUT]
        master[M_R_LAST] = F[m, 0, master[M_READ + A_TAKEN] % F.shape[2]]
        master[M_B_VALID] = master[M_RESPONSES] > 0
    waits = G[G_REFRESHER] == WAIT
    calibrates = G[G_ZQCS_LEFT] == 0 and P[P_ZQCS] >= 0
    refreshes = G[G_REFRESHER] == REFRESHES and (not G[G_DONE] or calibrates)
    G[G_REFRESH] = waits or refreshes or (G[G_REFRESHER] == CALIBRATES and not G[G_ZQCS_DONE])
    for b in range(len(B)):
        bank = B[b]
        bank[B_COMMAND], bank[B_AUTO] = NONE, 0
        if bank[B_STATE] == REGULAR:
            if not G[G_REFRESH] and bank[B_HELD] and bank[B_OPEN] and bank[B_ROW] == bank[B_HELD_ROW]:
                bank[B_COMMAND] = WRITE if bank[B_HELD_WRITE] else READ
                bank[B_AUTO] = bank[B_QUEUED] > 0 and L[b, bank[B_HEAD], 1] != bank[B_HELD_ROW]
        elif bank[B_STATE] == PRECHARGE:
            if bank[B_WTP] and bank[B_RAS]:
                bank[B_COMMAND] = ROW_CLOSE
        elif bank[B_STATE] == ACTIVATE and bank[B_RC]:
            bank[B_COMMAND] = ROW_OPEN


@dram_code
def _choose(P, G, B):  # type: ignore[no-untyped-def]
    """Accepts at most one row command and one column command of the banks (B_ACCEPTED), and moves the grants of both
    choosers. Returns (whether a row is opened, whether a read is accepted, whether a write is).

    A part of one phase has one chooser for both, the column chooser.
    """
    works = G[G_STATE] == READS or G[G_STATE] == WRITES
    may_open = G[G_RRD] and G[G_FAW]
    rows, columns = np.zeros(len(B), np.bool_), np.zeros(len(B), np.bool_)
    for b in range(len(B)):
        B[b, B_ACCEPTED] = 0
        command = B[b, B_COMMAND]
        rows[b] = command >= ROW_CLOSE
        if works:
            columns[b] = command == (READ if G[G_STATE] == READS else WRITE)
        else:
            columns[b] = rows[b]
        if P[P_PHASES] == 1:
            columns[b] = columns[b] or command == ROW_CLOSE or (command == ROW_OPEN and may_open)
    opens = False
    column = G[G_COLUMN_GRANT]
    ready = works and G[G_CCD]
    if P[P_PHASES] == 1:
        opening = columns[column] and B[column, B_COMMAND] == ROW_OPEN
        ready = ready and (not opening or may_open)
        opens = opening and ready
    else:
        row = G[G_ROW_GRANT]
        opening = rows[row] and B[row, B_COMMAND] == ROW_OPEN
        row_ready = works and (not opening or may_open)
        if rows[row] and row_ready:
            B[row, B_ACCEPTED] = 1
            opens = opening
        if row_ready or not rows[row]:
            G[G_ROW_GRANT] = _next_grant(row, rows)
    accepted = columns[column] and ready
    if accepted:
        B[column, B_ACCEPTED] = 1
    if ready or not columns[column]:
        G[G_COLUMN_GRANT] = _next_grant(column, columns)
    command = B[column, B_COMMAND] if accepted else NONE
    return opens, command == READ, command == WRITE


@dram_code
def _clock_multiplexer(P, G, B, opens, reads, writes):  # type: ignore[no-untyped-def]
    """The next state of the multiplexer and of its timers."""
    waiting_reads, waiting_writes, stopped = False, False, True
    for b in range(len(B)):
        waiting_reads = waiting_reads or B[b, B_COMMAND] == READ
        waiting_writes = waiting_writes or B[b, B_COMMAND] == WRITE
        stopped = stopped and B[b, B_STATE] == REFRESHING and B[b, B_WTP]
    may_read = G[G_WTR]
    _timer(G, G_RRD, P[P_RRD], opens)
    _timer(G, G_CCD, P[P_CCD], reads or writes)
    _timer(G, G_WTR, P[P_WTR], writes)
    if P[P_FAW] >= 0:
        count, mask = 0, 1
        for place in range(P[P_FAW]):
            count += (G[G_ACTIVATES] >> place) & 1
        while mask < max(P[P_FAW], 2) - 1:
            mask = 2 * mask + 1
        count &= mask
        if count < 4:
            G[G_FAW] = not opens if count == 3 else True
        G[G_ACTIVATES] = ((G[G_ACTIVATES] << 1) | opens) & ((1 << P[P_FAW]) - 1)
    before, read_over, write_over = G[G_STATE], G[G_READ_LEFT] == 0, G[G_WRITE_LEFT] == 0
    if before != READS:
        G[G_READ_LEFT] = P[P_READ_TIME] - 1
    elif not read_over:
        G[G_READ_LEFT] -= 1
    if before != WRITES:
        G[G_WRITE_LEFT] = P[P_WRITE_TIME] - 1
    elif not write_over:
        G[G_WRITE_LEFT] -= 1
    if before == READS:
        if waiting_writes and (not waiting_reads or read_over):
            G[G_STATE], G[G_LEFT] = TO_WRITES, P[P_TURNAROUND]
        if stopped:
            G[G_STATE] = REFRESH
    elif before == WRITES:
        if waiting_reads and (not waiting_writes or write_over):
            G[G_STATE] = TO_READS
        if stopped:
            G[G_STATE] = REFRESH
    elif before == TO_WRITES:
        G[G_LEFT] -= 1
        if G[G_LEFT] == 0:
            G[G_STATE] = WRITES
    elif before == TO_READS:
        if may_read:
            G[G_STATE] = READS
    elif not G[G_REFRESH]:  # the refresher's last cycle
        G[G_STATE] = READS


@dram_code
def _sequence(G, place, done, starts, end):  # type: ignore[no-untyped-def]
    """A clock of a sequence of commands that ends `end` clocks after it starts; then G[done] is 1 for a cycle."""
    G[done] = G[place] == end
    if G[place] == end:
        G[place] = 0
    elif G[place] or starts:
        G[place] += 1


@dram_code
def _clock_refresher(P, G, ready):  # type: ignore[no-untyped-def]
    """The next state of the refresher; `ready`: the multiplexer is in its state REFRESH."""
    state, calibrate, wanted = G[G_REFRESHER], G[G_ZQCS_LEFT] == 0 and P[P_ZQCS] >= 0, G[G_WANTS]
    refreshed, calibrated, starts, starts_calibration = G[G_DONE], G[G_ZQCS_DONE], False, False
    if state == IDLE:
        if wanted:
            G[G_REFRESHER] = WAIT
    elif state == WAIT:
        if ready:
            G[G_REFRESHER], starts = REFRESHES, True
    elif state == REFRESHES:
        if refreshed:
            G[G_REFRESHER] = CALIBRATES if calibrate else IDLE
            starts_calibration = calibrate
    elif calibrated:
        G[G_REFRESHER] = IDLE
    _sequence(G, G_SEQUENCE, G_DONE, starts, P[P_RP] + P[P_RFC])
    _sequence(G, G_ZQCS_SEQUENCE, G_ZQCS_DONE, starts_calibration, P[P_RP] + P[P_ZQCS])
    G[G_WANTS] = G[G_REFI_LEFT] == 0
    G[G_REFI_LEFT] = P[P_REFI] - 1 if G[G_REFI_LEFT] == 0 else G[G_REFI_LEFT] - 1
    over = G[G_ZQCS_LEFT] == 0 or calibrated
    G[G_ZQCS_LEFT] = P[P_ZQCS_PERIOD] - 1 if over else G[G_ZQCS_LEFT] - 1


@dram_code
def _clock_bank(P, G, bank, queue):  # type: ignore[no-untyped-def]
    """The next state of a bank and its timers, except for the request that the bank accepts."""
    state, accepted, command = bank[B_STATE], bank[B_ACCEPTED], bank[B_COMMAND]
    closed = bank[B_WTP] and bank[B_RAS]
    opens = command == ROW_OPEN
    if state == REGULAR:
        if G[G_REFRESH]:
            bank[B_STATE] = REFRESHING
        elif bank[B_HELD]:
            if not bank[B_OPEN]:
                bank[B_STATE] = ACTIVATE
            elif bank[B_ROW] != bank[B_HELD_ROW]:
                bank[B_STATE] = PRECHARGE
            elif accepted and bank[B_AUTO]:
                bank[B_STATE] = AUTOPRECHARGE
    elif (state == PRECHARGE and accepted) or (state == AUTOPRECHARGE and closed):
        bank[B_STATE], bank[B_LEFT] = (PRECHARGING, P[P_RP] - 1) if P[P_RP] > 1 else (ACTIVATE, 0)
    elif state == ACTIVATE:
        if accepted:
            bank[B_STATE], bank[B_LEFT] = (ACTIVATING, P[P_RCD] - 1) if P[P_RCD] > 1 else (REGULAR, 0)
    elif state == REFRESHING:
        if not G[G_REFRESH]:
            bank[B_STATE] = REGULAR
    elif state in (PRECHARGING, ACTIVATING):
        bank[B_LEFT] -= 1
        if bank[B_LEFT] == 0:
            bank[B_STATE] = ACTIVATE if state == PRECHARGING else REGULAR
    if state in (PRECHARGE, AUTOPRECHARGE, REFRESHING):
        bank[B_OPEN] = 0
    elif opens:
        bank[B_OPEN], bank[B_ROW] = 1, bank[B_HELD_ROW]
    _timer(bank, B_WTP, P[P_WTP], accepted and command == WRITE)
    _timer(bank, B_RC, P[P_RC], accepted and opens)
    _timer(bank, B_RAS, P[P_RAS], accepted and opens)
    if not bank[B_HELD] or (accepted and command <= WRITE):
        bank[B_HELD] = bank[B_QUEUED] > 0
        if bank[B_QUEUED] > 0:
            bank[B_HELD_WRITE], bank[B_HELD_ROW] = queue[bank[B_HEAD], 0], queue[bank[B_HEAD], 1]
            bank[B_HEAD] = (bank[B_HEAD] + 1) % len(queue)
            bank[B_QUEUED] -= 1


@dram_code
def _clock_fifo(port, enters, leaves):  # type: ignore[no-untyped-def]
    """A clock of a FIFO with an output register: a word `enters`, the output `leaves`."""
    moves = port[A_INNER] > 0 and (not port[A_OUT] or leaves)
    port[A_INNER] += enters - moves
    if moves:
        port[A_OUT] = 1
    elif leaves:
        port[A_OUT] = 0


@dram_code
def _clock_address(port, valid, address, last, accepted, ends):  # type: ignore[no-untyped-def]
    """A clock of an address channel: its register takes the next burst if the register is empty, or if the last word of
    the present burst is accepted.
    """
    if accepted:
        port[A_BEAT] = 0 if ends else port[A_BEAT] + 1
    if not port[A_VALID] or (accepted and ends):
        port[A_VALID] = valid
        if valid:
            port[A_ADDRESS], port[A_LAST] = address, last


@dram_code
def _clock_bridge(P, master, flags, given, read_data, write_data):  # type: ignore[no-untyped-def]
    """The next state of a bridge. `given`: the master's inputs; `read_data`, `write_data`: the controller's column
    commands of this cycle are for this master.
    """
    read, write = master[M_READ : M_READ + A_SIZE], master[M_WRITE : M_WRITE + A_SIZE]
    writes = master[M_GRANT] == 0
    accepted, ends = master[M_ACCEPTED], master[M_ENDS]
    read_asks = read[A_VALID] and read[A_RESERVED] != P[P_READ_FIFO]
    write_asks = write[A_VALID] and write[A_INNER] + write[A_OUT] > write[A_RESERVED]
    if not master[M_VALID] or (accepted and ends):
        if writes and read_asks:
            master[M_GRANT] = 1
        elif not writes and write_asks:
            master[M_GRANT] = 0
    arrives = (read[A_PIPE] >> (P[P_READ_LATENCY] - 1)) & 1
    sent = (write[A_PIPE] >> (P[P_WRITE_LATENCY] - 1)) & 1
    read[A_PIPE] = (read[A_PIPE] << 1 | read_data) & ((1 << P[P_READ_LATENCY]) - 1)
    write[A_PIPE] = (write[A_PIPE] << 1 | write_data) & ((1 << P[P_WRITE_LATENCY]) - 1)
    read_leaves = read[A_OUT] and given[I_R_READY]
    write_leaves = write[A_OUT] and sent
    answered = master[M_RESPONSES] > 0 and given[I_B_READY]
    read[A_RESERVED] += (accepted and not writes) - read_leaves
    write[A_RESERVED] += (accepted and writes) - write_leaves
    if accepted and not writes:
        flags[0, read[A_WORDS] % flags.shape[1]] = ends
        read[A_WORDS] += 1
    read[A_TAKEN] += read_leaves
    ended = write_leaves and flags[1, write[A_TAKEN] % flags.shape[1]]
    master[M_RESPONSES] += ended - answered
    write[A_TAKEN] += write_leaves
    enters = given[I_W_VALID] and write[A_INNER] != P[P_WRITE_FIFO]
    if enters:
        flags[1, write[A_WORDS] % flags.shape[1]] = given[I_W_LAST]
        write[A_WORDS] += 1
    _clock_fifo(read, arrives, given[I_R_READY])
    _clock_fifo(write, enters, sent)
    _clock_address(
        read, given[I_AR_VALID], given[I_AR_ADDRESS], given[I_AR_LEN], accepted and not writes, ends
    )
    _clock_address(write, given[I_AW_VALID], given[I_AW_ADDRESS], given[I_AW_LEN], accepted and writes, ends)


@dram_code
def clock(P, G, B, L, M, F, inputs):  # type: ignore[no-untyped-def]
    """The second half of a cycle, after `outputs`: the next state. `inputs` [masters, I_SIZE]: the AXI channels of the
    masters in this cycle; addresses in bus words, lengths as in AXI (words - 1).
    """
    opens, reads, writes = _choose(P, G, B)
    # Masters of the accepted column command, and requests that banks accept.
    reader, writer = -1, -1
    for b in range(len(B)):
        if B[b, B_ACCEPTED] and B[b, B_COMMAND] == READ:
            reader = B[b, B_GRANT]
        if B[b, B_ACCEPTED] and B[b, B_COMMAND] == WRITE:
            writer = B[b, B_GRANT]
    ready = G[G_STATE] == REFRESH
    _clock_multiplexer(P, G, B, opens, reads, writes)
    requests = np.zeros(len(M), np.bool_)
    for b in range(len(B)):
        bank = B[b]
        busy = bank[B_QUEUED] > 0 or bank[B_HELD]
        owner, asked = bank[B_GRANT], False
        if not busy:
            for m in range(len(M)):
                requests[m] = M[m, M_VALID] and M[m, M_BANK] == b and not _locked_elsewhere(B, m, b)
            asked = requests[owner]
        bank[B_REQUESTED] = _next_grant(owner, requests) if not busy and not asked else owner
    for b in range(len(B)):
        bank = B[b]
        owner, slot = bank[B_GRANT], (bank[B_HEAD] + bank[B_QUEUED]) % P[P_QUEUE]
        _clock_bank(P, G, bank, L[b])
        if M[owner, M_ACCEPTED] and M[owner, M_BANK] == b:
            L[b, slot, 0], L[b, slot, 1] = M[owner, M_GRANT] == 0, M[owner, M_ROW]
            bank[B_QUEUED] += 1
        bank[B_GRANT] = bank[B_REQUESTED]
    _clock_refresher(P, G, ready)
    for m in range(len(M)):
        _clock_bridge(P, M[m], F[m], inputs[m], reader == m, writer == m)
    G[G_CYCLE] += 1

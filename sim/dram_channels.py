"""A timing run on a machine whose DRAM has several channels behind a router (hw/dram.md, section 9), cycle by cycle.

Each channel is a controller of `dram.py`. The router has a register for a read address and one for a write address. It
passes on read data, write data and responses in the order in which the addresses came. A channel without bursts is
simulated only in the cycles of its refreshes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vdla.isa.config import Config
from vdla.isa.dram_memory import RESET_CYCLES, controller_of
from vdla.util.machine_code import compiled

from .arrays import Array, Bus, RunArrays
from .cache import timing_code
from .dram import (
    A_PIPE,
    B_HELD_WRITE,
    B_ROW,
    G_CLOSED,
    G_CYCLE,
    G_OPENED,
    G_REFRESHES,
    G_TURNS,
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
    M_READ,
    M_W_READY,
    M_WRITE,
    clock,
    outputs,
    parameters,
    quiet_until,
    state,
)
from .dram_cycles import next_need, note_last, read_address
from .dram_port import (
    ALL_WORK,
    E_ANNOUNCED,
    E_CYCLE,
    E_OPEN,
    E_READS,
    E_RESPONSES,
    E_RUNS,
    E_SENT,
    E_SHIFT,
    E_SIZE,
    E_WAITS,
    E_WRITING,
    L_BANK,
    L_CHANNEL,
    L_CYCLE,
    L_OPENED,
    L_ROW,
    L_SIZE,
    L_WORDS,
    L_WRITE,
    Q_REQUEST,
    STORE_WORK,
    advance_units,
    note_beats,
)
from .dram_waits import CAUSES, IDLE, WORDS, cause_of_cycle, holder, no_counts
from .memory import first_show, note_write
from .parameters import P_LIMIT, P_WRITES
from .state import (
    C_ACCEPTED,
    C_BEATS,
    C_BYTES,
    C_ISSUED,
    C_KIND,
    C_SHOWN,
    DEADLOCK,
    LIMIT,
    LOAD,
    M_ACCEPTED,
    M_COUNTS,
    M_OPENED,
    M_SERVED,
    M_TOTAL,
    M_WRITE_ACCEPTED,
    M_WRITE_SERVED,
    M_WRITE_SHOWN,
    NEVER,
    OK,
    Q_BEATS,
    Q_CLIENT,
    QUEUE_MASK,
    STORE,
    STORE_CLIENT,
    U_LAST_END,
    W_BEATS,
    W_LAST,
    W_RESPONSE,
    W_WORD,
)
from .store import read_vectors

if TYPE_CHECKING:
    from .dram_machine import WordLog

# Rows of X, the router's registers for addresses, and their columns: whether there is an address, its channel, the
# burst's first word within the channel and its number of words.
X_READ, X_WRITE = range(2)
X_VALID, X_CHANNEL, X_WORD, X_WORDS, X_SIZE = range(5)
# Columns of Y, a row for each channel: bursts whose addresses the router accepted and that have not ended; rows opened
# before the last run of words; index + 1 of that run in the log; whether the controller is simulated in this cycle; the
# first cycle in which the controller must be simulated again while the channel has no bursts.
Y_BURSTS, Y_OPENED, Y_RUN, Y_ACTIVE, Y_WAKES, Y_SIZE = range(6)


class _Channels(NamedTuple):
    """State arrays of a memory with several channels. A: requests of the read clients, as ring R of a run without DRAM.
    E: the machine's side of the AXI port, `port`: its signals. P: parameters of the controllers.

    The following have an element for each channel: G, B, L, M, F: state of the controller (`sim/dram.py`), with its
    `inputs`; K: cycles by what the controller does, and C: the state from which K follows (`sim/dram_waits.py`); Y: the
    channel's bursts in flight, its last run of words, and when its controller must be simulated.

    X: the router's registers. `reads`, `writes`: rings of the channels of reads and writes, by number of the burst.
    `split`: log2 of the words of a piece and of the number of channels. `runs`: runs of words (`sim/dram_port.py`), as
    many as the array has rows.
    """

    A: Array
    E: Array
    port: Array
    P: Array
    G: Array
    B: Array
    L: Array
    M: Array
    F: Array
    inputs: Array
    K: Array
    C: Array
    Y: Array
    X: Array
    reads: Array
    writes: Array
    split: Array
    runs: Array


def _state(config: Config, bus: Bus, runs: Array) -> _Channels:
    """The state of a machine's DRAM at the launch of a program. `runs`: array whose rows the run fills with runs of
    words.
    """
    numbers, count = controller_of(config), config.memory.channels
    common, banks, queues, bridges, flags = (
        np.repeat(part[None], count, axis=0) for part in state(numbers, 1)
    )
    common[:, G_CYCLE] = RESET_CYCLES + 1
    port, shift = np.zeros(E_SIZE, np.int64), numbers.word_bytes.bit_length() - 1
    port[E_CYCLE], port[E_SHIFT] = 1, shift
    split = (config.memory.channel_bytes.bit_length() - 1 - shift, count.bit_length() - 1)
    inputs = np.zeros((count, 1, I_SIZE), np.int64)
    return _Channels(
        A=bus.R.copy(),
        E=port,
        port=np.zeros((1, I_SIZE), np.int64),
        P=parameters(numbers),
        G=common,
        B=banks,
        L=queues,
        M=bridges,
        F=flags,
        inputs=inputs,
        K=np.repeat(no_counts()[None], count, axis=0),
        C=np.zeros((count, E_SIZE), np.int64),
        Y=np.zeros((count, Y_SIZE), np.int64),
        X=np.zeros((2, X_SIZE), np.int64),
        reads=np.zeros(len(bus.Q), np.int64),
        writes=np.zeros(len(bus.W), np.int64),
        split=np.array(split, np.int64),
        runs=runs,
    )


@timing_code
def _enter(register, split, word, words):  # type: ignore[no-untyped-def]
    """The router's `register` takes a burst's address: `words` bus words from bus word `word` of the memory on, all in
    one channel. Returns the number of the channel. `split`: the field of `_Channels`.
    """
    piece, within = word >> split[0], word & ((1 << split[0]) - 1)
    channel = piece & ((1 << split[1]) - 1)
    register[X_VALID], register[X_CHANNEL], register[X_WORDS] = 1, channel, words
    register[X_WORD] = piece >> split[1] << split[0] | within
    return channel


@timing_code
def _note_word(dram, k, number, row, write):  # type: ignore[no-untyped-def]
    """Notes a column command of channel `k` in the log of runs of words. `number`, `row`: bank and row of the command;
    `write`: whether the command writes. `dram`: state of the DRAM.
    """
    E, Y, runs = dram.E, dram.Y[k], dram.runs
    at = Y[Y_RUN] - 1
    if 0 <= at < len(runs):
        run = runs[at]
        same = run[L_BANK] == number and run[L_ROW] == row and run[L_WRITE] == write
        if same and run[L_CYCLE] + run[L_WORDS] == E[E_CYCLE]:
            run[L_WORDS] += 1
            return
    at = E[E_RUNS]
    E[E_RUNS] += 1
    Y[Y_RUN] = E[E_RUNS]
    opened = dram.G[k, G_OPENED] - Y[Y_OPENED]
    Y[Y_OPENED] += opened
    if at < len(runs):
        run = runs[at]
        run[L_CYCLE], run[L_WORDS], run[L_BANK], run[L_ROW] = E[E_CYCLE], 1, number, row
        run[L_WRITE], run[L_OPENED], run[L_CHANNEL] = write, opened, k


@timing_code
def _clock_channel(dram, k):  # type: ignore[no-untyped-def]
    """Ends the current cycle of channel `k`, and counts the cycle by its cause. The channel's inputs must be set
    before. `dram`: state of the DRAM.
    """
    G, B, N = dram.G[k], dram.B[k], dram.M[k]
    cause = cause_of_cycle(G, B, N[0], dram.C[k], dram.Y[k, Y_BURSTS] > 0)
    number = holder(G, B)
    row, write = B[number, B_ROW], B[number, B_HELD_WRITE]
    clock(dram.P, G, B, dram.L[k], N, dram.F[k], dram.inputs[k])
    if (N[0, M_READ + A_PIPE] | N[0, M_WRITE + A_PIPE]) & 1:
        cause = WORDS
        _note_word(dram, k, number, row, write)
    dram.K[k, cause] += 1


@timing_code
def _offer(register, given, N, valid, address, length, ready):  # type: ignore[no-untyped-def]
    """Offers the address in the router's `register`, if it has one, to the address's channel. If the channel accepts
    it, empties the register. Returns whether the register is empty now and can take the next address in this cycle.

    `given`, N: the inputs and the bridge of each channel. `valid`, `address`, `length`: columns of the inputs. `ready`:
    column of the bridge that says whether the channel accepts.
    """
    if register[X_VALID]:
        k = register[X_CHANNEL]
        given[k, 0, valid] = 1
        given[k, 0, address], given[k, 0, length] = register[X_WORD], register[X_WORDS] - 1
        if not N[k, 0, ready]:
            return False
        register[X_VALID] = 0
    return True


@timing_code
def _catch_up(dram, k):  # type: ignore[no-untyped-def]
    """Lets the cycles pass in which the controller of channel `k` was not simulated. `dram`: state of the DRAM."""
    left_out = dram.E[E_CYCLE] + RESET_CYCLES - dram.G[k, G_CYCLE]
    dram.G[k, G_CYCLE] += left_out
    dram.K[k, IDLE] += left_out


@timing_code
def _memory_cycle(P, bus, dram, traffic):  # type: ignore[no-untyped-def]
    """Simulates one cycle of router and channels. Returns a set of clients, as bits: those whose unit may compute
    further times, because of the cycle's beats, acceptances and responses. State arrays: P (parameters of the run),
    `bus` (memory port), `dram` (state of the DRAM), `traffic` (bytes and beats by kind).
    """
    M, C, _, Q, W = bus
    A, E, N, X, Y, port, given = dram.A, dram.E, dram.M, dram.X, dram.Y, dram.port, dram.inputs
    cycle, split = E[E_CYCLE], dram.split
    for k in range(len(N)):
        G = dram.G[k]
        Y[k, Y_ACTIVE] = Y[k, Y_BURSTS] > 0 or Y[k, Y_WAKES] <= cycle
        if Y[k, Y_ACTIVE]:
            _catch_up(dram, k)
            given[k, 0, :] = 0
            outputs(dram.P, G, dram.B[k], dram.L[k], N[k], dram.F[k])
    work = np.int64(0)
    # Channels of the bursts that enter the router in this cycle, and that end.
    entered_read = entered_write = read_from = answered = np.int64(-1)
    accepted_before, written_before = M[M_ACCEPTED], M[M_WRITE_ACCEPTED]
    writes = E[E_WRITING]
    free = _offer(X[X_READ], given, N, I_AR_VALID, I_AR_ADDRESS, I_AR_LEN, M_AR_READY)
    client = read_address(P, C, A, E, port, cycle)
    if client >= 0 and free:
        read = Q[M[M_ACCEPTED] & QUEUE_MASK]
        read[Q_CLIENT], read[Q_BEATS] = client, C[client, C_BEATS]
        read[Q_REQUEST] = C[client, C_ISSUED] - 1
        entered_read = _enter(X[X_READ], split, port[0, I_AR_ADDRESS], C[client, C_BEATS])
        dram.reads[M[M_ACCEPTED] & QUEUE_MASK] = entered_read
        M[M_ACCEPTED] += 1
        C[client, C_SHOWN], C[client, C_ACCEPTED] = NEVER, cycle
        traffic.moved[C[client, C_KIND]] += C[client, C_BYTES]
        traffic.beats[C[client, C_KIND]] += C[client, C_BEATS]
        E[E_OPEN] = cycle + 1
        work |= 1 << client
    if accepted_before > M[M_SERVED]:
        k = dram.reads[M[M_SERVED] & QUEUE_MASK]
        given[k, 0, I_R_READY] = 1
        if N[k, 0, M_R_VALID]:
            last = N[k, 0, M_R_LAST]
            known = note_beats(P, bus, A, E, Q[M[M_SERVED] & QUEUE_MASK], 1, last, cycle)
            if known >= 0:
                work |= 1 << known
            if last:
                M[M_SERVED] += 1
                note_last(P, E, cycle)
                read_from = k
    E[E_READS] += entered_read >= 0
    announced = E[E_ANNOUNCED]
    free = _offer(X[X_WRITE], given, N, I_AW_VALID, I_AW_ADDRESS, I_AW_LEN, M_AW_READY)
    if M[M_WRITE_ACCEPTED] < M[M_WRITE_SHOWN] and E[E_WRITING] < P[P_WRITES]:
        first = first_show(P, M, W)
        if first <= cycle:
            announced += 1 - E[E_WAITS]
            E[E_WAITS] = not free
            if free:
                burst = W[M[M_WRITE_ACCEPTED] & (W.shape[0] - 1)]
                entered_write = _enter(X[X_WRITE], split, burst[W_WORD], burst[W_BEATS])
                dram.writes[M[M_WRITE_ACCEPTED] & (W.shape[0] - 1)] = entered_write
                note_write(P, M, W, first, cycle)
                writes += 1
    if min(E[E_ANNOUNCED], written_before) > M[M_WRITE_SERVED]:
        k = dram.writes[M[M_WRITE_SERVED] & (W.shape[0] - 1)]
        burst = W[M[M_WRITE_SERVED] & (W.shape[0] - 1)]
        given[k, 0, I_W_VALID] = 1
        given[k, 0, I_W_LAST] = E[E_SENT] == burst[W_BEATS] - 1
        if N[k, 0, M_W_READY]:
            E[E_SENT] += 1
            if E[E_SENT] == burst[W_BEATS]:
                burst[W_LAST] = cycle
                E[E_SENT] = 0
                M[M_WRITE_SERVED] += 1
                work |= 1 << STORE_CLIENT
    if written_before > E[E_RESPONSES]:
        k = dram.writes[E[E_RESPONSES] & (W.shape[0] - 1)]
        given[k, 0, I_B_READY] = 1
        if N[k, 0, M_B_VALID]:
            W[E[E_RESPONSES] & (W.shape[0] - 1), W_RESPONSE] = cycle
            E[E_RESPONSES] += 1
            writes -= 1
            work |= 1 << STORE_CLIENT
            answered = k
    E[E_WRITING], E[E_ANNOUNCED] = writes, announced
    for k in range(len(N)):
        if Y[k, Y_ACTIVE]:
            _clock_channel(dram, k)
    for k in (entered_read, entered_write):
        if k >= 0:
            Y[k, Y_BURSTS] += 1
    for k in (read_from, answered):
        if k >= 0:
            Y[k, Y_BURSTS] -= 1
    for k in range(len(N)):
        if Y[k, Y_ACTIVE] and Y[k, Y_BURSTS] == 0:
            Y[k, Y_WAKES] = quiet_until(dram.G[k], N[k]) - RESET_CYCLES
    E[E_CYCLE] += 1
    return work


@timing_code
def _idle(bus, dram):  # type: ignore[no-untyped-def]
    """Simulates the channels up to the end of the run (`bus.M[M_TOTAL]`), with refreshes and without requests. State
    arrays: `bus` (memory port), `dram` (state of the DRAM).
    """
    for k in range(len(dram.G)):
        G, N = dram.G[k], dram.M[k]
        dram.inputs[k, 0, :] = 0
        left = bus.M[M_TOTAL] + 1 + RESET_CYCLES - G[G_CYCLE]
        dram.K[k, IDLE] += left
        while left > 0:
            quiet = min(left, quiet_until(G, N) - G[G_CYCLE])
            if quiet > 0:
                G[G_CYCLE] += quiet
                left -= quiet
            else:
                outputs(dram.P, G, dram.B[k], dram.L[k], N, dram.F[k])
                clock(dram.P, G, dram.B[k], dram.L[k], N, dram.F[k], dram.inputs[k])
                left -= 1


@compiled(_nrt=False, error_model="numpy")
def _run(arrays, dram):  # type: ignore[no-untyped-def]
    """Runs the timing of a program on a machine with several channels; returns (OK, DEADLOCK or LIMIT, the cycle of
    that outcome). `arrays`: the `RunArrays`. `dram`: the state of the memory.
    """
    P, U, V, X, bus, _, program, traffic = arrays
    M, C, _, _, W = bus
    E, Y = dram.E, dram.Y
    work = ALL_WORK
    while True:
        advance_units(arrays, dram.A, dram.E, work)
        event = next_need(P, M, C, W, E, E[E_CYCLE])
        if event > E[E_CYCLE] and event != NEVER:
            for k in range(len(Y)):
                event = min(event, max(E[E_CYCLE], Y[k, Y_WAKES]))
        if read_vectors(P, U, V, X, bus, program, traffic, event):
            work = STORE_WORK
            continue
        if event > M[M_TOTAL]:
            _idle(bus, dram)
            return OK, M[M_TOTAL]
        if event == NEVER:
            return DEADLOCK, max(U[LOAD, U_LAST_END], U[STORE, U_LAST_END])
        if event > P[P_LIMIT]:
            return LIMIT, event
        E[E_CYCLE] = event
        work = _memory_cycle(P, bus, dram, traffic)


def run_channels(config: Config, arrays: RunArrays, log: WordLog | None) -> tuple[int, int]:
    """Runs the timing of a program on a machine whose DRAM has several channels, as `dram_machine.run_on_dram` does:
    returns (OK, DEADLOCK or LIMIT, the cycle of that outcome). `log`: filled with the runs of words, unless it is None.
    """
    bus = arrays.bus
    dram = _state(config, bus, np.zeros((0, L_SIZE), np.int64) if log is None else log.runs)
    outcome = _run(arrays, dram)
    if log is not None:
        log.count = int(dram.E[E_RUNS])
    counts = bus.M[M_OPENED:].reshape(-1, M_COUNTS)
    counts[:] = np.concatenate(
        [dram.G[:, (G_OPENED, G_CLOSED, G_REFRESHES, G_TURNS)], dram.K[:, :CAUSES]], axis=1
    )
    return outcome

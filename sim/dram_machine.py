"""The main loop of a timing run on a machine whose memory is a DRAM (hw/dram.md), burst by burst.

The units are those of `machine.py`. Memory makes decisions in order of time: it accepts a read address, a write address
comes to the bus, memory accepts a write address, or a burst begins to request its words. The begin of a burst
determines the times of all its data (`dram_words.py`), because the AXI bridge does not leave a burst before the burst's
last request.

A client's reads become known in runs of beats without a gap. Ring R has an entry for each run (for fetch, for each
group of whole instructions), and ring A has one for each request. The room of a FIFO is given back by whole requests.
The entry of a request's last beat in R has the cycle in which the room becomes free; `dram_port.py` copies this cycle
to the request's entry in A.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import numpy as np

from vdla.isa.config import Config
from vdla.isa.dram_memory import RESET_CYCLES, controller_of
from vdla.util.machine_code import compiled

from .arrays import Array, Bus, RunArrays
from .cache import timing_code
from .dram import (
    B_ROW,
    G_ACTIVATE,
    G_CLOSED,
    G_OPENED,
    G_REFRESH_AT,
    G_REFRESHES,
    G_TURNS,
    P_READ_LATENCY,
    P_RP,
    P_WRITE_FIFO,
    P_WRITE_LATENCY,
    parameters,
)
from .dram_port import (
    ALL_WORK,
    E_ANNOUNCED,
    E_DONE,
    E_END,
    E_ENTERED,
    E_ENTERS,
    E_LEFT,
    E_OFFERED,
    E_READ_FREE,
    E_RUNS,
    E_SENT,
    E_SHIFT,
    E_SIZE,
    E_WAITS,
    E_WRITE_FREE,
    E_WRITES,
    E_WRITTEN,
    L_BANK,
    L_CYCLE,
    L_OPENED,
    L_ROW,
    L_SIZE,
    L_WORDS,
    L_WRITE,
    Q_REQUEST,
    STORE_WORK,
    Bursts,
    advance_units,
    note_beats,
)
from .dram_waits import IDLE, LATENCY, count_until, counts_up_to, no_counts
from .dram_words import (
    CLOSED_KEPT,
    S_ACCEPTED,
    S_BANK,
    S_CLOSED,
    S_COLUMN,
    S_REFRESHED,
    S_WTP,
    closed_state,
    has_closed_form,
    next_words,
    refresh,
)
from .memory import first_show, note_write
from .parameters import P_LIMIT, P_READS, P_WRITES
from .state import (
    C_ACCEPTED,
    C_BEATS,
    C_BYTES,
    C_ISSUED,
    C_KIND,
    C_SHOWN,
    DEADLOCK,
    FETCH_CLIENT,
    LIMIT,
    LOAD,
    M_ACCEPTED,
    M_LAST_ACCEPT,
    M_LAST_WRITE_ACCEPT,
    M_OPENED,
    M_SERVED,
    M_SIZE,
    M_TOTAL,
    M_WRITE_ACCEPTED,
    M_WRITE_SERVED,
    M_WRITE_SHOWN,
    NEVER,
    OK,
    Q_BEATS,
    Q_CLIENT,
    Q_LAST,
    QUEUE_MASK,
    R_ADDRESS,
    STORE,
    U_LAST_END,
    W_BEATS,
    W_LAST,
    W_READY,
    W_RESPONSE,
    W_WORD,
)
from .store import read_vectors

FAST = True
"""Whether runs compute whole bursts; else they simulate the controller cycle by cycle (`dram_cycles.py`)."""

_DATA_AFTER = 2
"""Cycles that a word read spends in the bridge's FIFO, from its arrival to its beat."""


@timing_code
def _next_read(P, M, C, Q, E):  # type: ignore[no-untyped-def]
    """Returns (cycle, client, shown) for the next read address that memory accepts, if clients show no further
    addresses: the cycle of the acceptance, the client, and the cycle from which the address is on the bus. Both cycles
    are NEVER if no client has shown an address, or if they depend on a burst that has not begun. State arrays: P
    (parameters of the run), M (memory and fetch), C (read clients), Q (accepted reads), E (AXI port).

    An address stays on the bus until memory accepts it. So the next accepted address is that of the client that showed
    an address first.
    """
    client = np.int64(0)
    shown = min(min(C[0, C_SHOWN], C[1, C_SHOWN]), min(C[2, C_SHOWN], C[3, C_SHOWN]))
    if shown == NEVER or M[M_ACCEPTED] > M[M_SERVED]:
        return NEVER, client, NEVER
    shown = max(shown, M[M_LAST_ACCEPT] + 1)
    oldest = M[M_ACCEPTED] - P[P_READS]
    if oldest >= 0:
        shown = max(shown, Q[oldest & QUEUE_MASK, Q_LAST] + 1)
    while C[client, C_SHOWN] > shown:
        client += 1
    return max(shown, E[E_READ_FREE]), client, shown


@timing_code
def _next_write(P, M, W, E):  # type: ignore[no-untyped-def]
    """The cycle in which the next write address comes to the bus or, if one is there, in which memory accepts it. NEVER
    if there is none, or if the cycle depends on a burst that has not begun. State arrays: P (parameters of the run), M
    (memory and fetch), W (write bursts), E (AXI port).
    """
    if E[E_WAITS]:
        free = M[M_WRITE_ACCEPTED] == E[E_WRITTEN]
        return max(E[E_OFFERED], E[E_WRITE_FREE]) if free else NEVER
    if M[M_WRITE_ACCEPTED] == M[M_WRITE_SHOWN]:
        return NEVER
    cycle, oldest = first_show(P, M, W), M[M_WRITE_ACCEPTED] - P[P_WRITES]
    if oldest >= 0:
        cycle = max(cycle, W[oldest & (W.shape[0] - 1), W_RESPONSE] + 1)
    return min(cycle, NEVER)


@timing_code
def _next_burst(M, W, E):  # type: ignore[no-untyped-def]
    """Returns (cycle, first, write) for the next burst: the cycle in which the choice of this burst is final, the first
    cycle in which the burst may request words, and whether it is a write. Both cycles are NEVER if every burst whose
    address memory has accepted has begun. State arrays: M (memory and fetch), W (write bursts), E (AXI port).

    The direction that has the grant keeps it while it has requests. At a burst's last request, and in any cycle without
    a request, the grant moves to the other direction if that direction has a request.
    """
    read = write = NEVER
    if M[M_ACCEPTED] > M[M_SERVED]:
        read = M[M_LAST_ACCEPT] + 1
    if M[M_WRITE_ACCEPTED] > E[E_WRITTEN]:
        write = max(M[M_LAST_WRITE_ACCEPT] + 1, W[E[E_WRITTEN] & (W.shape[0] - 1), W_READY])
    end, writes = E[E_END], E[E_WRITES] != 0
    same, other = (write, read) if writes else (read, write)
    if other <= end:
        return end + 1, end + 1, not writes
    same, other = max(same, end + 1), max(other, end + 1)
    if same <= other:
        return same, same, writes
    return other, other + 1, not writes


@timing_code
def _count_idle(M, E, K, shown):  # type: ignore[no-untyped-def]
    """Counts, by cause, the cycles without a burst before cycle `shown`, in which the next address comes to the bus;
    does nothing if a burst is waiting. State arrays: M (memory and fetch), E (AXI port), K (cycles by cause).
    """
    waits = M[M_ACCEPTED] > M[M_SERVED] or E[E_ANNOUNCED] > E[E_WRITTEN]
    if shown > E[E_DONE] + 1 and not waits:
        count_until(K, LATENCY, E[E_DONE] + 1)
        count_until(K, IDLE, shown)


@timing_code
def _accept_read(M, C, Q, traffic, c, cycle):  # type: ignore[no-untyped-def]
    """Records that memory accepts the read address of client `c` in `cycle`, and adds the request's bytes and beats to
    `traffic`. State arrays: M (memory and fetch), C (read clients), Q (accepted reads).
    """
    read = Q[M[M_ACCEPTED] & QUEUE_MASK]
    read[Q_CLIENT], read[Q_BEATS] = c, C[c, C_BEATS]
    read[Q_REQUEST], read[Q_LAST] = C[c, C_ISSUED] - 1, NEVER
    M[M_ACCEPTED] += 1
    M[M_LAST_ACCEPT] = cycle
    C[c, C_SHOWN], C[c, C_ACCEPTED] = NEVER, cycle
    traffic.moved[C[c, C_KIND]] += C[c, C_BYTES]
    traffic.beats[C[c, C_KIND]] += C[c, C_BEATS]


@timing_code
def _write_address(P, M, W, E, cycle):  # type: ignore[no-untyped-def]
    """Records that the next write address comes to the bus in `cycle`, unless one waits there already, and that memory
    accepts the address in `cycle` if it has requested all words of the writes accepted before. State arrays: P
    (parameters of the run), M (memory and fetch), W (write bursts), E (AXI port).
    """
    if not E[E_WAITS]:
        E[E_ANNOUNCED] += 1
        E[E_OFFERED] = cycle
        E[E_ENTERS] = max(E[E_ENTERS], cycle + 1)
    free = M[M_WRITE_ACCEPTED] == E[E_WRITTEN] and E[E_WRITE_FREE] <= cycle
    E[E_WAITS] = not free
    if free:
        note_write(P, M, W, first_show(P, M, W), cycle)


@timing_code
def _send_data(D, M, W, E, T):  # type: ignore[no-untyped-def]
    """Moves data of the bursts whose addresses were on the bus to the bridge's FIFO, as far as the cycles are known;
    returns whether the last word of a burst moved. State arrays: D (controller's parameters), M (memory and fetch), W
    (write bursts), E (AXI port), T (cycles in which written words leave the FIFO).

    A FIFO of n words and an output register has room for a word when the word n + 1 before it has left.
    """
    done = False
    while E[E_ANNOUNCED] > M[M_WRITE_SERVED]:
        burst = W[M[M_WRITE_SERVED] & (W.shape[0] - 1)]
        count = burst[W_BEATS] - E[E_SENT]
        before = E[E_ENTERED] + count - D[P_WRITE_FIFO] - 2
        if before >= 0 and (before >= E[E_LEFT] or T[before & (len(T) - 1)] >= E[E_ENTERS]):
            count, before = 1, E[E_ENTERED] - D[P_WRITE_FIFO] - 1
            if before >= E[E_LEFT]:
                return done
            if before >= 0:
                E[E_ENTERS] = max(E[E_ENTERS], T[before & (len(T) - 1)] + 1)
        if E[E_SENT] == 0:
            burst[W_READY] = E[E_ENTERS] + 1
        E[E_ENTERS] += count
        E[E_ENTERED] += count
        E[E_SENT] += count
        if E[E_SENT] == burst[W_BEATS]:
            burst[W_LAST] = E[E_ENTERS] - 1
            E[E_SENT] = 0
            M[M_WRITE_SERVED] += 1
            done = True
    return done


@timing_code
def _note_run(dram, count, write, opened):  # type: ignore[no-untyped-def]
    """Counts the run of `count` words that `next_words` has just executed, and writes its row of the array L if L has
    room. `write`: whether the words are written. `opened`: number of rows that had been opened before the run. `dram`:
    state of the DRAM.
    """
    _, E, _, G, B, S, _, _, L = dram
    if E[E_RUNS] < len(L):
        run = L[E[E_RUNS]]
        run[L_CYCLE], run[L_WORDS], run[L_BANK] = S[S_COLUMN] - count + 1, count, S[S_BANK]
        run[L_ROW], run[L_WRITE], run[L_OPENED] = B[S[S_BANK], B_ROW], write, G[G_OPENED] - opened
    E[E_RUNS] += 1


@timing_code
def _read_burst(P, bus, dram, first):  # type: ignore[no-untyped-def]
    """Sends requests for all words of the oldest accepted read to the DRAM controller, from cycle `first` on. Returns a
    set of clients, as bits: those whose unit may compute further times, because of the read's beats. P: the parameters
    of the run. State arrays: `bus` (memory port), `dram` (state of the DRAM).
    """
    M, Q = bus.M, bus.Q
    A, E, D, G, S = dram.A, dram.E, dram.P, dram.G, dram.S
    read = Q[M[M_SERVED] & QUEUE_MASK]
    client, left = read[Q_CLIENT], read[Q_BEATS]
    word = A[client, read[Q_REQUEST] & (A.shape[1] - 1), R_ADDRESS] >> E[E_SHIFT]
    work, cycle = np.int64(0), first
    while left:
        opened = G[G_OPENED]
        count = next_words(dram, word, left, False, cycle)
        _note_run(dram, count, False, opened)
        word, left, cycle = word + count, left - count, S[S_ACCEPTED] + 1
        # Fetch hands on whole instructions as soon as they are there.
        step = 1 if client == FETCH_CLIENT else count
        beat = S[S_COLUMN] - count + 1 + D[P_READ_LATENCY] + _DATA_AFTER
        while count:
            count -= step
            known = note_beats(P, bus, A, E, read, step, left == 0 and count == 0, beat)
            if known >= 0:
                work |= 1 << known
            beat += step
    read[Q_LAST] = S[S_COLUMN] + D[P_READ_LATENCY] + _DATA_AFTER
    E[E_DONE] = max(E[E_DONE], read[Q_LAST])
    M[M_SERVED] += 1
    E[E_END] = E[E_READ_FREE] = S[S_ACCEPTED]
    return work


@timing_code
def _write_burst(bus, dram, first):  # type: ignore[no-untyped-def]
    """Sends requests for all words of the oldest accepted write to the DRAM controller, from cycle `first` on. State
    arrays: `bus` (memory port), `dram` (state of the DRAM).
    """
    W = bus.W
    E, D, G, S, T = dram.E, dram.P, dram.G, dram.S, dram.T
    burst = W[E[E_WRITTEN] & (W.shape[0] - 1)]
    word, left, cycle = burst[W_WORD], burst[W_BEATS], first
    while left:
        opened = G[G_OPENED]
        count = next_words(dram, word, left, True, cycle)
        _note_run(dram, count, True, opened)
        word, left, cycle = word + count, left - count, S[S_ACCEPTED] + 1
        leaves = S[S_COLUMN] - count + 1 + D[P_WRITE_LATENCY]
        for i in range(count):
            T[(E[E_LEFT] + i) & (len(T) - 1)] = leaves + i
        E[E_LEFT] += count
    burst[W_RESPONSE] = S[S_COLUMN] + D[P_WRITE_LATENCY] + 1
    E[E_DONE] = max(E[E_DONE], burst[W_RESPONSE])
    E[E_WRITTEN] += 1
    E[E_END] = E[E_WRITE_FREE] = S[S_ACCEPTED]


@compiled(_nrt=False, error_model="numpy")
def run_bursts(arrays, dram):  # type: ignore[no-untyped-def]
    """Runs the timing of a program on a machine with a DRAM; returns (OK, DEADLOCK or LIMIT, the cycle of that
    outcome). `arrays`: the `RunArrays`. `dram`: the state of the memory.
    """
    P, U, V, X, bus, _, program, traffic = arrays
    M, C, _, Q, W = bus
    E, D, T, K = dram.E, dram.P, dram.T, dram.K
    work = ALL_WORK
    while True:
        advance_units(arrays, dram.A, dram.E, work)
        burst, first, write = _next_burst(M, W, E)
        read_address, client, shown = _next_read(P, M, C, Q, E)
        write_address = _next_write(P, M, W, E)
        event = min(burst, read_address, write_address)
        if read_vectors(P, U, V, X, bus, program, traffic, event):
            work = STORE_WORK
            continue
        if event > M[M_TOTAL]:
            return OK, M[M_TOTAL]
        if event == NEVER:
            return DEADLOCK, max(U[LOAD, U_LAST_END], U[STORE, U_LAST_END])
        if event > P[P_LIMIT]:
            return LIMIT, event
        if event == burst:
            E[E_WRITES] = write
            if write:
                _write_burst(bus, dram, first)
                _send_data(D, M, W, E, T)
                work = STORE_WORK
            else:
                work = _read_burst(P, bus, dram, first)
        elif event == read_address:
            _count_idle(M, E, K, shown)
            _accept_read(M, C, Q, traffic, client, event)
            work = 1 << client
        else:
            if not E[E_WAITS]:
                _count_idle(M, E, K, event)
            _write_address(P, M, W, E, event)
            work = STORE_WORK if _send_data(D, M, W, E, T) else 0


def _state(config: Config, bus: Bus, runs: Array) -> Bursts:
    """The state of a machine's DRAM at the launch of a program. `runs`: the array L, whose rows the run fills with runs
    of words.
    """
    numbers = controller_of(config)
    port = np.zeros(E_SIZE, np.int64)
    port[E_SHIFT], port[E_WRITES] = numbers.word_bytes.bit_length() - 1, 1
    common, banks, own = closed_state(numbers, RESET_CYCLES)
    kept = 1 << (numbers.write_fifo + len(bus.W)).bit_length()
    return Bursts(
        A=bus.R.copy(),
        E=port,
        P=parameters(numbers),
        G=common,
        B=banks,
        S=own,
        T=np.zeros(kept, np.int64),
        K=no_counts(),
        L=runs,
    )


def _counts(bus: Bus, dram: Bursts, total: int) -> list[int]:
    """Returns counts up to cycle `total`: rows opened, rows closed, refreshes, changes from reads to writes, and then
    cycles by what the controller does. Commands after `total` are not counted, even if their burst began before.
    """
    _, E, D, G, B, S, _, K, _ = dram
    opened = G[G_OPENED] - np.count_nonzero(G[G_ACTIVATE : G_ACTIVATE + 3] > total)
    closed = G[G_CLOSED] - np.count_nonzero(S[S_CLOSED : S_CLOSED + CLOSED_KEPT] > total)
    # From the begin of a refresh to its command REFRESH.
    command = D[P_RP] + 1
    refreshes = G[G_REFRESHES] - (S[S_REFRESHED] + command > total)
    while max(G[G_REFRESH_AT] + 2, S[S_WTP]) + 1 + command <= total:
        refresh(D, G, B, S, 0)
        refreshes += 1
    _count_idle(bus.M, E, K, total + 1)
    count_until(K, LATENCY, total + 1)
    return [opened, closed, refreshes, G[G_TURNS], *counts_up_to(K, total)]


@dataclass(slots=True, eq=False)
class WordLog:
    """The runs of words of a timing run. `runs`: int64 (n, L_SIZE), an array that the run fills with the first n runs
    of words (columns: `dram_port.py`). `count`: number of all runs of words, which may be more than n; 0 after a timing
    run that simulated a memory of one channel cycle by cycle.
    """

    runs: Array
    count: int = 0


def run_on_dram(config: Config, arrays: RunArrays, log: WordLog | None = None) -> tuple[int, int]:
    """Runs the timing of a program on a machine with a DRAM. The DRAM starts in its state at the launch of a program.
    Returns (OK, DEADLOCK or LIMIT, the cycle of that outcome), and leaves counts of the memory in `arrays.bus.M`.

    `log`: filled with the runs of words, unless the run simulates a memory of one channel cycle by cycle.
    """
    bus = arrays.bus
    if config.memory.channels > 1:
        return import_module(".dram_channels", __package__).run_channels(config, arrays, log)
    if not (FAST and has_closed_form(controller_of(config))):
        return import_module(".dram_cycles", __package__).run_cycles(config, arrays)
    dram = _state(config, bus, np.zeros((0, L_SIZE), np.int64) if log is None else log.runs)
    outcome, cycle = run_bursts(arrays, dram)
    if log is not None:
        log.count = int(dram.E[E_RUNS])
    bus.M[M_OPENED:M_SIZE] = _counts(bus, dram, cycle)
    return outcome, cycle

"""A timing run on a machine whose memory is a DRAM (hw/dram.md), the memory simulated cycle by cycle.

Tests compare `dram_machine.py` with this loop. In each cycle in which the memory or a client has work, the memory
decides: it accepts an address, or moves a beat. So a client's reads become known beat by beat.
"""

from __future__ import annotations

import numpy as np

from vdla.isa.config import Config
from vdla.isa.dram_memory import RESET_CYCLES, controller_of
from vdla.util.machine_code import compiled

from .arrays import Bus, RunArrays
from .cache import timing_code
from .dram import (
    A_PIPE,
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
from .dram_port import (
    ALL_WORK,
    E_ANNOUNCED,
    E_CYCLE,
    E_OPEN,
    E_READS,
    E_RESPONSES,
    E_SENT,
    E_SHIFT,
    E_SIZE,
    E_WAITS,
    E_WRITING,
    Q_REQUEST,
    STORE_WORK,
    Cycles,
    advance_units,
    note_beats,
)
from .dram_waits import CAUSES, IDLE, WORDS, cause_of_cycle, no_counts
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
    LIMIT,
    LOAD,
    M_ACCEPTED,
    M_CLOSED,
    M_CYCLES,
    M_OPENED,
    M_REFRESHES,
    M_SERVED,
    M_SIZE,
    M_TOTAL,
    M_TURNS,
    M_WRITE_ACCEPTED,
    M_WRITE_SERVED,
    M_WRITE_SHOWN,
    NEVER,
    OK,
    Q_BEATS,
    Q_CLIENT,
    QUEUE_MASK,
    R_ADDRESS,
    STORE,
    STORE_CLIENT,
    U_LAST_END,
    W_BEATS,
    W_LAST,
    W_RESPONSE,
    W_WORD,
)
from .store import read_vectors


def _state(config: Config, bus: Bus) -> Cycles:
    """The state of a machine's DRAM at the launch of a program."""
    numbers = controller_of(config)
    common, banks, queues, bridges, flags = state(numbers, 1)
    common[G_CYCLE] = RESET_CYCLES + 1
    port = np.zeros(E_SIZE, np.int64)
    port[E_CYCLE], port[E_SHIFT] = 1, numbers.word_bytes.bit_length() - 1
    return Cycles(
        A=bus.R.copy(),
        E=port,
        P=parameters(numbers),
        G=common,
        B=banks,
        L=queues,
        M=bridges,
        F=flags,
        inputs=np.zeros((1, I_SIZE), np.int64),
        K=no_counts(),
    )


@timing_code
def read_address(P, C, A, E, inputs, cycle):  # type: ignore[no-untyped-def]
    """The client whose read address is on the bus in `cycle`, or -1; sets the memory's `inputs` for this address. An
    address stays on the bus until the memory accepts it, so if several clients have an address, the address that came
    first is on the bus. State arrays: P (parameters of the run), C (read clients), A (read clients' requests), E (AXI
    port).
    """
    inputs[0, I_AR_VALID] = 0
    if E[E_READS] == P[P_READS]:
        return np.int64(-1)
    client, first = np.int64(-1), cycle + 1
    for c in range(4):
        shown = max(C[c, C_SHOWN], E[E_OPEN])
        if shown < first:
            client, first = np.int64(c), shown
    if client >= 0:
        inputs[0, I_AR_VALID] = 1
        inputs[0, I_AR_ADDRESS] = (
            A[client, (C[client, C_ISSUED] - 1) & (A.shape[1] - 1), R_ADDRESS] >> E[E_SHIFT]
        )
        inputs[0, I_AR_LEN] = C[client, C_BEATS] - 1
    return client


@timing_code
def next_need(P, M, C, W, E, cycle):  # type: ignore[no-untyped-def]
    """The first cycle that the memory must simulate: `cycle` itself if a read or a write is outstanding, else the first
    cycle from `cycle` on in which a client has an address for the bus; NEVER if none will. State arrays: P (parameters
    of the run), M (memory and fetch), C (read clients), W (write bursts), E (AXI port).
    """
    if E[E_ANNOUNCED] > M[M_WRITE_SERVED] or E[E_READS] or E[E_WRITING]:
        return cycle
    first = min(min(C[0, C_SHOWN], C[1, C_SHOWN]), min(C[2, C_SHOWN], C[3, C_SHOWN]))
    if M[M_WRITE_ACCEPTED] < M[M_WRITE_SHOWN]:
        first = min(first, first_show(P, M, W))
    return max(first, cycle)


@timing_code
def note_last(P, E, cycle):  # type: ignore[no-untyped-def]
    """Notes that the last beat of a request moves in `cycle`, which ends the request. If the number of outstanding
    requests was at its limit, a read address can be on the bus again from the next cycle on. State arrays: P
    (parameters of the run), E (AXI port).
    """
    if E[E_READS] == P[P_READS]:
        E[E_OPEN] = cycle + 1
    E[E_READS] -= 1


@timing_code
def _memory_cycle(P, bus, dram, traffic):  # type: ignore[no-untyped-def]
    """Simulates one cycle of the memory. Returns a set of clients, as bits: those whose unit may compute further times,
    because of the cycle's beats, acceptances and responses. State arrays: P (parameters of the run), `bus` (memory
    port), `dram` (state of the DRAM), `traffic` (bytes and beats by kind).
    """
    M, C, _, Q, W = bus
    A, E, D, G, B, L, N, F, inputs, K = dram
    cycle = E[E_CYCLE]
    outputs(D, G, B, L, N, F)
    work = np.int64(0)
    client = read_address(P, C, A, E, inputs, cycle)
    reads, writes = E[E_READS], E[E_WRITING]
    accepted = client >= 0 and N[0, M_AR_READY]
    if accepted:
        read = Q[M[M_ACCEPTED] & QUEUE_MASK]
        read[Q_CLIENT], read[Q_BEATS] = client, C[client, C_BEATS]
        read[Q_REQUEST] = C[client, C_ISSUED] - 1
        M[M_ACCEPTED] += 1
        C[client, C_SHOWN], C[client, C_ACCEPTED] = NEVER, cycle
        traffic.moved[C[client, C_KIND]] += C[client, C_BYTES]
        traffic.beats[C[client, C_KIND]] += C[client, C_BEATS]
        E[E_OPEN] = cycle + 1
        work |= 1 << client
    if N[0, M_R_VALID]:
        last = N[0, M_R_LAST]
        known = note_beats(P, bus, A, E, Q[M[M_SERVED] & QUEUE_MASK], 1, last, cycle)
        if known >= 0:
            work |= 1 << known
        if last:
            M[M_SERVED] += 1
            note_last(P, E, cycle)
    E[E_READS] += accepted
    inputs[0, I_AW_VALID] = 0
    announced = E[E_ANNOUNCED]
    if M[M_WRITE_ACCEPTED] < M[M_WRITE_SHOWN] and E[E_WRITING] < P[P_WRITES]:
        first = first_show(P, M, W)
        if first <= cycle:
            burst = W[M[M_WRITE_ACCEPTED] & (W.shape[0] - 1)]
            inputs[0, I_AW_VALID] = 1
            inputs[0, I_AW_ADDRESS], inputs[0, I_AW_LEN] = burst[W_WORD], burst[W_BEATS] - 1
            announced += 1 - E[E_WAITS]
            E[E_WAITS] = not N[0, M_AW_READY]
            if N[0, M_AW_READY]:
                note_write(P, M, W, first, cycle)
                writes += 1
    sending = E[E_ANNOUNCED] > M[M_WRITE_SERVED]
    inputs[0, I_W_VALID] = sending
    if sending:
        burst = W[M[M_WRITE_SERVED] & (W.shape[0] - 1)]
        inputs[0, I_W_LAST] = E[E_SENT] == burst[W_BEATS] - 1
        if N[0, M_W_READY]:
            E[E_SENT] += 1
            if E[E_SENT] == burst[W_BEATS]:
                burst[W_LAST] = cycle
                E[E_SENT] = 0
                M[M_WRITE_SERVED] += 1
                work |= 1 << STORE_CLIENT
    if N[0, M_B_VALID]:
        W[E[E_RESPONSES] & (W.shape[0] - 1), W_RESPONSE] = cycle
        E[E_RESPONSES] += 1
        writes -= 1
        work |= 1 << STORE_CLIENT
    asked = client >= 0 or inputs[0, I_AW_VALID]
    cause = cause_of_cycle(G, B, N[0], E, asked or sending or reads or E[E_WRITING])
    E[E_WRITING], E[E_ANNOUNCED] = writes, announced
    clock(D, G, B, L, N, F, inputs)
    if (N[0, M_READ + A_PIPE] | N[0, M_WRITE + A_PIPE]) & 1:
        cause = WORDS
    K[cause] += 1
    E[E_CYCLE] += 1
    return work


@timing_code
def _idle(bus, dram):  # type: ignore[no-untyped-def]
    """Simulates the memory up to the end of the run (`bus.M[M_TOTAL]`), with refreshes and without requests. State
    arrays: `bus` (memory port), `dram` (state of the DRAM).
    """
    _, E, D, G, B, L, N, F, inputs, K = dram
    inputs[0, I_AR_VALID] = inputs[0, I_AW_VALID] = inputs[0, I_W_VALID] = 0
    left = bus.M[M_TOTAL] + 1 - E[E_CYCLE]
    K[IDLE] += left
    while left > 0:
        quiet = min(left, quiet_until(G, N) - G[G_CYCLE])
        if quiet > 0:
            G[G_CYCLE] += quiet
            left -= quiet
        else:
            outputs(D, G, B, L, N, F)
            clock(D, G, B, L, N, F, inputs)
            left -= 1


@compiled(_nrt=False, error_model="numpy")
def _run(arrays, dram):  # type: ignore[no-untyped-def]
    """Runs the timing of a program on a machine with a DRAM; returns (OK, DEADLOCK or LIMIT, the cycle of that
    outcome). `arrays`: the `RunArrays`. `dram`: the state of the memory.
    """
    P, U, V, X, bus, _, program, traffic = arrays
    M, C, _, _, W = bus
    E, G, N, inputs = dram.E, dram.G, dram.M, dram.inputs
    inputs[0, I_R_READY] = inputs[0, I_B_READY] = 1
    work = ALL_WORK
    while True:
        advance_units(arrays, dram.A, dram.E, work)
        event = next_need(P, M, C, W, E, E[E_CYCLE])
        if event > E[E_CYCLE] and event != NEVER:
            event = min(event, E[E_CYCLE] + max(0, quiet_until(G, N) - G[G_CYCLE]))
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
        G[G_CYCLE] += event - E[E_CYCLE]
        dram.K[IDLE] += event - E[E_CYCLE]
        E[E_CYCLE] = event
        work = _memory_cycle(P, bus, dram, traffic)


def run_cycles(config: Config, arrays: RunArrays) -> tuple[int, int]:
    """Runs the timing of a program on a machine with a DRAM of one channel, which is simulated cycle by cycle. Returns
    the same as `dram_machine.run_on_dram`: (OK, DEADLOCK or LIMIT, the cycle of that outcome).
    """
    bus = arrays.bus
    dram = _state(config, bus)
    outcome = _run(arrays, dram)
    bus.M[[M_OPENED, M_CLOSED, M_REFRESHES, M_TURNS]] = dram.G[[G_OPENED, G_CLOSED, G_REFRESHES, G_TURNS]]
    bus.M[M_CYCLES:M_SIZE] = dram.K[:CAUSES]
    return outcome

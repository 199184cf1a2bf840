"""The store unit (hw/README.md section 8): accumulator reads, operand stream, write bursts."""

from __future__ import annotations

import numpy as np
from vdla.isa.timing import FIFO_LATENCY, PRODUCT_CYCLES, REQUEST_DELAY, ROOM_DELAY, WRITE_DELAY

from .cache import timing_code
from .decode import operand_shape
from .memory import beats_of, burst_bytes, start_transfer
from .parameters import (
    P_ACC_DEPTH,
    P_ALU_STAGE,
    P_BANK_DEPTH,
    P_BUS,
    P_GEMM_STAGE,
    P_OUT_BYTES,
    P_POST_LATENCY,
    P_POST_PASSES,
    P_STORE_FIFO,
    P_STORE_LATENCY,
    P_WRITE_BURST,
    P_WRITE_LATENCY,
)
from .ports import port_free
from .state import (
    BLOCKED,
    C_SERVED,
    C_TAKEN,
    CHAIN,
    COMPUTE,
    CONFIG,
    DRAM_BASE,
    KIND,
    LOAD_PAR,
    LOAD_TABLE,
    M_WRITE_SERVED,
    M_WRITE_SHOWN,
    OPERAND,
    R_ADDRESS,
    R_BYTES,
    R_FREE,
    R_START,
    REGISTERS_AT,
    ROWS,
    SRAM_BASE,
    STORE,
    STORE_CLIENT,
    STORE_POST,
    T_OPERAND,
    T_OUT,
    T_PAR,
    U_BEGUN,
    U_ENDED,
    U_ISSUED,
    U_LAST_END,
    U_OTHER_END,
    U_READY,
    V_ADDRESS,
    V_BASE,
    V_BURSTS,
    V_CHAIN,
    V_COLUMN_STRIDE,
    V_COLUMNS,
    V_COUNT,
    V_CUT,
    V_CUT_BEATS,
    V_EARLIEST,
    V_FIRST_BURST,
    V_INDEX,
    V_LATENCY,
    V_LEFT,
    V_LENGTH,
    V_NEXT,
    V_OPERAND,
    V_OPERAND_END,
    V_PITCH,
    V_READ,
    V_REPEAT,
    V_REST,
    V_ROOM,
    V_ROW_STRIDE,
    V_ROWS,
    V_RUNS,
    V_WRITE_EARLIEST,
    V_WRITTEN,
    V_X_SIZE,
    V_X_STRIDE,
    V_Y_STRIDE,
    W_BEATS,
    W_END,
    W_LAST,
    W_SHOWN,
    X_BEGIN,
    X_SIZE,
    X_STRIDE,
    Y_SIZE,
)
from .streams import write_elements
from .units import begin, end, first_request, look_ahead, start_load


@timing_code
def _next_burst(P, V):  # type: ignore[no-untyped-def]
    """Cut the next write burst from the output runs, if any is left."""
    if V[V_LEFT] == 0:
        if V[V_RUNS] == 0:
            return
        V[V_RUNS] -= 1
        V[V_ADDRESS] = V[V_NEXT]
        V[V_NEXT] += V[V_PITCH]
        V[V_LEFT] = V[V_LENGTH]
    length = burst_bytes(V[V_ADDRESS], V[V_LEFT], P[P_WRITE_BURST], P[P_BUS])
    V[V_CUT_BEATS] = beats_of(V[V_ADDRESS], length, P[P_BUS])
    V[V_CUT] += length
    V[V_ADDRESS] += length
    V[V_LEFT] -= length


@timing_code
def _start_store(P, M, C, V, row, registers, i, cycle):  # type: ignore[no-untyped-def]
    """Set up the store that begins in `cycle`; whether it stores anything."""
    out = P[P_OUT_BYTES]
    V[V_COUNT] = row[Y_SIZE] * row[X_SIZE]
    if V[V_COUNT] == 0:
        return False
    V[V_INDEX] = V[V_READ] = V[V_BURSTS] = V[V_CUT] = V[V_ROOM] = V[V_OPERAND] = V[V_OPERAND_END] = 0
    V[V_BASE] = row[SRAM_BASE]
    V[V_X_SIZE] = row[X_SIZE]
    V[V_ROWS] = V[V_COLUMNS] = V[V_X_STRIDE] = 1
    V[V_Y_STRIDE] = row[X_SIZE]
    V[V_LATENCY] = P[P_STORE_LATENCY]
    V[V_REST] = 0
    V[V_CHAIN] = row[CHAIN] if row[KIND] == STORE_POST else row[KIND] == ROWS
    V[V_EARLIEST] = cycle + 1
    V[V_WRITE_EARLIEST] = first_request(row, cycle) - REQUEST_DELAY + WRITE_DELAY
    V[V_FIRST_BURST] = M[M_WRITE_SHOWN]
    V[V_ADDRESS] = row[DRAM_BASE] * out
    V[V_LENGTH] = row[X_SIZE] * out
    V[V_PITCH] = row[X_STRIDE] * out
    V[V_RUNS] = row[Y_SIZE] - 1
    if row[X_STRIDE] == row[X_SIZE]:
        V[V_LENGTH] *= row[Y_SIZE]
        V[V_RUNS] = 0
    V[V_LEFT] = V[V_LENGTH]
    V[V_NEXT] = V[V_ADDRESS] + V[V_PITCH]
    if row[KIND] in (STORE_POST, ROWS):
        here = registers[row[REGISTERS_AT]]
        V[V_Y_STRIDE] = here[0] & 0xFFFF
        V[V_X_STRIDE] = here[0] >> 16 & 0xFFFF
        V[V_ROWS] = (here[1] & 0xFF) + 1
        V[V_COLUMNS] = (here[1] >> 8 & 0xFF) + 1
        V[V_ROW_STRIDE] = here[1] >> 16 & 0xFFFF
        V[V_COLUMN_STRIDE] = here[1] >> 32 & 0xFFFF
        V[V_LATENCY] = P[P_POST_LATENCY]
        V[V_REST] = max(0, P[P_POST_PASSES] - V[V_ROWS] * V[V_COLUMNS])
        if row[KIND] == STORE_POST and row[OPERAND]:
            V[V_OPERAND] = 1
            begin, pitch, width = operand_shape(row, here[5])
            V[V_REPEAT] = row[X_SIZE] // width
            runs, length, first = row[Y_SIZE], width * out, cycle + REQUEST_DELAY
            if pitch == width:
                first += PRODUCT_CYCLES if row[Y_SIZE] > 1 else 0
                runs, length = np.int64(1), length * row[Y_SIZE]
            start_transfer(C, STORE_CLIENT, T_OPERAND, begin * out, runs, length, pitch * out, first)
    if V[V_CHAIN]:
        V[V_LEFT] = V[V_RUNS] = 0
    _next_burst(P, V)
    return True


@timing_code
def advance_store(P, U, V, X, bus, tokens, program):  # type: ignore[no-untyped-def]
    """Begin and end store instructions as far as times are known; whether anything moved."""
    u, c = STORE, STORE_CLIENT
    M, C, R, W = bus.M, bus.C, bus.R, bus.W
    rows, registers, order, sizes = program.rows, program.registers, program.order, program.sizes
    progress = False
    while True:
        progress |= look_ahead(P, U, X, tokens, program, u)
        if U[u, U_ENDED] < U[u, U_BEGUN]:
            i = order[u, U[u, U_ENDED]]
            kind = rows[i, KIND]
            if kind in (LOAD_PAR, LOAD_TABLE):
                cycle = write_elements(P, C, R, c, rows[i], sizes[kind], X[i, X_BEGIN])
                if cycle == BLOCKED:
                    break
            else:
                if V[V_INDEX] < V[V_COUNT] or M[M_WRITE_SERVED] < V[V_FIRST_BURST] + V[V_BURSTS]:
                    break
                if V[V_CHAIN]:
                    cycle = V[V_WRITTEN]
                else:
                    cycle = W[(M[M_WRITE_SERVED] - 1) & (W.shape[0] - 1), W_LAST] + P[P_WRITE_LATENCY]
            end(U, X, tokens, rows, u, i, cycle)
            progress = True
        if U[u, U_READY] == BLOCKED:
            break
        i = order[u, U[u, U_BEGUN]]
        row = rows[i]
        cycle = begin(U, X, tokens, rows, u, i, max(U[u, U_READY], U[u, U_LAST_END] + 1))
        progress = True
        if row[KIND] in (LOAD_PAR, LOAD_TABLE):
            start_load(C, c, row, sizes[row[KIND]], T_PAR, cycle)
        elif row[KIND] == CONFIG or not _start_store(P, M, C, V, row, registers, i, cycle):
            end(U, X, tokens, rows, u, i, cycle + 1)
    return progress


@timing_code
def _room(P, M, V, W):  # type: ignore[no-untyped-def]
    """First cycle in which the FIFO has room for the next vector, or NEVER if that is not known yet."""
    used = (V[V_INDEX] + 1) * P[P_OUT_BYTES] - P[P_STORE_FIFO]
    if used <= 0:
        return np.int64(0)
    while True:
        number = V[V_FIRST_BURST] + V[V_ROOM]
        if number >= M[M_WRITE_SERVED]:
            return np.int64(BLOCKED)
        if W[number & (W.shape[0] - 1), W_END] >= used:
            return W[number & (W.shape[0] - 1), W_LAST] + 1
        V[V_ROOM] += 1


@timing_code
def _operand(P, C, V, R):  # type: ignore[no-untyped-def]
    """First cycle in which the next vector's operand is in the FIFO, or BLOCKED."""
    c = STORE_CLIENT
    wanted = (V[V_INDEX] // V[V_REPEAT] + 1) * P[P_OUT_BYTES]
    number, finish = C[c, C_TAKEN], V[V_OPERAND_END]
    while number < C[c, C_SERVED]:
        burst = R[c, number & (R.shape[1] - 1)]
        if finish + burst[R_BYTES] >= wanted:
            last = burst[R_ADDRESS] + wanted - finish - 1
            return burst[R_START] + last // P[P_BUS] - burst[R_ADDRESS] // P[P_BUS] + FIFO_LATENCY
        finish += burst[R_BYTES]
        number += 1
    return np.int64(BLOCKED)


@timing_code
def _take_operand(P, C, V, R, cycle):  # type: ignore[no-untyped-def]
    """The operand leaves the FIFO in `cycle` with the last vector that it is for; give back the bursts it ends."""
    c = STORE_CLIENT
    if (V[V_INDEX] + 1) % V[V_REPEAT]:
        return
    wanted = (V[V_INDEX] + 1) // V[V_REPEAT] * P[P_OUT_BYTES]
    while C[c, C_TAKEN] < C[c, C_SERVED]:
        burst = R[c, C[c, C_TAKEN] & (R.shape[1] - 1)]
        if V[V_OPERAND_END] + burst[R_BYTES] > wanted:
            break
        V[V_OPERAND_END] += burst[R_BYTES]
        burst[R_FREE] = cycle + ROOM_DELAY
        C[c, C_TAKEN] += 1


@timing_code
def port_horizon(P, U, next_event):  # type: ignore[no-untyped-def]
    """Last cycle whose accumulator reads are all known, if nothing unknown happens before `next_event`.

    A compute instruction that has not begun yet begins in next_event + 1 at the earliest, not before the last
    issue of the GEMM ahead and behind the end of everything else; its first read comes later still.
    """
    known = max(next_event + 1, U[COMPUTE, U_OTHER_END] + 1) + P[P_ALU_STAGE]
    return max(known, U[COMPUTE, U_ISSUED] + P[P_GEMM_STAGE])


@timing_code
def read_vectors(P, U, V, X, bus, program, traffic, next_event):  # type: ignore[no-untyped-def]
    """Read accumulator vectors as far as room, operands and port use are known; whether any read happened."""
    if U[STORE, U_ENDED] == U[STORE, U_BEGUN] or V[V_INDEX] == V[V_COUNT]:
        return False
    M, C, R, W = bus.M, bus.C, bus.R, bus.W
    progress = False
    horizon = port_horizon(P, U, next_event)
    reads = V[V_ROWS] * V[V_COLUMNS]
    free_bank, free_until = np.int64(-1), np.int64(-1)
    while V[V_INDEX] < V[V_COUNT]:
        cycle = V[V_EARLIEST]
        if V[V_READ] == 0:
            if V[V_CHAIN] == 0:
                room = _room(P, M, V, W)
                if room == BLOCKED:
                    return progress
                cycle = max(cycle, room)
            if V[V_OPERAND]:
                arrived = _operand(P, C, V, R)
                if arrived == BLOCKED:
                    return progress
                cycle = max(cycle, arrived)
        v = V[V_INDEX]
        corner = V[V_BASE] + v // V[V_X_SIZE] * V[V_Y_STRIDE] + v % V[V_X_SIZE] * V[V_X_STRIDE]
        while V[V_READ] < reads:
            r, q = V[V_READ] // V[V_COLUMNS], V[V_READ] % V[V_COLUMNS]
            index = corner + r * V[V_ROW_STRIDE] + q * V[V_COLUMN_STRIDE]
            if index >= P[P_ACC_DEPTH]:
                index %= P[P_ACC_DEPTH]
            bank = index // P[P_BANK_DEPTH]
            if bank != free_bank or cycle > free_until:
                cycle, free_until = port_free(P, U, V, X, program, bank, cycle, horizon)
                free_bank = bank
                if cycle > horizon:
                    V[V_EARLIEST] = cycle
                    return progress
            if V[V_READ] == 0 and V[V_OPERAND]:
                _take_operand(P, C, V, R, cycle)
            V[V_READ] += 1
            cycle += 1
            V[V_EARLIEST] = cycle
            progress = True
        V[V_READ] = 0
        V[V_EARLIEST] = cycle + V[V_REST]
        V[V_INDEX] += 1
        if V[V_CHAIN]:
            V[V_WRITTEN] = cycle + V[V_LATENCY]
            continue
        stored = V[V_INDEX] * P[P_OUT_BYTES]
        traffic.moved[T_OUT] += P[P_OUT_BYTES]
        while V[V_CUT] <= stored:
            burst = W[M[M_WRITE_SHOWN] & (W.shape[0] - 1)]
            burst[W_SHOWN] = max(cycle + V[V_LATENCY], V[V_WRITE_EARLIEST])
            burst[W_BEATS] = V[V_CUT_BEATS]
            burst[W_END] = V[V_CUT]
            start = V[V_CUT]
            M[M_WRITE_SHOWN] += 1
            V[V_BURSTS] += 1
            traffic.beats[T_OUT] += V[V_CUT_BEATS]
            _next_burst(P, V)
            if V[V_CUT] == start:
                break
    return progress

"""Timing of the store unit (hw/README.md section 8): accumulator reads, operand stream, write bursts."""

from __future__ import annotations

import numpy as np

from .cache import timing_code
from .decode import operand_shape
from .memory import beats_of, burst_bytes, start_transfer
from .parameters import (
    P_ACC_DEPTH,
    P_ALU_STAGE,
    P_BANK_DEPTH,
    P_BUS,
    P_FIFO_LATENCY,
    P_GEMM_STAGE,
    P_OUT_BYTES,
    P_PARAMETER_CYCLES,
    P_POST_LATENCY,
    P_POST_PASSES,
    P_PRODUCT_CYCLES,
    P_REQUEST_DELAY,
    P_ROOM_DELAY,
    P_STEP_DELAY,
    P_STORE_FIFO,
    P_STORE_LATENCY,
    P_STORES_IN_FLIGHT,
    P_WRITE_BURST,
)
from .ports import port_free
from .state import (
    BLOCKED,
    C_SERVED,
    C_TAKEN,
    CHAIN,
    COMBINE,
    COMPUTE,
    DRAM_BASE,
    KIND,
    LOAD_PAR,
    LOAD_TABLE,
    M_WRITE_SERVED,
    M_WRITE_SHOWN,
    NEVER,
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
    STORE_OUT,
    STORE_POST,
    T_OPERAND,
    T_OUT,
    T_PAR,
    TABLE,
    TABLE_INDEX,
    U_BEGUN,
    U_ENDED,
    U_ISSUED,
    U_LAST_END,
    U_OTHER_END,
    U_READY,
    UNSIGNED,
    V_ADDRESS,
    V_BASE,
    V_BEGIN,
    V_CHAIN,
    V_COLUMN_STRIDE,
    V_COLUMNS,
    V_COUNT,
    V_CUT,
    V_CUT_BEATS,
    V_EARLIEST,
    V_INDEX,
    V_INSTRUCTION,
    V_LAST_LOAD,
    V_LAST_READ,
    V_LATENCY,
    V_LEFT,
    V_LENGTH,
    V_LOAD,
    V_NEXT,
    V_OPEN,
    V_OPERAND,
    V_OPERAND_END,
    V_PITCH,
    V_PRODUCT,
    V_READ,
    V_REPEAT,
    V_REST,
    V_ROOM,
    V_ROW_STRIDE,
    V_ROWS,
    V_RUNS,
    V_STORE_KIND,
    V_STORED,
    V_X_SIZE,
    V_X_STRIDE,
    V_Y_STRIDE,
    W_BEATS,
    W_BEGIN,
    W_END,
    W_LAST,
    W_PRODUCT,
    W_RESPONSE,
    W_SHOWN,
    W_WORD,
    WITH_ROWS,
    X_BEGIN,
    X_DONE,
    X_END,
    X_SIZE,
    X_STRIDE,
    Y_SIZE,
)
from .streams import write_elements
from .units import begin, end, first_request, look_ahead, start_load


@timing_code
def _next_burst(P, V):  # type: ignore[no-untyped-def]
    """Cuts the next write burst from the output runs (contiguous bytes) of the current store, if any bytes are left:
    sets V_CUT_BEATS to its beats and adds its bytes to V_CUT. State arrays: P (parameters of the run), V (current
    store).
    """
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
def _start_store(P, C, V, row, registers, i, cycle):  # type: ignore[no-untyped-def]
    """Fills the array V, which describes the current store, for instruction `i`, a store or ROWS. The instruction
    begins in `cycle` and has at least one vector. `row`: the decoded instruction; `registers`: as in `Decoded`. State
    arrays: P (parameters of the run), C (read clients), V (current store). Call it only after the cycles of all
    accumulator reads of the previous store have been computed.
    """
    out = P[P_OUT_BYTES]
    V[V_INSTRUCTION] = i
    V[V_COUNT] = row[Y_SIZE] * row[X_SIZE]
    V[V_INDEX] = V[V_READ] = V[V_OPERAND] = V[V_OPERAND_END] = 0
    V[V_BASE] = row[SRAM_BASE]
    V[V_X_SIZE] = row[X_SIZE]
    V[V_ROWS] = V[V_COLUMNS] = V[V_X_STRIDE] = 1
    V[V_Y_STRIDE] = row[X_SIZE]
    V[V_LATENCY] = P[P_STORE_LATENCY]
    V[V_REST] = 0
    V[V_CHAIN] = row[CHAIN] if row[KIND] == STORE_POST else row[KIND] == ROWS
    V[V_EARLIEST] = max(cycle + 1, V[V_EARLIEST])
    V[V_BEGIN] = cycle
    V[V_PRODUCT] = first_request(P, row, cycle) - P[P_REQUEST_DELAY] - cycle
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
            runs, length, first = row[Y_SIZE], width * out, cycle + P[P_REQUEST_DELAY]
            if pitch == width:
                first += P[P_PRODUCT_CYCLES] if row[Y_SIZE] > 1 else 0
                runs, length = np.int64(1), length * row[Y_SIZE]
            start_transfer(C, STORE_CLIENT, T_OPERAND, begin * out, runs, length, pitch * out, first)
    if V[V_CHAIN]:
        V[V_LEFT] = V[V_RUNS] = 0
    _next_burst(P, V)


@timing_code
def _store_kind(row):  # type: ignore[no-untyped-def]
    """Returns a number for the kind and the flags of the store `row`, a decoded instruction. Two stores may overlap
    only if their numbers are equal (hw/README.md section 8).
    """
    if row[KIND] != STORE_POST:
        return np.int64(0)
    flags = row[COMBINE] | row[UNSIGNED] << 1 | row[TABLE] << 2 | row[WITH_ROWS] << 3 | row[CHAIN] << 4
    return 1 | flags << 1 | row[TABLE_INDEX] << 6


@timing_code
def _stores(row):  # type: ignore[no-untyped-def]
    """Whether the instruction `row` reads accumulators: a STORE or ROWS with at least one vector."""
    return row[KIND] in (STORE_OUT, STORE_POST, ROWS) and row[X_SIZE] > 0 and row[Y_SIZE] > 0


@timing_code
def _plain(row):  # type: ignore[no-untyped-def]
    """Whether the decoded instruction `row` is a plain store (hw/README.md section 8): STORE.OUT, or STORE.POST without
    operand, of at least one vector.
    """
    if not _stores(row) or row[KIND] == ROWS:
        return False
    return row[KIND] == STORE_OUT or row[OPERAND] == 0


@timing_code
def _store_condition(P, U, V, X, order, row, cycle):  # type: ignore[no-untyped-def]
    """Finds the first cycle, not before `cycle`, in which the store unit may begin instruction `row`, as far as earlier
    instructions of the unit are concerned. Returns BLOCKED if the cycle is not known yet. `order`: indices of the
    unit's instructions. State arrays: P (parameters of the run), U (units), V (current store), X (record of each
    instruction).
    """
    u = STORE
    if U[u, U_ENDED] == U[u, U_BEGUN]:
        all_ended = max(cycle, U[u, U_LAST_END] + 1)
    else:
        all_ended = np.int64(NEVER)
    follows = False
    if V[V_OPEN]:
        follows = row[KIND] == LOAD_PAR and V[V_LAST_LOAD] != order[U[u, U_BEGUN] - 1]
        follows |= _plain(row) and _store_kind(row) == V[V_STORE_KIND]
    if not follows:
        return all_ended if all_ended != NEVER else np.int64(BLOCKED)
    ahead = U[u, U_BEGUN] - P[P_STORES_IN_FLIGHT]
    if ahead >= 0:
        if ahead >= U[u, U_ENDED]:
            return np.int64(BLOCKED)
        cycle = max(cycle, X[order[ahead], X_END] + 1)
    if row[KIND] == LOAD_PAR:
        if V[V_LAST_LOAD] >= 0:
            if X[V[V_LAST_LOAD], X_END] < 0:
                return np.int64(BLOCKED)
            cycle = max(cycle, X[V[V_LAST_LOAD], X_END] + 1)
        return min(cycle, all_ended)
    if V[V_INDEX] < V[V_COUNT] or V[V_LOAD] >= 0:
        return np.int64(BLOCKED)
    cycle = max(cycle, V[V_LAST_READ] + 1)
    if V[V_LAST_LOAD] >= 0:
        cycle = max(cycle, X[V[V_LAST_LOAD], X_DONE] + 1)
    return min(cycle, all_ended)


@timing_code
def _complete(W, X, row, i):  # type: ignore[no-untyped-def]
    """Cycle in which instruction `i` of the store unit, the oldest in flight, is complete: for a store to DRAM, that of
    the response to its last write. BLOCKED if not known yet. State arrays: W (write bursts), X (record of each
    instruction). `row`: the decoded instruction.
    """
    if row[KIND] in (LOAD_PAR, LOAD_TABLE, ROWS) or (row[KIND] == STORE_POST and row[CHAIN]):
        return X[i, X_DONE]
    if X[i, X_DONE] < 0:
        return np.int64(BLOCKED)
    response = W[(X[i, X_DONE] - 1) & (W.shape[0] - 1), W_RESPONSE]
    return response if response != NEVER else np.int64(BLOCKED)


@timing_code
def advance_store(P, U, V, X, bus, tokens, program):  # type: ignore[no-untyped-def]
    """Begins and ends instructions of the store unit, as far as their cycles can be computed already. Returns whether
    anything changed. State arrays: P (parameters of the run), U (units), V (current store), X (record of each
    instruction), `bus` (memory port), `tokens` (token queues), `program` (decoded program).
    """
    u, c = STORE, STORE_CLIENT
    C, R, W = bus.C, bus.R, bus.W
    rows, registers, order, sizes = program.rows, program.registers, program.order, program.sizes
    progress = False
    while True:
        progress |= look_ahead(P, U, X, tokens, program, u)
        i = V[V_LOAD]
        if i >= 0 and V[V_INDEX] == V[V_COUNT]:
            # A LOAD.PAR takes its first step after all earlier vectors have read their parameters.
            begun = max(X[i, X_BEGIN], V[V_LAST_READ] + P[P_PARAMETER_CYCLES] - P[P_STEP_DELAY])
            cycle = write_elements(P, C, R, c, rows[i], sizes[rows[i, KIND]], begun)
            if cycle != BLOCKED:
                X[i, X_DONE] = cycle
                V[V_LOAD] = BLOCKED
                progress = True
        while U[u, U_ENDED] < U[u, U_BEGUN]:
            i = order[u, U[u, U_ENDED]]
            cycle = _complete(W, X, rows[i], i)
            if cycle == BLOCKED:
                break
            end(U, X, tokens, rows, u, i, max(cycle, U[u, U_LAST_END] + 1))
            progress = True
        if U[u, U_READY] == BLOCKED:
            break
        i = order[u, U[u, U_BEGUN]]
        row = rows[i]
        ready = _store_condition(P, U, V, X, order[u], row, U[u, U_READY])
        if ready == BLOCKED:
            break
        cycle = begin(P, U, X, tokens, rows, u, i, ready)
        progress = True
        V[V_OPEN] = row[KIND] == LOAD_PAR or _plain(row)
        if row[KIND] in (LOAD_PAR, LOAD_TABLE):
            start_load(P, C, c, row, sizes[row[KIND]], T_PAR, cycle)
            V[V_LOAD] = V[V_LAST_LOAD] = i
        elif _stores(row):
            V[V_STORE_KIND] = _store_kind(row)
            _start_store(P, C, V, row, registers, i, cycle)
        else:
            end(U, X, tokens, rows, u, i, cycle + 1)
    return progress


@timing_code
def _room(P, M, V, W):  # type: ignore[no-untyped-def]
    """First cycle in which the store FIFO has room for the next vector; BLOCKED if not known yet. State arrays: P
    (parameters of the run), M (memory and fetch), V (current store), W (write bursts).
    """
    used = V[V_STORED] + P[P_OUT_BYTES] - P[P_STORE_FIFO]
    if used <= 0:
        return np.int64(0)
    while True:
        number = V[V_ROOM]
        if number >= M[M_WRITE_SERVED]:
            return np.int64(BLOCKED)
        if W[number & (W.shape[0] - 1), W_END] >= used:
            return W[number & (W.shape[0] - 1), W_LAST] + 1
        V[V_ROOM] += 1


@timing_code
def _operand(P, C, V, R):  # type: ignore[no-untyped-def]
    """First cycle in which the next vector's operand is in the FIFO; BLOCKED if not known yet. State arrays: P
    (parameters of the run), C (read clients), V (current store), R (their bursts).
    """
    c = STORE_CLIENT
    wanted = (V[V_INDEX] // V[V_REPEAT] + 1) * P[P_OUT_BYTES]
    number, finish = C[c, C_TAKEN], V[V_OPERAND_END]
    while number < C[c, C_SERVED]:
        burst = R[c, number & (R.shape[1] - 1)]
        if finish + burst[R_BYTES] >= wanted:
            last = burst[R_ADDRESS] + wanted - finish - 1
            return burst[R_START] + last // P[P_BUS] - burst[R_ADDRESS] // P[P_BUS] + P[P_FIFO_LATENCY]
        finish += burst[R_BYTES]
        number += 1
    return np.int64(BLOCKED)


@timing_code
def _take_operand(P, C, V, R, cycle):  # type: ignore[no-untyped-def]
    """Takes the operand out of the FIFO in `cycle` if the current vector is the last one that uses it, and frees the
    room of the bursts whose last bytes belong to this operand. State arrays: P (parameters of the run), C (read
    clients), V (current store), R (their bursts).
    """
    c = STORE_CLIENT
    if (V[V_INDEX] + 1) % V[V_REPEAT]:
        return
    wanted = (V[V_INDEX] + 1) // V[V_REPEAT] * P[P_OUT_BYTES]
    while C[c, C_TAKEN] < C[c, C_SERVED]:
        burst = R[c, C[c, C_TAKEN] & (R.shape[1] - 1)]
        if V[V_OPERAND_END] + burst[R_BYTES] > wanted:
            break
        V[V_OPERAND_END] += burst[R_BYTES]
        burst[R_FREE] = cycle + P[P_ROOM_DELAY]
        C[c, C_TAKEN] += 1


@timing_code
def port_horizon(P, U, next_event):  # type: ignore[no-untyped-def]
    """Last cycle up to which all accumulator reads of the compute unit are known; `next_event`: cycle of the memory's
    next event. State arrays: P (parameters of the run), U (units).

    A compute instruction that has not begun yet begins in next_event + 1 at the earliest, not before the last issue of
    the GEMM before it, and after the end of every other instruction; its first read comes later still.
    """
    known = max(next_event + 1, U[COMPUTE, U_OTHER_END] + 1) + P[P_ALU_STAGE]
    return max(known, U[COMPUTE, U_ISSUED] + P[P_GEMM_STAGE])


@timing_code
def read_vectors(P, U, V, X, bus, program, traffic, next_event):  # type: ignore[no-untyped-def]
    """Computes the cycles of further accumulator reads of the current store. It stops at a read whose cycle is not
    known yet, because room in the FIFO, an operand, or the compute unit's use of the read ports is not known. Returns
    whether it computed any. `next_event`: cycle of the memory's next event. State arrays: P (parameters of the run), U
    (units), V (current store), X (record of each instruction), `bus` (memory port), `program` (decoded program),
    `traffic` (bytes and beats by kind).
    """
    if V[V_INDEX] == V[V_COUNT]:
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
            V[V_LAST_READ] = cycle
            cycle += 1
            V[V_EARLIEST] = cycle
            progress = True
        V[V_READ] = 0
        V[V_EARLIEST] = cycle + V[V_REST]
        V[V_INDEX] += 1
        if V[V_CHAIN]:
            if V[V_INDEX] == V[V_COUNT]:
                X[V[V_INSTRUCTION], X_DONE] = cycle + V[V_LATENCY]
            continue
        V[V_STORED] += P[P_OUT_BYTES]
        traffic.moved[T_OUT] += P[P_OUT_BYTES]
        while V[V_CUT] <= V[V_STORED]:
            burst = W[M[M_WRITE_SHOWN] & (W.shape[0] - 1)]
            burst[W_SHOWN] = cycle + V[V_LATENCY]
            burst[W_BEGIN], burst[W_PRODUCT] = V[V_BEGIN], V[V_PRODUCT]
            burst[W_BEATS] = V[V_CUT_BEATS]
            burst[W_END] = V[V_CUT]
            burst[W_RESPONSE] = NEVER
            burst[W_WORD] = (V[V_ADDRESS] - 1) // P[P_BUS] - V[V_CUT_BEATS] + 1
            V[V_BEGIN] = NEVER
            start = V[V_CUT]
            M[M_WRITE_SHOWN] += 1
            traffic.beats[T_OUT] += V[V_CUT_BEATS]
            _next_burst(P, V)
            if V[V_CUT] == start:
                break
        if V[V_INDEX] == V[V_COUNT]:
            X[V[V_INSTRUCTION], X_DONE] = M[M_WRITE_SHOWN]
    return progress

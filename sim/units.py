"""Timing of fetch, of the start and end of instructions, and of the load and compute units (hw/README.md sections 4 to
7).
"""

from __future__ import annotations

import numpy as np

from .cache import timing_code
from .decode import patch_row_bytes
from .memory import requests_left, start_transfer
from .parameters import (
    P_ALU_LATENCY,
    P_BEGIN_DELAY,
    P_BUS,
    P_COMMANDS,
    P_COUNT,
    P_FETCH_BURST,
    P_FETCH_DELAY,
    P_FETCH_DEPTH,
    P_FETCH_ROOM_DELAY,
    P_FIFO_LATENCY,
    P_GEMM_LATENCY,
    P_INP_BLOCK,
    P_INSTRUCTION,
    P_LAST,
    P_PRODUCT_CYCLES,
    P_PROGRAM,
    P_REQUEST_DELAY,
    P_REQUEST_GAP,
    P_TOKENS,
)
from .ports import alu_issue_cycles
from .state import (
    ALU,
    BLOCKED,
    C_ACCEPTED,
    C_BEATS,
    C_BYTES,
    C_ISSUED,
    C_KIND,
    C_SERVED,
    C_SHOWN,
    C_TAKEN,
    COMPUTE,
    COMPUTE_CLIENT,
    CONFIG,
    DRAM_BASE,
    FETCH_CLIENT,
    FINISH,
    ITER_IN,
    ITER_OUT,
    KIND,
    LOAD,
    LOAD_BEFORE,
    LOAD_CLIENT,
    LOAD_INP,
    LOAD_PATCH,
    LOAD_UOP,
    LOAD_WGT,
    M_DISPATCHED,
    M_LAST_DISPATCH,
    M_REQUESTED,
    M_TOTAL,
    MATRIX,
    NEVER,
    POP_PREV,
    PUSH_NEXT,
    PUSH_PREV,
    R_ADDRESS,
    R_BYTES,
    R_START,
    REGISTERS_AT,
    STORE,
    T_ACC,
    T_INP,
    T_INSTRUCTION,
    T_POPPED,
    T_PUSHED,
    T_RESERVED,
    T_UOP,
    T_WGT,
    U_BEGUN,
    U_COUNT,
    U_DISPATCHED,
    U_ENDED,
    U_FREE,
    U_HARD_END,
    U_ISSUED,
    U_LAST_END,
    U_OTHER_END,
    U_POPPED,
    U_PREVIOUS_BEGIN,
    U_READY,
    UNIT,
    UOP_BGN,
    UOP_END,
    X_BEGIN,
    X_DISPATCH,
    X_END,
    X_FULL_0,
    X_HEAD,
    X_ISSUES,
    X_POP_0,
    X_SIZE,
    X_STRIDE,
    Y_SIZE,
)
from .streams import write_elements, write_patches, write_vectors

# --- fetch and dispatch -----------------------------------------------------------------------------------


@timing_code
def show_fetch(P, M, C, R, X):  # type: ignore[no-untyped-def]
    """Puts the next read request of the fetch unit on the bus if the cycle in which its buffer has room is known;
    returns whether it did. State arrays: P (parameters of the run), M (memory and fetch), C (read clients), R (their
    bursts), X (record of each instruction).
    """
    c = FETCH_CLIENT
    if C[c, C_SHOWN] != NEVER or M[M_REQUESTED] == P[P_COUNT]:
        return False
    address = P[P_PROGRAM] + M[M_REQUESTED] * P[P_INSTRUCTION]
    count = min(P[P_COUNT] - M[M_REQUESTED], P[P_FETCH_BURST], (4096 - address % 4096) // P[P_INSTRUCTION])
    shown = max(P[P_FETCH_DELAY], C[c, C_ACCEPTED] + P[P_REQUEST_GAP])
    must_leave = M[M_REQUESTED] + count - P[P_FETCH_DEPTH]
    if must_leave > 0:
        if must_leave > M[M_DISPATCHED]:
            return False
        shown = max(shown, X[must_leave - 1, X_DISPATCH] + P[P_FETCH_ROOM_DELAY])
    C[c, C_SHOWN] = shown
    C[c, C_KIND] = T_INSTRUCTION
    C[c, C_BYTES] = count * P[P_INSTRUCTION]
    C[c, C_BEATS] = (address + count * P[P_INSTRUCTION] - 1) // P[P_BUS] - address // P[P_BUS] + 1
    burst = R[c, C[c, C_ISSUED] & (R.shape[1] - 1)]
    burst[R_ADDRESS] = address
    burst[R_BYTES] = count * P[P_INSTRUCTION]
    burst[R_START] = NEVER
    C[c, C_ISSUED] += 1
    M[M_REQUESTED] += count
    return True


@timing_code
def dispatch(P, U, X, bus, program):  # type: ignore[no-untyped-def]
    """Moves fetched instructions to the command queues, as far as the cycles of the moves can be computed already.
    Returns whether any instruction moved. State arrays: P (parameters of the run), U (units), X (record of each
    instruction), `bus` (memory port), `program` (decoded program).
    """
    c = FETCH_CLIENT
    M, C, R = bus.M, bus.C, bus.R
    rows, order = program.rows, program.order
    progress = False
    while M[M_DISPATCHED] <= P[P_LAST] and M[M_DISPATCHED] < P[P_COUNT]:
        if C[c, C_TAKEN] == C[c, C_SERVED]:
            break
        i = M[M_DISPATCHED]
        u = rows[i, UNIT]
        burst = R[c, C[c, C_TAKEN] & (R.shape[1] - 1)]
        end = P[P_PROGRAM] + (i + 1) * P[P_INSTRUCTION] - 1
        arrived = burst[R_START] + end // P[P_BUS] - burst[R_ADDRESS] // P[P_BUS] + P[P_FIFO_LATENCY]
        cycle = max(arrived, M[M_LAST_DISPATCH] + 1)
        ahead = U[u, U_DISPATCHED] - P[P_COMMANDS]
        if ahead >= 0:
            if ahead >= U[u, U_BEGUN]:
                break
            cycle = max(cycle, X[order[u, ahead], X_BEGIN] + 1)
        X[i, X_DISPATCH] = cycle
        M[M_LAST_DISPATCH] = cycle
        M[M_DISPATCHED] += 1
        U[u, U_DISPATCHED] += 1
        if end + 1 == burst[R_ADDRESS] + burst[R_BYTES]:
            C[c, C_TAKEN] += 1
        progress = True
    return progress


# --- beginning and ending ---------------------------------------------------------------------------------


@timing_code
def _ready_cycle(P, U, X, tokens, rows, u, i):  # type: ignore[no-untyped-def]
    """First cycle in which instruction `i`, the next of unit `u`, is at the head of its command queue, has its tokens
    and has room in the token queues for its pushes; BLOCKED if not known yet. State arrays: P (parameters of the run),
    U (units), X (record of each instruction), `tokens` (token queues). `rows`: the decoded instructions.

    Pops each token whose pop has a known cycle, even if the instruction then waits for another condition.
    """
    T, pushed, popped, pop_queue, push_queue = tokens
    head = max(X[i, X_DISPATCH] + 1, U[u, U_PREVIOUS_BEGIN] + 1)
    X[i, X_HEAD] = head
    cycle = head
    blocked = False
    for side in range(2):
        if rows[i, POP_PREV + side] == 0:
            X[i, X_POP_0 + side] = head
            continue
        if U[u, U_POPPED] >> side & 1 == 0:
            q = pop_queue[u, side]
            number = T[q, T_POPPED]
            if number >= T[q, T_PUSHED]:
                blocked = True
                continue
            X[i, X_POP_0 + side] = max(head, pushed[q, number] + 1)
            popped[q, number] = X[i, X_POP_0 + side]
            T[q, T_POPPED] += 1
            U[u, U_POPPED] |= 1 << side
        cycle = max(cycle, X[i, X_POP_0 + side])
    if blocked:
        return BLOCKED
    for side in range(2):
        X[i, X_FULL_0 + side] = head
        if rows[i, PUSH_PREV + side]:
            q = push_queue[u, side]
            number = T[q, T_RESERVED] - P[P_TOKENS]
            if number >= 0:
                if number >= T[q, T_POPPED]:
                    return BLOCKED
                X[i, X_FULL_0 + side] = popped[q, number] + 1
                cycle = max(cycle, X[i, X_FULL_0 + side])
    return cycle


@timing_code
def look_ahead(P, U, X, tokens, program, u):  # type: ignore[no-untyped-def]
    """Pops tokens for the next instruction of unit `u`, also while the unit is still busy: all pops whose cycles can be
    computed already. Returns whether it made progress, which is true if it popped a token, or if it found the cycle in
    which the instruction is ready. State arrays: P (parameters of the run), U (units), X (record of each instruction),
    `tokens` (token queues), `program` (decoded program).
    """
    if U[u, U_READY] != BLOCKED or U[u, U_BEGUN] == U[u, U_DISPATCHED]:
        return False
    i = program.order[u, U[u, U_BEGUN]]
    before = U[u, U_POPPED]
    U[u, U_READY] = _ready_cycle(P, U, X, tokens, program.rows, u, i)
    return U[u, U_READY] != BLOCKED or U[u, U_POPPED] != before


@timing_code
def begin(P, U, X, tokens, rows, u, i, ready):  # type: ignore[no-untyped-def]
    """Begins instruction `i` of unit `u`, whose conditions are met from cycle `ready` on, and reserves room in the
    token queues for its pushes. Returns the cycle in which it begins, P_BEGIN_DELAY after `ready`. State arrays: P
    (parameters of the run), U (units), X (record of each instruction), `tokens` (token queues). `rows`: the decoded
    instructions.
    """
    cycle = ready + P[P_BEGIN_DELAY]
    X[i, X_BEGIN] = cycle
    U[u, U_PREVIOUS_BEGIN] = cycle
    U[u, U_POPPED] = 0
    U[u, U_READY] = BLOCKED
    U[u, U_BEGUN] += 1
    for side in range(2):
        if rows[i, PUSH_PREV + side]:
            tokens.T[tokens.push_queue[u, side], T_RESERVED] += 1
    return cycle


@timing_code
def end(U, X, tokens, rows, u, i, cycle):  # type: ignore[no-untyped-def]
    """Ends instruction `i` of unit `u` in `cycle` and pushes its tokens. State arrays: U (units), X (record of each
    instruction), `tokens` (token queues). `rows`: the decoded instructions.
    """
    X[i, X_END] = cycle
    U[u, U_LAST_END] = max(U[u, U_LAST_END], cycle)
    U[u, U_ENDED] += 1
    for side in range(2):
        if rows[i, PUSH_PREV + side]:
            q = tokens.push_queue[u, side]
            tokens.pushed[q, tokens.T[q, T_PUSHED]] = cycle
            tokens.T[q, T_PUSHED] += 1


@timing_code
def first_request(P, row, begin):  # type: ignore[no-untyped-def]
    """First cycle in which the load `row`, an instruction that begins in cycle `begin`, may have a read request on the
    bus. For all loads except LOAD.PATCH. P: parameters of the run (`sim/parameters.py`).
    """
    if row[X_STRIDE] == row[X_SIZE] and row[Y_SIZE] > 1:
        return begin + P[P_REQUEST_DELAY] + P[P_PRODUCT_CYCLES]
    return begin + P[P_REQUEST_DELAY]


@timing_code
def start_load(P, C, c, row, size, kind, begin):  # type: ignore[no-untyped-def]
    """Starts the DRAM reads of the rectangular load `row`, an instruction that client `c` began in cycle `begin`.
    Returns whether the load reads any bytes. `size`: bytes of an element. `kind`: kind of traffic. State arrays: P
    (parameters of the run), C (read clients).
    """
    if row[X_SIZE] == 0 or row[Y_SIZE] == 0:
        return False
    runs, length = row[Y_SIZE], row[X_SIZE] * size
    if row[X_STRIDE] == row[X_SIZE]:
        runs, length = np.int64(1), length * row[Y_SIZE]
    earliest = first_request(P, row, begin)
    start_transfer(C, c, kind, row[DRAM_BASE] * size, runs, length, row[X_STRIDE] * size, earliest)
    return True


# --- load -------------------------------------------------------------------------------------------------


@timing_code
def advance_load(P, U, X, bus, tokens, program):  # type: ignore[no-untyped-def]
    """Begins and ends instructions of the load unit and advances its writer, as far as their cycles can be computed
    already. Returns whether anything changed. State arrays: P (parameters of the run), U (units), X (record of each
    instruction), `bus` (memory port), `tokens` (token queues), `program` (decoded program).
    """
    u, c = LOAD, LOAD_CLIENT
    C, R = bus.C, bus.R
    rows, registers, order, sizes = program.rows, program.registers, program.order, program.sizes
    progress = look_ahead(P, U, X, tokens, program, u)
    while U[u, U_READY] != BLOCKED and not requests_left(C, c):
        i = order[u, U[u, U_BEGUN]]
        row = rows[i]
        ready = max(U[u, U_READY], U[u, U_FREE] + 1, C[c, C_ACCEPTED] + 1)
        if row[LOAD_BEFORE] >= 0:
            if X[row[LOAD_BEFORE], X_END] < 0:
                break
            ready = max(ready, X[row[LOAD_BEFORE], X_END])
        cycle = begin(P, U, X, tokens, rows, u, i, ready)
        progress = True
        reads = False
        if row[KIND] == LOAD_PATCH:
            length = patch_row_bytes(row, registers[row[REGISTERS_AT], 1])
            first = cycle + P[P_REQUEST_DELAY] + P[P_PRODUCT_CYCLES]
            if length > 0 and row[Y_SIZE] > 0:
                start_transfer(C, c, T_INP, row[DRAM_BASE], row[Y_SIZE], length, row[X_STRIDE], first)
                reads = True
        elif row[KIND] == LOAD_INP:
            reads = start_load(P, C, c, row, sizes[LOAD_INP], T_INP, cycle)
        elif row[KIND] == LOAD_WGT:
            reads = start_load(P, C, c, row, sizes[LOAD_WGT], T_WGT, cycle)
        if not reads:
            U[u, U_FREE] = cycle + 1 + (P[P_PRODUCT_CYCLES] if row[KIND] == LOAD_PATCH else 0)
        look_ahead(P, U, X, tokens, program, u)
    while U[u, U_ENDED] < U[u, U_BEGUN]:
        i = order[u, U[u, U_ENDED]]
        row = rows[i]
        if row[KIND] == CONFIG:
            cycle = max(X[i, X_BEGIN] + 1, U[u, U_LAST_END])
        elif row[KIND] == LOAD_PATCH:
            patch = registers[row[REGISTERS_AT], 1]
            cycle = write_patches(P, C, R, c, row, patch, patch_row_bytes(row, patch), X[i, X_BEGIN])
        elif row[KIND] == LOAD_INP and P[P_INP_BLOCK] > 0:
            cycle = write_vectors(P, C, R, c, row, sizes[row[KIND]], X[i, X_BEGIN])
        else:
            cycle = write_elements(P, C, R, c, row, sizes[row[KIND]], X[i, X_BEGIN])
        if cycle == BLOCKED:
            break
        end(U, X, tokens, rows, u, i, cycle)
        progress = True
    return progress


# --- compute ----------------------------------------------------------------------------------------------


@timing_code
def operations(row):  # type: ignore[no-untyped-def]
    """Number of operations of the decoded instruction `row`: a GEMM, DEPTHWISE, TAPS or ALU."""
    return row[ITER_OUT] * row[ITER_IN] * max(np.int64(0), row[UOP_END] - row[UOP_BGN])


@timing_code
def _compute_condition(P, U, row, cycle):  # type: ignore[no-untyped-def]
    """Finds the first cycle, not before `cycle`, in which the compute unit may begin instruction `row`, as far as other
    instructions in progress are concerned. Returns BLOCKED if the cycle is not known yet. State arrays: P (parameters
    of the run), U (units).
    """
    u = COMPUTE
    if U[u, U_ENDED] < U[u, U_BEGUN]:
        return np.int64(BLOCKED)
    kind = row[KIND]
    if kind in MATRIX:
        return max(cycle, U[u, U_ISSUED] - P[P_BEGIN_DELAY], U[u, U_OTHER_END] + 1)
    if kind == CONFIG and row[PUSH_PREV] == 0 and row[PUSH_NEXT] == 0:
        return max(cycle, U[u, U_HARD_END] + 1)
    cycle = max(cycle, U[u, U_LAST_END] + 1)
    if kind == FINISH:
        for other in (LOAD, STORE):
            if U[other, U_ENDED] < U[other, U_COUNT]:
                return np.int64(BLOCKED)
            cycle = max(cycle, U[other, U_LAST_END] + 1)
    return cycle


@timing_code
def advance_compute(P, U, X, bus, tokens, program):  # type: ignore[no-untyped-def]
    """Begins and ends instructions of the compute unit, as far as their cycles can be computed already. Returns whether
    anything changed. State arrays: P (parameters of the run), U (units), X (record of each instruction), `bus` (memory
    port), `tokens` (token queues), `program` (decoded program).
    """
    u, c = COMPUTE, COMPUTE_CLIENT
    M, C, R = bus.M, bus.C, bus.R
    rows, order, sizes = program.rows, program.order, program.sizes
    progress = False
    while True:
        progress |= look_ahead(P, U, X, tokens, program, u)
        if U[u, U_ENDED] < U[u, U_BEGUN]:  # a load whose data is still arriving
            i = order[u, U[u, U_ENDED]]
            cycle = write_elements(P, C, R, c, rows[i], sizes[rows[i, KIND]], X[i, X_BEGIN])
            if cycle == BLOCKED:
                break
            end(U, X, tokens, rows, u, i, cycle)
            U[u, U_OTHER_END] = U[u, U_HARD_END] = cycle
            progress = True
        if U[u, U_READY] == BLOCKED:
            break
        i = order[u, U[u, U_BEGUN]]
        row = rows[i]
        ready = _compute_condition(P, U, row, U[u, U_READY])
        if ready == BLOCKED:
            break
        cycle = begin(P, U, X, tokens, rows, u, i, ready)
        progress = True
        kind = row[KIND]
        if kind in MATRIX:
            count = operations(row)
            X[i, X_ISSUES] = count
            finished = cycle + count + P[P_GEMM_LATENCY]
            if count == 0:
                finished = max(cycle + 1, U[u, U_LAST_END])
            else:
                U[u, U_ISSUED] = cycle + count
        elif kind == ALU:
            X[i, X_ISSUES] = operations(row) * alu_issue_cycles(P, row)
            finished = cycle + 1
            if X[i, X_ISSUES] > 0:
                finished = cycle + X[i, X_ISSUES] + P[P_ALU_LATENCY]
            U[u, U_OTHER_END] = U[u, U_HARD_END] = finished
        elif kind == CONFIG:
            finished = cycle + 1
            U[u, U_OTHER_END] = finished
        elif kind == FINISH:
            finished = cycle + 1
            M[M_TOTAL] = finished
        else:
            start_load(P, C, c, row, sizes[kind], T_UOP if kind == LOAD_UOP else T_ACC, cycle)
            continue
        end(U, X, tokens, rows, u, i, finished)
    return progress

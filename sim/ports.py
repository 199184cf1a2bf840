"""Read ports of the accumulator banks (hw/README.md section 7): the bank that each operation reads.

Only LOAD.UOP changes micro-ops, in program order, so the banks depend on the program alone. All operations of nearly
every instruction read the same bank. For every other instruction the micro-ops are copied, and the bank of an operation
is computed from the copy.
"""

from __future__ import annotations

import numpy as np

from vdla.util.machine_code import compiled

from .cache import timing_code
from .folds import FOLD, groups_of
from .parameters import (
    ALU_OPCODES,
    P_ACC_DEPTH,
    P_ALU_CYCLES,
    P_ALU_STAGE,
    P_BANK_DEPTH,
    P_GEMM_STAGE,
    P_UOP_DEPTH,
    P_UOP_DST,
    P_UOP_SRC,
    P_UOP_WGT,
)
from .state import (
    ALU,
    ALU_OPCODE,
    COMPUTE,
    DST_IN,
    DST_OUT,
    GEMM,
    ITER_IN,
    ITER_OUT,
    KIND,
    LOAD_UOP,
    MATRIX,
    OVERWRITE,
    REGISTERS_AT,
    RESET,
    SRAM_BASE,
    SRC_IN,
    SRC_OUT,
    U_BEGUN,
    UOP_BGN,
    UOP_END,
    USE_IMM,
    V_PORT,
    WGT_IN,
    WGT_OUT,
    X_BEGIN,
    X_ISSUES,
    X_PAD_0,
    X_PAD_1,
    X_SIZE,
    Y_PAD_0,
    Y_PAD_1,
    Y_SIZE,
)

# Columns of B[instruction]: the bank of all its destinations and the bank of its ALU sources (MIXED if there are
# several), the start of its copy of micro-ops, and the operations that read accumulators (NONE, ALL or BY_PART).
B_BANK, B_SOURCE, B_UOPS, B_READS = range(4)
B_SIZE = 4
MIXED = -1
NONE, ALL, BY_PART = range(3)
"""Operations of an instruction that read accumulators: none; all; or BY_PART, for a GEMM with `overwrite` and several
groups of rows (extension `fold`): the operations on any part of the inputs but the first."""

_SLOTS = 256
_S_BGN, _S_END, _S_VERSION, _S_DST_LOW, _S_DST_HIGH, _S_SRC_LOW, _S_SRC_HIGH, _S_UOPS = range(8)


@compiled()
def load_size(row):  # type: ignore[no-untyped-def]
    """Number of scratchpad elements, pads included, that a rectangular load writes."""
    if row[X_SIZE] == 0:
        return np.int64(0)
    return (row[Y_PAD_0] + row[Y_SIZE] + row[Y_PAD_1]) * (row[X_PAD_0] + row[X_SIZE] + row[X_PAD_1])


@compiled()
def _one_bank(P, low, high, row, out, inner):  # type: ignore[no-untyped-def]
    high += (row[ITER_OUT] - 1) * row[out] + (row[ITER_IN] - 1) * row[inner]
    if high < P[P_ACC_DEPTH] and low // P[P_BANK_DEPTH] == high // P[P_BANK_DEPTH]:
        return low // P[P_BANK_DEPTH]
    return np.int64(MIXED)


@compiled()
def find_banks(P, rows, registers, trace, uops, B):  # type: ignore[no-untyped-def]
    """Fills B; returns the copies of micro-ops, uint64, in which column B_UOPS of B is the index of an instruction's
    first micro-op.

    `trace` uint64: the words that the LOAD.UOPs write, one load after the other. `uops` uint64 (uop_depth,), modified:
    the micro-op scratchpad at launch.
    """
    slots = np.full((_SLOTS, 8), -1, np.int64)
    kept = np.empty(1024, np.uint64)
    used, cursor, version = 0, 0, 0
    dst_mask, src_mask = (1 << P[P_UOP_DST]) - 1, (1 << P[P_UOP_SRC]) - 1
    for i in range(len(rows)):
        row = rows[i]
        kind = row[KIND]
        B[i, B_READS] = NONE
        if kind == LOAD_UOP:
            count = load_size(row)
            for k in range(count):
                uops[(row[SRAM_BASE] + k) % P[P_UOP_DEPTH]] = trace[cursor + k]
            cursor += count
            version += 1
        if kind not in MATRIX and kind != ALU:
            continue
        first, last = row[UOP_BGN], row[UOP_END]
        if last <= first or row[ITER_OUT] == 0 or row[ITER_IN] == 0:
            continue
        reads = ALL
        if kind != ALU and (row[RESET] or row[OVERWRITE]):
            if kind != GEMM or row[RESET] or groups_of(registers[row[REGISTERS_AT], FOLD]) == 1:
                continue
            reads = BY_PART
        B[i, B_READS] = reads
        slot = slots[(first * 31 + last) & (_SLOTS - 1)]
        if slot[_S_BGN] != first or slot[_S_END] != last or slot[_S_VERSION] != version:
            slot[_S_BGN], slot[_S_END], slot[_S_VERSION], slot[_S_UOPS] = first, last, version, -1
            slot[_S_DST_LOW] = slot[_S_SRC_LOW] = 1 << 40
            slot[_S_DST_HIGH] = slot[_S_SRC_HIGH] = -1
            for k in range(first, last):
                word = np.int64(uops[k % P[P_UOP_DEPTH]])
                dst, src = word & dst_mask, word >> P[P_UOP_DST] & src_mask
                slot[_S_DST_LOW] = min(slot[_S_DST_LOW], dst)
                slot[_S_DST_HIGH] = max(slot[_S_DST_HIGH], dst)
                slot[_S_SRC_LOW] = min(slot[_S_SRC_LOW], src)
                slot[_S_SRC_HIGH] = max(slot[_S_SRC_HIGH], src)
        base = registers[row[REGISTERS_AT], 0] & 0xFFFF
        B[i, B_BANK] = _one_bank(P, base + slot[_S_DST_LOW], base + slot[_S_DST_HIGH], row, DST_OUT, DST_IN)
        B[i, B_SOURCE] = B[i, B_BANK]
        if kind == ALU and row[USE_IMM] == 0:
            B[i, B_SOURCE] = _one_bank(
                P, base + slot[_S_SRC_LOW], base + slot[_S_SRC_HIGH], row, SRC_OUT, SRC_IN
            )
        if B[i, B_BANK] == MIXED or B[i, B_SOURCE] == MIXED or reads == BY_PART:
            if slot[_S_UOPS] < 0:
                if used + last - first > len(kept):
                    grown = np.empty(2 * (used + last - first), np.uint64)
                    grown[:used] = kept[:used]
                    kept = grown
                slot[_S_UOPS] = used
                for k in range(first, last):
                    kept[used] = uops[k % P[P_UOP_DEPTH]]
                    used += 1
            B[i, B_UOPS] = slot[_S_UOPS]
    return kept


@timing_code
def alu_issue_cycles(P, row):  # type: ignore[no-untyped-def]
    """Issue cycles that each operation of the ALU instruction `row` takes."""
    return P[P_ALU_CYCLES + 2 * min(row[ALU_OPCODE], ALU_OPCODES - 1) + row[USE_IMM]]


@timing_code
def _bank_of(P, row, registers, B, kept, i, number, source):  # type: ignore[no-untyped-def]
    """Index of the accumulator bank that operation `number` of instruction `i` reads, for its source vector if
    `source`, else for its destination.
    """
    uniform = B[i, B_SOURCE] if source else B[i, B_BANK]
    if uniform != MIXED:
        return uniform
    count = row[UOP_END] - row[UOP_BGN]
    word = np.int64(kept[B[i, B_UOPS] + number % count])
    x = number // count % row[ITER_IN]
    y = number // count // row[ITER_IN]
    index = registers[row[REGISTERS_AT], 0] & 0xFFFF
    if source:
        index += (word >> P[P_UOP_DST] & ((1 << P[P_UOP_SRC]) - 1)) + y * row[SRC_OUT] + x * row[SRC_IN]
    else:
        index += (word & ((1 << P[P_UOP_DST]) - 1)) + y * row[DST_OUT] + x * row[DST_IN]
    return index % P[P_ACC_DEPTH] // P[P_BANK_DEPTH]


@timing_code
def _first_part(P, row, registers, B, kept, i, number):  # type: ignore[no-untyped-def]
    """Whether operation `number` of GEMM `i` multiplies the first part of the input vector (extension `fold`)."""
    count = row[UOP_END] - row[UOP_BGN]
    word = np.int64(kept[B[i, B_UOPS] + number % count])
    x = number // count % row[ITER_IN]
    y = number // count // row[ITER_IN]
    tile = (registers[row[REGISTERS_AT], 0] >> 32 & 0xFFFF) + y * row[WGT_OUT] + x * row[WGT_IN]
    tile += word >> (P[P_UOP_DST] + P[P_UOP_SRC]) & ((1 << P[P_UOP_WGT]) - 1)
    # The part is tile % folds % groups (`folds.parts_of`), where groups divides folds; both are powers of two.
    return tile & (groups_of(registers[row[REGISTERS_AT], FOLD]) - 1) == 0


@timing_code
def port_free(P, U, V, X, program, bank, cycle, horizon):  # type: ignore[no-untyped-def]
    """(first cycle from `cycle` on in which compute does not read `bank`, last cycle up to which it certainly does
    not).

    Takes the instructions that have begun into account, and cycles up to `horizon`.
    """
    rows, registers, order, B, kept = program.rows, program.registers, program.order, program.B, program.kept
    while cycle <= horizon:
        if V[V_PORT] == U[COMPUTE, U_BEGUN]:
            return cycle, horizon
        i = order[COMPUTE, V[V_PORT]]
        row = rows[i]
        kind = row[KIND]
        matrix = kind in MATRIX
        reads = B[i, B_READS]
        # Skips an instruction without operations at once, else it would hide the reads of the next instruction.
        if reads == NONE or X[i, X_ISSUES] == 0:
            V[V_PORT] += 1
            continue
        first = X[i, X_BEGIN] + 1 + (P[P_GEMM_STAGE] if matrix else P[P_ALU_STAGE])
        number = cycle - first
        if number >= X[i, X_ISSUES]:
            V[V_PORT] += 1
            continue
        if number < 0:
            return cycle, min(horizon, first - 1)
        each, reads_each = np.int64(1), np.int64(1)
        if kind == ALU:
            each, reads_each = alu_issue_cycles(P, row), 2 - row[USE_IMM]
        if B[i, B_BANK] != MIXED and B[i, B_BANK] == B[i, B_SOURCE] and each == reads_each:
            last = first + X[i, X_ISSUES] - 1
            if B[i, B_BANK] != bank:
                return cycle, min(horizon, last)
            if reads == ALL:
                cycle = last + 1
                continue
        if reads == BY_PART and _first_part(P, row, registers, B, kept, i, number):
            return cycle, cycle
        # An operation reads in the first of its issue cycles, the source before the destination.
        part = number % each
        source = part + 1 < reads_each
        if part >= reads_each or _bank_of(P, row, registers, B, kept, i, number // each, source) != bank:
            return cycle, cycle
        cycle += 1
    return cycle, horizon

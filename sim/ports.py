"""Read ports of the accumulator banks (hw/README.md section 7): the bank that each operation reads.

Only LOAD.UOP changes micro-ops, in program order, so the banks depend on the program alone. All operations of nearly
every instruction read the same bank. For every other instruction the micro-ops are copied, and the bank of an operation
is computed from the copy. `machine.find_banks` fills the array B before a run.
"""

from __future__ import annotations

import numpy as np

from vdla.util.machine_code import compiled

from .cache import timing_code
from .folds import FOLD, groups_of
from .parameters import (
    P_ACC_DEPTH,
    P_ALU_CYCLES,
    P_ALU_STAGE,
    P_BANK_DEPTH,
    P_GEMM_STAGE,
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
    ITER_IN,
    KIND,
    MATRIX,
    REGISTERS_AT,
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
"""Operations of an instruction that read accumulators: none, all, or (BY_PART) only operations that do not multiply the
first part of an input vector. BY_PART occurs for a GEMM with `overwrite` and several groups of rows (extension `fold`).
"""


@compiled()
def load_size(row):  # type: ignore[no-untyped-def]
    """Number of scratchpad elements, pads included, that a rectangular load writes. `row`: the decoded instruction."""
    if row[X_SIZE] == 0:
        return np.int64(0)
    return (row[Y_PAD_0] + row[Y_SIZE] + row[Y_PAD_1]) * (row[X_PAD_0] + row[X_SIZE] + row[X_PAD_1])


@timing_code
def alu_issue_cycles(P, row):  # type: ignore[no-untyped-def]
    """Number of cycles that each operation of the decoded ALU instruction `row` takes to issue. P: parameters of the
    run (`sim/parameters.py`).
    """
    return P[P_ALU_CYCLES + 2 * row[ALU_OPCODE] + row[USE_IMM]]


@timing_code
def _bank_of(P, row, registers, B, kept, i, number, source):  # type: ignore[no-untyped-def]
    """Index of the accumulator bank that operation `number` (from 0) of instruction `i` reads: the bank of its source
    accumulator if `source`, else that of its destination. `row`: the decoded instruction; `registers`: the values of
    the configuration registers. B and `kept`: the banks and micro-ops that `find_banks` recorded. State array: P
    (parameters of the run).
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
    """Whether operation `number` of GEMM `i` multiplies the first part of the input vector (extension `fold`). B and
    `kept`: the recorded banks and micro-ops (`find_banks`). `row`: the decoded instruction; `registers`: as in
    `Decoded`. State array: P (parameters of the run).
    """
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
    """Finds an interval of cycles in which the compute unit does not read accumulator bank `bank`. Returns a pair: the
    first such cycle, not before `cycle`, and the last cycle up to which the bank is known to stay free.

    `horizon`: cycle up to which the compute unit's reads are known; later cycles are not examined, so the first
    returned cycle is after `horizon` if the bank is not free before. State arrays: P (parameters of the run), U
    (units), V (current store), X (record of each instruction), `program` (decoded program).
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

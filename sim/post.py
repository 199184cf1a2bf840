"""Executes STORE.OUT and STORE.POST, from accumulators to DRAM or the chain memory (on-chip buffer between layers).

Each function returns DONE, or OUTSIDE if the store accesses a scratchpad out of bounds or has pads.
"""

from __future__ import annotations

import numpy as np

from vdla.isa.rows import PLANES
from vdla.util.machine_code import compiled

from .decode import operand_shape
from .kernels import combine_add, combine_multiply, requantize
from .loads import DONE, OUTSIDE
from .rows import share_rows
from .state import (
    CHAIN,
    COMBINE,
    DRAM_BASE,
    MULTIPLY,
    OPERAND,
    PAR_BY_X,
    PAR_BY_Y,
    PAR_INDEX,
    SRAM_BASE,
    SWAP,
    TABLE,
    TABLE_INDEX,
    UNSIGNED,
    WITH_ROWS,
    X_PAD_0,
    X_PAD_1,
    X_SIZE,
    X_STRIDE,
    Y_PAD_0,
    Y_PAD_1,
    Y_SIZE,
)
from .windows import reduce_window


@compiled()
def store_out(row, memory, acc):  # type: ignore[no-untyped-def]
    """Executes STORE.OUT: stores the low 8 bits of each lane of `acc` int32 (depth, batch, block_out). `row`: the
    decoded instruction. Returns DONE, or OUTSIDE if the instruction has pads or reads beyond the end of `acc`.
    """
    if row[Y_PAD_0] or row[Y_PAD_1] or row[X_PAD_0] or row[X_PAD_1]:
        return OUTSIDE
    if row[X_SIZE] == 0 or row[Y_SIZE] == 0:
        return DONE
    if row[SRAM_BASE] + row[Y_SIZE] * row[X_SIZE] > len(acc):
        return OUTSIDE
    flat, lanes = acc.reshape(-1), acc.shape[1] * acc.shape[2]
    for y in range(row[Y_SIZE]):
        to = (row[DRAM_BASE] + y * row[X_STRIDE]) * lanes
        start = (row[SRAM_BASE] + y * row[X_SIZE]) * lanes
        for k in range(row[X_SIZE] * lanes):
            memory[to + k] = flat[start + k] & 0xFF
    return DONE


@compiled()
def _float(bits):  # type: ignore[no-untyped-def]
    return np.uint32(bits & 0xFFFFFFFF).view(np.float32)


@compiled()
def _signed(word, low, width):  # type: ignore[no-untyped-def]
    return word << (64 - low - width) >> (64 - width)


@compiled()
def store_post(row, here, memory, pads, reduced):  # type: ignore[no-untyped-def]
    """Executes STORE.POST from the scratchpads `pads` to DRAM `memory` or the chain memory; `reduced` is a temporary
    vector, int32 (batch, block_out). `row`: the decoded instruction; `here`: values of its unit's configuration
    registers. Returns DONE, or OUTSIDE for an index out of bounds.
    """
    acc, par, chain, table, entries = pads.acc, pads.par, pads.chain, pads.table, pads.rows
    if row[X_SIZE] == 0 or row[Y_SIZE] == 0:
        return DONE
    y_stride, x_stride = here[0] & 0xFFFF, here[0] >> 16 & 0xFFFF
    top = row[SRAM_BASE] + (row[Y_SIZE] - 1) * y_stride + (row[X_SIZE] - 1) * x_stride
    entry = row[PAR_INDEX] + (row[Y_SIZE] - 1) * row[PAR_BY_Y] + (row[X_SIZE] - 1) * row[PAR_BY_X]
    tables = len(table) - (PLANES if len(entries) else 0)
    if top >= len(acc) or entry >= len(par) or (row[TABLE] and row[TABLE_INDEX] >= tables):
        return OUTSIDE
    if row[WITH_ROWS] and (here[6] & 0xFF) + row[X_SIZE] > len(entries):
        return OUTSIDE
    zero_point, low, high = _signed(here[2], 0, 16), _signed(here[2], 16, 8), _signed(here[2], 24, 8)
    own_zero_point = _signed(here[2], 48, 16) if row[TABLE] else zero_point
    size = reduced.size
    result = memory.view(np.int8)
    vector = np.empty(size, np.int8)
    for y in range(row[Y_SIZE]):
        for x in range(row[X_SIZE]):
            corner = row[SRAM_BASE] + y * y_stride + x * x_stride
            to = (row[DRAM_BASE] + y * row[X_STRIDE] + x) * size
            out = vector if row[CHAIN] else result[to : to + size]
            entry = row[PAR_INDEX] + y * row[PAR_BY_Y] + x * row[PAR_BY_X]
            bias, scale = par[entry, 0].view(np.int32), par[entry, 1].view(np.float32)
            reduce_window(acc, corner, here, reduced)
            if row[WITH_ROWS]:
                share_rows(reduced, x, y == row[Y_SIZE] - 1, here, table, entries)
            for b in range(reduced.shape[0]):
                for j in range(reduced.shape[1]):
                    total = np.int32(np.int64(reduced[b, j]) + np.int64(bias[j]))
                    value = requantize(total, scale[j], zero_point, low, high)
                    reduced[b, j] = table[row[TABLE_INDEX], value + 128] if row[TABLE] else value
            if row[COMBINE]:
                start = to
                if row[OPERAND]:
                    first, pitch, width = operand_shape(row, here[5])
                    start = (first + y * pitch + (x if width > 1 else 0)) * size
                _combine(row, here, own_zero_point, reduced.reshape(-1), result[start : start + size], out)
            else:
                flat = reduced.reshape(-1)
                for k in range(size):
                    out[k] = flat[k]
            if row[CHAIN]:
                for k in range(size):
                    chain[to + k] = vector[k]
    return DONE


@compiled()
def _combine(row, here, zero_point, values, operands, out):  # type: ignore[no-untyped-def]
    """Stage B of the store pipeline, after requantization: combines the vectors `values` and `operands` into `out`,
    which may be `operands`. If the instruction has no operand, rescales `values` alone. `zero_point`: zero point of
    `values`. `row`: the decoded instruction; `here`: values of its unit's configuration registers.
    """
    ratio_self, ratio_operand = _float(here[3]), _float(here[3] >> 32)
    offset, low, high = _float(here[4]), _signed(here[4], 32, 8), _signed(here[4], 40, 8)
    last_zero = _signed(here[4], 48, 16)
    operand_zero = _signed(here[2], 32, 16)
    unsigned = row[UNSIGNED] == 1
    for k in range(len(values)):
        a, b = np.int64(values[k]), np.int64(operands[k])
        zero_a, zero_b, ratio_a, ratio_b = zero_point, operand_zero, ratio_self, ratio_operand
        if row[SWAP]:
            a, b = b, a
            zero_a, zero_b, ratio_a, ratio_b = operand_zero, zero_point, ratio_operand, ratio_self
        if row[OPERAND] == 0:
            out[k] = requantize(np.int32(values[k] - zero_point), ratio_self, last_zero, low, high)
        elif row[MULTIPLY]:
            out[k] = combine_multiply(a, b, (zero_a, zero_b), ratio_self, last_zero, unsigned, low, high)
        else:
            out[k] = combine_add(a, b, ratio_a, ratio_b, offset, unsigned, low, high)

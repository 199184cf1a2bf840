"""Executes softmax and normalizations of rows: instruction ROWS, which computes a factor for each row, and the part of
STORE.POST that multiplies vectors by the factor of their row. `isa.rows` defines the arithmetic.
"""

from __future__ import annotations

import numpy as np

from vdla.isa.rows import (
    DIFFERENCE_BITS,
    FACTOR_BITS,
    MANTISSA_BITS,
    MOST_ELEMENTS,
    PLANES,
    QUOTIENT_SHIFT,
    TOTAL_BITS,
    VALUE_BITS,
)
from vdla.util.machine_code import compiled

from .loads import DONE, OUTSIDE
from .state import MAXIMUM, SRAM_BASE, X_SIZE, Y_SIZE
from .windows import reduce_window

_HALF = 1 << (DIFFERENCE_BITS - 1)
_DIFFERENCES = (1 << DIFFERENCE_BITS) - 1
_LARGEST = (1 << FACTOR_BITS) - 1
_VALUES = (1 << VALUE_BITS) - 1
_MANTISSA_PLACE = TOTAL_BITS - MANTISSA_BITS


@compiled()
def _difference(x, c):  # type: ignore[no-untyped-def]
    return ((x - c + _HALF) & _DIFFERENCES) - _HALF


@compiled()
def _entry(table, place):  # type: ignore[no-untyped-def]
    """Entry `place` of the look-up table of ROWS; its bytes are in the last PLANES tables of `table` int8 (depth, 256),
    the lowest byte first.
    """
    entry = np.int64(0)
    for plane in range(PLANES):
        entry |= (np.int64(table[len(table) - PLANES + plane, place]) & 255) << (8 * plane)
    return entry


@compiled()
def _signed_value(bits):  # type: ignore[no-untyped-def]
    return np.int64(bits) << (64 - VALUE_BITS) >> (64 - VALUE_BITS)


@compiled()
def _root(value):  # type: ignore[no-untyped-def]
    """The integer square root, rounded down, of a value below 2^52."""
    root = np.int64(np.sqrt(np.float64(value)))
    while root * root > value:
        root -= 1
    while (root + 1) * (root + 1) <= value:
        root += 1
    return root


@compiled()
def _factor(total, root):  # type: ignore[no-untyped-def]
    """The packed factor that ROWS computes from a row's sum `total`: 1 / sqrt(total) if `root` (for normalizations,
    `isa.rows.reciprocal_root`), else 1 / total (for softmax, `isa.rows.reciprocal`).
    """
    total, places = max(total, np.int64(1)), np.int64(0)
    step = 2 if root else 1
    while total << step < np.int64(1) << TOTAL_BITS:
        total <<= step
        places += step
    quotient = (np.int64(1) << QUOTIENT_SHIFT) // (total >> _MANTISSA_PLACE)
    if root:
        return min(_root(quotient), _LARGEST) | (TOTAL_BITS - places) // 2 << FACTOR_BITS
    return min(quotient >> 16, _LARGEST) | (TOTAL_BITS - places) << FACTOR_BITS


@compiled()
def _elements(register, is_last, lanes):  # type: ignore[no-untyped-def]
    """Number of lanes of a vector that hold elements of the row to be reduced. It is `lanes`, the number of all lanes,
    except if the vector is the last one of its row (`is_last`) and `register`, the value of register ROWS, sets a
    smaller number.
    """
    wanted = register >> 53 & 0xFF
    return min(wanted, lanes) if is_last and wanted > 0 else lanes


@compiled()
def share_rows(reduced, x, is_last, here, table, entries):  # type: ignore[no-untyped-def]
    """Replaces the lanes of the vector `reduced`, int32 (batch, block_out), by softmax shares or normalized elements.
    `x`: number of the vector's row, from 0 in the instruction. `is_last`: it is the last vector of its row. `entries`:
    the row scratchpad: a row's factor, and its maximum (softmax) or sum (normalizations).

    In a softmax, a lane becomes the `table` entry for its difference from the maximum, times the factor. In a
    normalization, it becomes its difference from the mean (without field `centre`: from the zero point), times the
    row's length and the factor. Lanes that do not belong to the row become 0. `here`: values of the unit's
    configuration registers.
    """
    register = here[6]
    elements = _elements(register, is_last, reduced.shape[1])
    entry = entries[(register & 0xFF) + x]
    factor, shift, value = (
        np.int64(entry[0]) & _LARGEST,
        np.int64(entry[0]) >> FACTOR_BITS,
        _signed_value(entry[1]),
    )
    zero_point, length = register << 46 >> 56, register >> 18 & 0x3FFF
    for b in range(reduced.shape[0]):
        for j in range(reduced.shape[1]):
            if register >> 8 & 1:
                w = _entry(table, _difference(np.int64(reduced[b, j]), value) & 255)
            else:
                w = length * _difference(np.int64(reduced[b, j]), zero_point)
                w -= value if register >> 9 & 1 else 0
            product = w * factor * 2 >> shift if j < elements else np.int64(0)
            reduced[b, j] = np.int32((product >> 1) + (product & 1))


@compiled()
def count_rows(row, here, acc, scratch, table, entries):  # type: ignore[no-untyped-def]
    """Executes ROWS: updates in `entries` uint32 (row_depth, 2) each row's packed factor and its value (softmax: the
    maximum; normalizations: the sum of differences) from the accumulators `acc` and the look-up tables `table`. Returns
    DONE, or OUTSIDE if accumulators or entries do not exist or a row is too long. `scratch`: a temporary vector, int32
    (batch, block_out). `row`: the decoded instruction; `here`: values of its unit's configuration registers.
    """
    if row[X_SIZE] == 0 or row[Y_SIZE] == 0:
        return DONE
    y_stride, x_stride, register = here[0] & 0xFFFF, here[0] >> 16 & 0xFFFF, here[6]
    first = register & 0xFF
    if row[Y_SIZE] * acc.shape[2] > MOST_ELEMENTS or first + row[X_SIZE] > len(entries):
        return OUTSIDE
    if row[SRAM_BASE] + (row[Y_SIZE] - 1) * y_stride + (row[X_SIZE] - 1) * x_stride >= len(acc):
        return OUTSIDE
    zero_point, length, looks_up = register << 46 >> 56, register >> 18 & 0x3FFF, register >> 8 & 1
    epsilon = (register >> 32 & 0xFFFF) << (register >> 48 & 31)
    for x in range(row[X_SIZE]):
        entry = entries[first + x]
        largest, total, squares = np.int64(-_HALF), np.int64(0), np.int64(0)
        value = _signed_value(entry[1])
        for y in range(row[Y_SIZE]):
            reduce_window(acc, row[SRAM_BASE] + y * y_stride + x * x_stride, here, scratch)
            for j in range(_elements(register, y == row[Y_SIZE] - 1, scratch.shape[1])):
                element = np.int64(scratch[0, j])
                if row[MAXIMUM]:
                    largest = max(largest, _difference(element, 0))
                elif looks_up:
                    total += _entry(table, _difference(element, value) & 255)
                else:
                    d = _difference(element, zero_point)
                    total += d
                    squares += d * d
        if row[MAXIMUM]:
            entry[1] = largest & _VALUES
        elif looks_up:
            entry[0] = _factor(total, False)
        else:
            radicand = length * squares - (total * total if register >> 9 & 1 else 0) + epsilon
            entry[0] = _factor(radicand, True)
            entry[1] = total & _VALUES
    return DONE

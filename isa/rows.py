"""The integer arithmetic of the extension `rows` (softmax and normalizations), for reference, simulator, RTL and
compiler: reductions of rows (instruction ROWS), and scaling by the results (STORE.POST with the flag `rows`).

A row is a sequence of up to MOST_ELEMENTS numbers: the lanes of the `y_size` accumulator vectors that an instruction
reads at one value of x. The row may fill the last of these vectors only in part, its first `lanes` lanes
(`elements_of_last`); results for the other lanes are 0. For each number a the machine computes an element: the 9-bit
difference d = a - c from a constant c, or entry d mod 256 of a table of 256 entries. For each row it stores a *value*
(the largest number, or the sum of all d) and a *factor* (1 / sum of table entries, or 1 / square root of the sum of
squares), in one of `row_entries` entries. The factor scales a number w:

    apply(w, factor) = round(w * factor), FRACTION_BITS binary places kept

Results are int32: shares of a sum (softmax) or normalized elements (layer and RMS normalization). With n elements

    softmax:        table[(a - max) mod 256] / sum over the row                        w = entry of the table
    normalization:  (n*d - sum d) / sqrt(n * sum d^2 - (sum d)^2 + epsilon)            w = n*d - sum d
    without mean:   n*d / sqrt(n * sum d^2 + epsilon)                                  w = n*d

where numerators and radicands are exact. A factor has 17 bits, rounded down: relative errors are below 2^-15.9.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_ELEMENTS = 8192
"""Largest number of elements of a row, so that no sum overflows."""

DIFFERENCE_BITS = 9
LENGTH_BITS = 14
ENTRY_BITS = 24
"""Width in bits of an entry of the table for ROWS, unsigned. It is stored in PLANES tables of 256 bytes, the lowest
bytes first.
"""
PLANES = 3

VALUE_BITS = 24
"""Width in bits of a row's value, signed."""
SUM_BITS = 37
"""Width in bits of a sum of table entries or of squares."""
FACTOR_BITS = 17
SHIFT_BITS = 6
FRACTION_BITS = 16
"""Number of fraction bits of the results of `apply`."""

TOTAL_BITS = 48
"""Width in bits of a sum over a row; the sum's reciprocal, or reciprocal square root, is the row's factor."""
MANTISSA_BITS = 24
QUOTIENT_SHIFT = 56
"""Shift in the reciprocal of a mantissa: floor(2^QUOTIENT_SHIFT / mantissa)."""

MAXIMUM, SUMS = 1, 0

Int64Array = NDArray[np.int64]


def elements_of_last(lanes: int, block_out: int) -> int:
    """Number of lanes in a row's last vector that belong to the row: `lanes` (a field of register ROWS), or all
    block_out lanes if this field is 0.
    """
    return min(lanes or block_out, block_out)


def difference(x: Int64Array | int, c: int) -> Any:
    """x - c, wrapped to DIFFERENCE_BITS bits, two's complement."""
    half = 1 << (DIFFERENCE_BITS - 1)
    return ((x - c + half) & (2 * half - 1)) - half


def normalized(total: int, even: bool) -> tuple[int, int]:
    """Normalizes an integer to (mantissa, places): max(total, 1) is shifted left by `places`, the largest number (the
    largest even one if `even`) for which the result fits in TOTAL_BITS bits; the mantissa is the result's upper
    MANTISSA_BITS bits.
    """
    total = max(total, 1)
    places = TOTAL_BITS - total.bit_length()
    if even:
        places -= places & 1
    return (total << places) >> (TOTAL_BITS - MANTISSA_BITS), places


def _packed(factor: int, shift: int) -> int:
    return min(factor, (1 << FACTOR_BITS) - 1) | shift << FACTOR_BITS


def reciprocal(total: int) -> int:
    """Returns the factor for a softmax row whose table entries have the sum `total`: multiplying w by it (`apply`)
    gives w * 2^FRACTION_BITS / total. A factor is a mantissa and a shift, packed.
    """
    mantissa, places = normalized(total, False)
    return _packed((1 << QUOTIENT_SHIFT) // mantissa >> 16, TOTAL_BITS - places)


def reciprocal_root(total: int) -> int:
    """Returns the factor for a normalized row: multiplying w by it (`apply`) gives w * 2^FRACTION_BITS / sqrt(total). A
    factor is a mantissa and a shift, packed. `total`: result of `radicand`.
    """
    mantissa, places = normalized(total, True)
    return _packed(isqrt((1 << QUOTIENT_SHIFT) // mantissa), (TOTAL_BITS - places) // 2)


def radicand(length: int, squares: int, total: int, centre: bool, epsilon: int) -> int:
    """The number under the root in a normalization, whose factor is 1 / sqrt(radicand): length * squares - total^2 +
    epsilon, at least 0; without total^2 if not `centre`. `length`: number of elements in the row. `squares`, `total`:
    sums over the row of the squares and of the elements, relative to the zero point.
    """
    return max(0, length * squares - (total * total if centre else 0) + epsilon)


def apply(w: Int64Array, factor: int) -> NDArray[np.int32]:
    """Multiplies `w` (25 bits, signed) by `factor`, a mantissa and a shift packed in one number. The product with the
    mantissa is shifted right by the shift and rounded half up, and its low 32 bits are returned.
    """
    product = np.asarray(w, np.int64) * (factor & ((1 << FACTOR_BITS) - 1)) * 2
    shifted = product >> np.int64(factor >> FACTOR_BITS)
    return ((shifted >> 1) + (shifted & 1)).astype(np.int32)


def signed_value(bits: int) -> int:
    """The signed integer in the low VALUE_BITS bits of `bits`, a row's value."""
    half = 1 << (VALUE_BITS - 1)
    return ((bits + half) & (2 * half - 1)) - half


def exponentials(scale: float) -> Int64Array:
    """The table for ROWS, int64 (256,), for softmax of elements with quantization scale `scale`: entry d mod 256 is
    (2^ENTRY_BITS - 1) exp(scale * d), rounded, for d in -255..0.
    """
    entries = np.rint(((1 << ENTRY_BITS) - 1) * np.exp(-float(scale) * np.arange(256, dtype=np.float64)))
    return np.roll(entries[::-1], 1).astype(np.int64)


def planes_of(entries: Int64Array) -> NDArray[np.int8]:
    """The bytes of a table for ROWS, `entries` int64 (256,), as int8 (PLANES, 256), the lowest bytes first."""
    planes = [(entries >> (8 * plane) & 255).astype(np.uint8) for plane in range(PLANES)]
    return np.stack(planes).view(np.int8)


def softmax_shares(rows: NDArray[Any], entries: Int64Array) -> NDArray[np.int32]:
    """Computes the softmax of each of the int8 `rows` (number of rows, elements) with the arithmetic of the machines;
    returns int32 of the same shape, with FRACTION_BITS fraction bits. `entries`: the look-up table for ROWS, as
    `exponentials` makes it.
    """
    x = rows.astype(np.int64)
    w = entries[difference(x, 0) - x.max(axis=1, keepdims=True) & 255]
    return np.stack([apply(own, reciprocal(int(own.sum()))) for own in w])


def normalized_shares(rows: NDArray[Any], zero_point: int, centre: bool, epsilon: int) -> NDArray[np.int32]:
    """Normalizes int8 `rows` (number of rows, n elements) with the arithmetic of the machines; returns int32 of the
    same shape, with FRACTION_BITS fraction bits. `zero_point`: zero point of the elements. `centre`: whether the mean
    of a row is subtracted. `epsilon`: number added below the square root (see `radicand`).
    """
    d = difference(rows.astype(np.int64), zero_point)
    n = d.shape[1]
    total, squares = d.sum(axis=1), (d * d).sum(axis=1)
    w = n * d - (total[:, None] if centre else 0)
    return np.stack(
        [
            apply(own, reciprocal_root(radicand(n, int(second), int(first), centre, epsilon)))
            for own, first, second in zip(w, total, squares, strict=True)
        ]
    )

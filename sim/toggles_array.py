"""Counts the bits that toggle in the array from one operation to the next: operands, products and sums."""

from __future__ import annotations

import numpy as np

from vdla.util.machine_code import compiled

ARRAY_MEASURED = (
    "inputs", "weights", "chosen", "digits", "partial_products", "carries", "products", "sums",
)  # fmt: skip
"""Counters of toggled bits in the array. In this order they count: input vectors; weight tiles; the row that DEPTHWISE
would select from a tile; the weights' radix-4 Booth digits; the partial products of a digit and an input; the
carry-save sums of partial products; the products; the sums in the adder trees.
"""

INPUTS, _WEIGHTS, CHOSEN, _DIGITS, _PARTIAL, _CARRIES, _PRODUCTS, _SUMS = range(8)

SUM_BITS = 24
"""Number of low bits of a sum that are compared; the bits above them repeat the sign."""


@compiled()
def ones(value):  # type: ignore[no-untyped-def]
    """Number of ones among the low 32 bits of `value`."""
    x = np.uint32(value & 0xFFFFFFFF)
    x = x - ((x >> np.uint32(1)) & np.uint32(0x55555555))
    x = (x & np.uint32(0x33333333)) + ((x >> np.uint32(2)) & np.uint32(0x33333333))
    x = (x + (x >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return np.int64((x * np.uint32(0x01010101)) >> np.uint32(24) & np.uint32(0xFF))


@compiled()
def tree_size(block_in, folds):  # type: ignore[no-untyped-def]
    """Number of values in the adder tree of an array row: its `block_in` products and the sums of all levels. A level
    has half as many sums as the level before, but at least `folds`, the number of output lanes of an array row.
    """
    size, pairs = block_in, block_in // 2
    while pairs > 0:
        size += max(pairs, folds)
        pairs //= 2
    return size


@compiled()
def fill_tree(vector, tile, alone, shift, lanes, groups, tree):  # type: ignore[no-untyped-def]
    """Computes all values in the adder trees of the array for one operation: fills `tree` [batch, row, value] with the
    products of `vector` and `tile`, then with the sums of each level. `groups`: number of groups of products in a row
    whose sums stay separate.

    With `alone` (DEPTHWISE), output lane j of the `lanes` lanes gets only the product of element j + `shift`. An array
    row serves every lane whose number, modulo the number of rows, is the row's number; the tree adds only the products
    of these lanes.
    """
    columns, block_in = tile.shape
    folds = lanes // columns
    for b in range(len(vector)):
        for o in range(columns):
            line = tree[b, o]
            for k in range(block_in):
                line[k] = np.int64(vector[b, k]) * np.int64(tile[o, k])
            start, width, pairs = 0, block_in, block_in // 2
            while pairs > 0:
                for k in range(max(pairs, folds)):
                    if pairs < groups:
                        line[start + width + k] = line[start + k]
                        continue
                    at = 2 * (k % pairs)
                    left, right = line[start + at], line[start + at + 1]
                    if alone and start == 0:
                        left *= 0 <= at - shift < lanes and (at - shift) % columns == o
                        right *= 0 <= at + 1 - shift < lanes and (at + 1 - shift) % columns == o
                    line[start + width + k] = left + right
                start += width
                width = max(pairs, folds)
                pairs //= 2


@compiled()
def booth_row(x, y, digit, width):  # type: ignore[no-untyped-def]
    """Partial product of a Booth multiplier: radix-4 digit number `digit` of `y` (-2 .. 2) times `x`, in `width` bits.
    A negative multiple is the ones' complement, to which the multiplier adds 1.
    """
    three = (y << 1) >> (2 * digit) & 7
    row = np.int64(0)
    if three == 1 or three == 2 or three == 5 or three == 6:
        row = x
    elif three == 3 or three == 4:
        row = x << 1
    if three & 4:
        row = ~row
    return row & ((1 << width) - 1)


@compiled()
def booth_changes(x, y, last_x, last_y, digits, width):  # type: ignore[no-untyped-def]
    """Number of bits that differ between the partial products of x * y and of last_x * last_y: `digits` partial
    products of `width` bits each.
    """
    found = 0
    for digit in range(digits):
        found += ones(booth_row(x, y, digit, width) ^ booth_row(last_x, last_y, digit, width))
    return found


@compiled()
def _compare_products(x, y, last_x, last_y, totals):  # type: ignore[no-untyped-def]
    """Adds to `totals` the bits that differ between the products x * y and last_x * last_y of 8-bit numbers: bits of
    partial products and of their carry-save sums.
    """
    if x == last_x and y == last_y:
        return
    save, carry, last_save, last_carry = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for digit in range(4):
        row, last = booth_row(x, y, digit, 9), booth_row(last_x, last_y, digit, 9)
        totals[_PARTIAL] += ones(row ^ last)
        # The sign bit is inverted; a constant compensates for the inversion.
        row, last = (row ^ 0x100) << (2 * digit), (last ^ 0x100) << (2 * digit)
        if digit:
            save, carry = save ^ carry ^ row, (save & carry | save & row | carry & row) << 1
            last_save, last_carry = (
                last_save ^ last_carry ^ last,
                (last_save & last_carry | last_save & last | last_carry & last) << 1,
            )
            totals[_CARRIES] += ones((save ^ last_save) & 0xFFFF) + ones((carry ^ last_carry) & 0xFFFF)
        else:
            save, last_save = row, last


@compiled()
def compare(vector, tile, before_vector, before_tile, now, before, totals):  # type: ignore[no-untyped-def]
    """Counts the bits that differ between two consecutive operations of the array, and adds them to `totals`. The later
    operation has inputs `vector`, weights `tile`, and products and sums `now`, as `fill_tree` computes them. The
    earlier one has `before_vector`, `before_tile` and `before`.
    """
    columns, block_in = tile.shape
    for o in range(columns):
        for k in range(block_in):
            new, old = np.int64(tile[o, k]), np.int64(before_tile[o, k])
            totals[_WEIGHTS] += ones((new ^ old) & 0xFF)
            totals[_DIGITS] += ones((new ^ new >> 1 ^ old ^ old >> 1) & 0xFF) + ones((new ^ old) & 0xAA)
            for b in range(len(vector)):
                value, last = np.int64(vector[b, k]), np.int64(before_vector[b, k])
                _compare_products(value, new, last, old, totals)
    for b in range(len(vector)):
        for o in range(columns):
            for k in range(block_in):
                totals[_PRODUCTS] += ones((now[b, o, k] ^ before[b, o, k]) & 0xFFFF)
            for k in range(block_in, now.shape[2]):
                totals[_SUMS] += ones((now[b, o, k] ^ before[b, o, k]) & ((1 << SUM_BITS) - 1))

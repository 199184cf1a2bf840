"""Bits that change in the compute unit from one operation to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from vdla.isa.alu import AluOpcode
from vdla.isa.extensions import TAPS as POSITIONS
from vdla.util.machine_code import compiled

from .alu import CODES, operate
from .compute import hold, micro_op, sweep_rows, zero_points
from .state import (
    ALU,
    ALU_OPCODE,
    DEPTHWISE,
    DST_IN,
    DST_OUT,
    IMM,
    ITER_IN,
    ITER_OUT,
    KIND,
    OVERWRITE,
    RESET,
    SRAM_BASE,
    SRC_IN,
    SRC_OUT,
    TAPS,
    UOP_BGN,
    UOP_END,
    USE_IMM,
    WGT_IN,
    WGT_OUT,
    X_PAD_0,
    X_PAD_1,
    X_SIZE,
    Y_PAD_0,
    Y_PAD_1,
    Y_SIZE,
)

COMPUTE_MEASURED = (
    "inputs", "weights", "chosen", "digits", "partial_products", "carries", "products", "sums", "results", "reads",
    "seen", "rights", "drained", "shifted", "multiplied", "micro_ops", "places", "loaded", "loaded_lanes",
)  # fmt: skip
"""Of the array: bits that change of input vectors, of weight tiles, of the row of a tile that DEPTHWISE would take,
of the weights' digits (radix 4, as Booth's multipliers have them), of digits times inputs, of the carry-save sums of
these, of products, of sums in the adder trees. Of the lanes: of results, of accumulators as a bank reads them, of
those that the store unit's port shows as well, of the second operand of ALU operations; ones of the first and last
result of an instruction; of shifts the operands and results, of multiplications the digits times operand. Of micro-
ops, and of the addresses that follow from them. Of accumulators that loads write, and their lanes."""

(
    _INPUTS, _WEIGHTS, _CHOSEN, _DIGITS, _PARTIAL, _CARRIES, _PRODUCTS, _SUMS, _RESULTS, _READS, _SEEN, _RIGHTS,
    _DRAINED, _SHIFTED, _MULTIPLIED, _UOPS, _PLACES, _LOADED, _LANES,
) = range(19)  # fmt: skip

NO_IMMEDIATE = 1 << 40
SUM_BITS = 24
"""Bits of a sum that are looked at; longer ones repeat their sign."""


_SHR, _MUL = int(AluOpcode.SHR), int(AluOpcode.MUL)


class ComputeState(NamedTuple):
    """What registers held last: an input vector, a tile, a row of it, trees (products, then every level) of two
    operations, the result, the read of each bank, an ALU operation's second operand, a shift's first and a product's
    two, a load's vector; micro-op and addresses, and behind them the depth of a bank."""

    vector: NDArray[np.int64]
    tile: NDArray[np.int64]
    chosen: NDArray[np.int64]
    trees: NDArray[np.int64]
    result: NDArray[np.int64]
    banks: NDArray[np.int64]
    right: NDArray[np.int64]
    slow: NDArray[np.int64]
    loaded: NDArray[np.int64]
    places: NDArray[np.int64]


@compiled()
def ones(value):  # type: ignore[no-untyped-def]
    """Ones among the low 32 bits."""
    x = np.uint32(value & 0xFFFFFFFF)
    x = x - ((x >> np.uint32(1)) & np.uint32(0x55555555))
    x = (x & np.uint32(0x33333333)) + ((x >> np.uint32(2)) & np.uint32(0x33333333))
    x = (x + (x >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return np.int64((x * np.uint32(0x01010101)) >> np.uint32(24) & np.uint32(0xFF))


@compiled()
def start_compute(pads, bank_depth):  # type: ignore[no-untyped-def]
    """All registers 0."""
    batch, block_in, block_out = pads.inp.shape[1], pads.inp.shape[2], pads.wgt.shape[1]
    lanes = batch * block_out
    banks = (len(pads.acc) + bank_depth - 1) // bank_depth
    return ComputeState(
        np.zeros((batch, block_in), np.int64),
        np.zeros((block_out, block_in), np.int64),
        np.zeros(block_in, np.int64),
        np.zeros((2, batch, block_out, 2 * block_in), np.int64),
        np.zeros(lanes, np.int64),
        np.zeros((banks + 1, lanes), np.int64),
        np.zeros(lanes, np.int64),
        np.zeros((3, lanes), np.int64),
        np.zeros(lanes, np.int64),
        np.array([0, 0, 0, 0, bank_depth], np.int64),
    )


@compiled()
def _chosen(number, share, seed):  # type: ignore[no-untyped-def]
    """Whether operation `number` is among those looked at: a hash of it is below the share."""
    if share >= 1:
        return True
    x = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((x ^ (x >> np.uint64(31))) >> np.uint64(11)) < share * 9007199254740992.0


@compiled()
def read_bank(vector, bank, state, shown, totals, reads, seen):  # type: ignore[no-untyped-def]
    """A read of an accumulator `vector`: bits that change behind the bank, and at the store unit's port."""
    found = 0
    held = state.banks[bank]
    for k in range(len(held)):
        value = np.int64(vector[k])
        found += ones(value ^ held[k])
        held[k] = value
    if reads >= 0:
        totals[reads] += found
    if bank == shown:
        totals[seen] += found


@compiled()
def observe_loaded(row, acc, state, totals):  # type: ignore[no-untyped-def]
    """Accumulators that a load has just written."""
    rows, columns = row[Y_PAD_0] + row[Y_SIZE] + row[Y_PAD_1], row[X_PAD_0] + row[X_SIZE] + row[X_PAD_1]
    if row[X_SIZE] == 0:
        return
    lanes = acc.shape[1] * acc.shape[2]
    flat, last = acc.reshape(-1, lanes), state.loaded
    for vector in range(row[SRAM_BASE], row[SRAM_BASE] + rows * columns):
        totals[_LANES] += lanes
        for k in range(lanes):
            value = np.int64(flat[vector, k])
            totals[_LOADED] += ones(value ^ last[k])
            last[k] = value


@compiled()
def _tree(vector, tile, alone, shift, tree):  # type: ignore[no-untyped-def]
    """Products, and every level of sums; with `alone` the sums of row o take its own product only, of element o +
    `shift`."""
    block_out, block_in = tile.shape
    for b in range(len(vector)):
        for o in range(block_out):
            line = tree[b, o]
            for k in range(block_in):
                line[k] = np.int64(vector[b, k]) * np.int64(tile[o, k])
            start, width = 0, block_in
            while width > 1:
                for k in range(width // 2):
                    left, right = line[start + 2 * k], line[start + 2 * k + 1]
                    if alone and start == 0:
                        left, right = left * (2 * k == o + shift), right * (2 * k + 1 == o + shift)
                    line[start + width + k] = left + right
                start += width
                width //= 2


@compiled()
def booth_row(x, y, digit, width):  # type: ignore[no-untyped-def]
    """Digit number `digit` of `y` in radix 4 (-2 .. 2) times `x`, `width` bits; negative ones as complements, which a
    carry completes."""
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
    """Bits that change of all rows of a product."""
    found = 0
    for digit in range(digits):
        found += ones(booth_row(x, y, digit, width) ^ booth_row(last_x, last_y, digit, width))
    return found


@compiled()
def _compare_products(x, y, last_x, last_y, totals):  # type: ignore[no-untyped-def]
    """Rows of an 8-bit product and how they are added, now and before."""
    if x == last_x and y == last_y:
        return
    save, carry, last_save, last_carry = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for digit in range(4):
        row, last = booth_row(x, y, digit, 9), booth_row(last_x, last_y, digit, 9)
        totals[_PARTIAL] += ones(row ^ last)
        # The sign's bit is inverted, and a constant makes up for it.
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
def _look(vector, tile, before_vector, before_tile, now, before, totals):  # type: ignore[no-untyped-def]
    """Compares two operations of the array, whose trees are filled."""
    block_out, block_in = tile.shape
    size = 2 * block_in - 1
    for o in range(block_out):
        for k in range(block_in):
            new, old = np.int64(tile[o, k]), np.int64(before_tile[o, k])
            totals[_WEIGHTS] += ones((new ^ old) & 0xFF)
            totals[_DIGITS] += ones((new ^ new >> 1 ^ old ^ old >> 1) & 0xFF) + ones((new ^ old) & 0xAA)
            for b in range(len(vector)):
                value, last = np.int64(vector[b, k]), np.int64(before_vector[b, k])
                _compare_products(value, new, last, old, totals)
    for b in range(len(vector)):
        for o in range(block_out):
            for k in range(block_in):
                totals[_PRODUCTS] += ones((now[b, o, k] ^ before[b, o, k]) & 0xFFFF)
            for k in range(block_in, size):
                totals[_SUMS] += ones((now[b, o, k] ^ before[b, o, k]) & ((1 << SUM_BITS) - 1))


@compiled()
def _lanes_row(tile, number, part):  # type: ignore[no-untyped-def]
    """Row `number` of a tile as sweeps count them, where the row of DEPTHWISE would have it for lanes of `part`."""
    narrow = min(tile.shape[0], tile.shape[1])
    row = np.zeros(tile.shape[1], np.int8)
    flat = tile.reshape(-1, narrow)
    for j in range(narrow):
        row[part * narrow + j] = flat[number, j]
    return row


@compiled()
def observe_immediate(immediate, state, totals):  # type: ignore[no-untyped-def]
    """The lanes take the bits of any instruction of the unit that stand where an ALU instruction has its immediate, if
    the bit is set that says so there."""
    if immediate == NO_IMMEDIATE:
        return
    for k in range(len(state.right)):
        totals[_RIGHTS] += ones(immediate ^ state.right[k])
        state.right[k] = immediate


@compiled()
def observe_operations(  # type: ignore[no-untyped-def]
    row, here, widths, pads, state, shown, share, counts, totals
):
    """Executes GEMM, DEPTHWISE, TAPS or ALU operation by operation; -1 if one reaches outside a scratchpad.

    The array's part of a TAPS counts as that of as many DEPTHWISE one after the other, as if it had their multipliers;
    so does that of a sweep, whose older positions are no input vectors that change. What the array holds is looked at
    without the zero points of register ZERO.
    """
    if row[KIND] == ALU:
        return _observe_alu(row, here, widths, pads, state, shown, totals)
    uop, inp, wgt, acc = pads.uop, pads.inputs, pads.wgt, pads.acc
    batch, block_in, block_out = inp.shape[1], inp.shape[2], wgt.shape[1]
    lanes = batch * block_out
    depthwise = row[KIND] == DEPTHWISE or row[KIND] == TAPS
    taps = POSITIONS if row[KIND] == TAPS else 1
    sweeps = row[KIND] == TAPS and here[3] & 1 == 1
    swept = pads.swept
    rows = len(swept) if sweeps else 1
    vector = np.zeros((batch, block_in), np.int16)
    # Of as many weights as the shorter vector has; a position is several inputs, or lanes are a part of one.
    narrow = min(block_in, block_out)
    rows_a_tile = max(block_in, block_out) if depthwise else 1
    inputs = block_out // narrow if depthwise else 1
    parts = block_in // narrow if depthwise else 1
    acc_base, inp_base = here[0] & 0xFFFF, here[0] >> 16 & 0xFFFF
    wgt_base = (here[0] >> 32 & 0xFFFF) * rows_a_tile
    inp_zero, wgt_zero = zero_points(here)
    if row[UOP_END] > len(uop):
        return -1
    flat = acc.reshape(-1, lanes)
    tile = np.empty((block_out, block_in), np.int64)
    sums = np.empty(lanes, np.int64)
    bank_depth = state.places[4]
    # Which of the two trees is that of the operation before, if it was looked at or kept.
    tree, filled = 0, False
    first = True
    for y in range(row[ITER_OUT]):
        for x in range(row[ITER_IN]):
            for u in range(row[UOP_BGN], row[UOP_END]):
                word = np.int64(uop[u])
                dst, src, weights = micro_op(word, widths)
                d = acc_base + dst + y * row[DST_OUT] + x * row[DST_IN]
                s = inp_base + src + y * row[SRC_OUT] + x * row[SRC_IN]
                w = wgt_base + weights + y * row[WGT_OUT] + x * row[WGT_IN]
                if d >= len(acc):
                    return -1
                _place(word, d, s, w, state.places, totals)
                if row[RESET]:
                    sums[:] = 0
                else:
                    part, group = w % parts, sweep_rows(swept, wgt) if sweeps else taps * inputs * parts
                    holds = sweeps and w % group >= group // 2
                    s, w = s - s % inputs, w - w % group
                    if s + taps * inputs - 1 >= len(inp) or w >= len(wgt) * rows_a_tile:
                        return -1
                    if sweeps:
                        hold(swept, inp, (s, part), inp_zero)
                    sums[:] = 0
                    for number_of_row in range(rows * taps * inputs):
                        t = number_of_row % (taps * inputs)
                        number = counts[0]
                        counts[0] += 1
                        to = t % inputs * narrow
                        shift = part * narrow - to
                        if sweeps:
                            row_of_tile = _lanes_row(
                                wgt[w // rows_a_tile], w % rows_a_tile + number_of_row, part
                            )
                        else:
                            row_of_tile = wgt[w // rows_a_tile, (w // parts + t) % block_out]
                        for o in range(block_out):
                            for k in range(block_in):
                                tile[o, k] = wgt[w // rows_a_tile, o, k]
                        for k in range(block_in):
                            totals[_CHOSEN] += ones((np.int64(row_of_tile[k]) ^ state.chosen[k]) & 0xFF)
                            state.chosen[k] = row_of_tile[k]
                        if depthwise:
                            for o in range(to, to + narrow):
                                tile[o, o + shift] = row_of_tile[o + shift]
                        newest = number_of_row >= (rows - 1) * taps * inputs
                        for b in range(batch):
                            for k in range(block_in):
                                vector[b, k] = inp[s + t, b, k]
                                if not newest:
                                    held = swept[number_of_row // (taps * inputs), t // inputs, b]
                                    vector[b, k] = held[(k - shift) % block_out] + inp_zero
                                else:
                                    totals[_INPUTS] += ones((vector[b, k] ^ state.vector[b, k]) & 0xFF)
                        if _chosen(number, share, counts[2]):
                            counts[1] += 1
                            if not filled:
                                _tree(state.vector, state.tile, depthwise, shift, state.trees[tree])
                            _tree(vector, tile, depthwise, shift, state.trees[1 - tree])
                            _look(
                                vector,
                                tile,
                                state.vector,
                                state.tile,
                                state.trees[1 - tree],
                                state.trees[tree],
                                totals,
                            )
                            tree, filled = 1 - tree, True
                        else:
                            filled = False
                        for b in range(batch):
                            for o in range(block_out):
                                total = np.int64(0)
                                own = o + shift
                                if depthwise and to <= o < to + narrow:
                                    total = (np.int64(vector[b, own]) - inp_zero) * (tile[o, own] - wgt_zero)
                                elif not depthwise:
                                    for k in range(block_in):
                                        total += (np.int64(vector[b, k]) - inp_zero) * (tile[o, k] - wgt_zero)
                                sums[b * block_out + o] += total
                        for b in range(batch):
                            for k in range(block_in):
                                state.vector[b, k] = vector[b, k]
                        state.tile[:] = tile
                    if holds:
                        continue
                    if not row[OVERWRITE]:
                        read_bank(flat[d], d // bank_depth, state, shown, totals, _READS, _SEEN)
                        for k in range(lanes):
                            sums[k] += flat[d, k]
                for k in range(lanes):
                    value = np.int64(np.int32(sums[k]))
                    totals[_RESULTS] += ones(value ^ state.result[k])
                    if first:
                        totals[_DRAINED] += ones(value) + ones(state.result[k])
                    state.result[k] = value
                    flat[d, k] = value
                first = False
    if filled and tree == 1:
        state.trees[0] = state.trees[1]
    return 0


@compiled()
def _place(word, d, s, w, places, totals):  # type: ignore[no-untyped-def]
    """A micro-op and its addresses."""
    totals[_UOPS] += ones(word ^ places[0]) + ones((word ^ places[0]) >> 32)
    totals[_PLACES] += ones(d ^ places[1]) + ones(s ^ places[2]) + ones(w ^ places[3])
    places[0], places[1], places[2], places[3] = word, d, s, w


@compiled()
def _observe_alu(row, here, widths, pads, state, shown, totals):  # type: ignore[no-untyped-def]
    """Executes an ALU instruction."""
    uop, acc = pads.uop, pads.acc
    lanes = acc.shape[1] * acc.shape[2]
    flat = acc.reshape(-1, lanes)
    base, bank_depth = here[0] & 0xFFFF, state.places[4]
    if row[ALU_OPCODE] >= CODES or row[UOP_END] > len(uop):
        return -1
    first, slow = True, row[ALU_OPCODE] == _SHR or row[ALU_OPCODE] == _MUL
    for y in range(row[ITER_OUT]):
        for x in range(row[ITER_IN]):
            for u in range(row[UOP_BGN], row[UOP_END]):
                word = np.int64(uop[u])
                dst, src, _ = micro_op(word, widths)
                d = base + dst + y * row[DST_OUT] + x * row[DST_IN]
                s = base + src + y * row[SRC_OUT] + x * row[SRC_IN]
                if d >= len(acc) or (row[USE_IMM] == 0 and s >= len(acc)):
                    return -1
                _place(word, d, s, np.int64(0), state.places, totals)
                if row[USE_IMM] == 0:
                    read_bank(flat[s], s // bank_depth, state, shown, totals, _READS, _SEEN)
                read_bank(flat[d], d // bank_depth, state, shown, totals, _READS, _SEEN)
                for k in range(lanes):
                    before = state.right[k]
                    right = row[IMM] if row[USE_IMM] else np.int64(flat[s, k])
                    left = np.int64(flat[d, k])
                    totals[_RIGHTS] += ones(right ^ before)
                    state.right[k] = right
                    if row[USE_IMM] == 0 and not slow:
                        # In the cycle of its source a lane combines that with the operand of the operation before.
                        passing = np.int64(np.int32(operate(row[ALU_OPCODE], np.int64(flat[s, k]), before)))
                        totals[_RESULTS] += ones(passing ^ state.result[k])
                        state.result[k] = passing
                    value = np.int64(np.int32(operate(row[ALU_OPCODE], left, right)))
                    changed = ones(value ^ state.result[k])
                    totals[_RESULTS] += changed
                    if slow:
                        moved = ones(left ^ state.slow[0, k])
                        if row[ALU_OPCODE] == _SHR:
                            totals[_SHIFTED] += moved + changed
                        else:
                            _multiply(left & 0xFFFF, right & 0xFFFF, k, state.slow, totals)
                            _multiply(left & 0xFFFF, right >> 16 & 0xFFFF, k, state.slow, totals)
                            _multiply(left >> 16 & 0xFFFF, right & 0xFFFF, k, state.slow, totals)
                        state.slow[0, k] = left
                    if first:
                        totals[_DRAINED] += ones(value) + ones(state.result[k])
                    state.result[k] = value
                    flat[d, k] = value
                first = False
    return 0


@compiled()
def _multiply(left, right, k, slow, totals):  # type: ignore[no-untyped-def]
    """One of the three products of a MUL."""
    totals[_MULTIPLIED] += booth_changes(left, right, slow[1, k], slow[2, k], 9, 18)
    slow[1, k], slow[2, k] = left, right

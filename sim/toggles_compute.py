"""Counts the bits that toggle in the compute unit from one operation to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.isa.alu import AluOpcode
from vdla.util.machine_code import compiled

from .alu import is_operation, operate
from .compute import hold, micro_op, sweep_rows, sweeps, zero_points
from .folds import FOLD, groups_of, parts_of
from .state import (
    ALU,
    ALU_OPCODE,
    BY_LANE,
    DST_IN,
    DST_OUT,
    IMM,
    ITER_IN,
    ITER_OUT,
    KIND,
    OVERWRITE,
    POSITIONS,
    RESET,
    SRAM_BASE,
    SRC_IN,
    SRC_OUT,
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
from .toggles_array import ARRAY_MEASURED, CHOSEN, INPUTS, booth_changes, compare, fill_tree, ones, tree_size

COMPUTE_MEASURED = (
    *ARRAY_MEASURED, "results", "reads", "seen", "rights", "drained", "shifted", "multiplied", "micro_ops", "places",
    "loaded", "loaded_lanes",
)  # fmt: skip
"""Counters of the compute unit, all of toggled bits unless said otherwise. First the counters of the array
(ARRAY_MEASURED in `toggles_array.py`). Then, in this order: results; accumulators at a bank's output; accumulators also
visible at the store unit's port; the second operand of ALU operations; number of ones in the first and last result of
an instruction; operands and results of shifts; partial products of multiplications; micro-ops; addresses computed from
micro-ops; accumulators written by loads; number of lanes of these accumulators.
"""

(
    _RESULTS, _READS, _SEEN, _RIGHTS, _DRAINED, _SHIFTED, _MULTIPLIED, _UOPS, _PLACES, _LOADED, _LANES,
) = range(len(ARRAY_MEASURED), len(ARRAY_MEASURED) + 11)  # fmt: skip

NO_IMMEDIATE = 1 << 40
_SHR, _MUL = int(AluOpcode.SHR), int(AluOpcode.MUL)


class ComputeState(NamedTuple):
    """Last contents of the compute unit's registers, from which the bits that toggle are counted.

    - `vector`: input of the array's rows; with several groups of rows (extension `fold`), one part of a vector for each
      group.
    - `tile`: weight tile. `chosen`: the row that DEPTHWISE would select from a tile.
    - `trees`: products and all sums in the adder trees, for two operations. `result`: the sums of all lanes.
    - `banks`: the vector that was last read from each accumulator bank. `bank_depth`: vectors in a bank.
    - `right`: second operand of an ALU operation, for each lane.
    - `slow`: registers of the ALU operations that take several cycles. Row 0 has the last value that was shifted or
      multiplied in each lane; rows 1 and 2 have the two factors at the lane's 16-bit multiplier.
    - `loaded`: vector of a load of accumulators.
    - `places`: five numbers: the micro-op, its addresses dst, src and wgt, and the number of groups of the array's
      rows.
    """

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
    bank_depth: int


class Sample(NamedTuple):
    """The random sample of the array's operations for which bits inside the array are counted. `share`: probability (0
    to 1) that an operation is in the sample. `seed`: selects the sample. `counts`: numbers of all operations so far,
    and of those in the sample.
    """

    share: float
    seed: int
    counts: NDArray[np.int64]


@compiled()
def start_compute(pads, bank_depth):  # type: ignore[no-untyped-def]
    """State of the compute unit's registers at launch: all registers 0, the array's rows in one group. `pads`: the
    scratchpads, whose shapes give the sizes. `bank_depth`: vectors in a bank of accumulators.
    """
    batch, block_in, block_out = pads.inp.shape[1], pads.inp.shape[2], pads.acc.shape[2]
    lanes, columns = batch * block_out, pads.wgt.shape[1]
    banks = (len(pads.acc) + bank_depth - 1) // bank_depth
    return ComputeState(
        np.zeros((batch, block_in), np.int64),
        np.zeros((columns, block_in), np.int64),
        np.zeros(block_in, np.int64),
        np.zeros((2, batch, columns, tree_size(block_in, block_out // columns)), np.int64),
        np.zeros(lanes, np.int64),
        np.zeros((banks + 1, lanes), np.int64),
        np.zeros(lanes, np.int64),
        np.zeros((3, lanes), np.int64),
        np.zeros(lanes, np.int64),
        np.array([0, 0, 0, 0, 1], np.int64),
        bank_depth,
    )


@compiled()
def _chosen(number, share, seed):  # type: ignore[no-untyped-def]
    """Whether operation `number` belongs to the sample: its hash, a fraction of 1, is below `share`."""
    if share >= 1:
        return True
    x = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((x ^ (x >> np.uint64(31))) >> np.uint64(11)) < share * 9007199254740992.0


@compiled()
def read_bank(vector, bank, state, shown, totals, reads, seen):  # type: ignore[no-untyped-def]
    """Counts the bits that toggle at the output of accumulator bank number `bank` when `vector` is read from it. Adds
    them to `totals[reads]`, unless `reads` is negative. Also adds them to `totals[seen]` if `bank` equals `shown`, the
    number of the bank that the store unit's port shows. Updated: `state` (last register contents), `totals` (counters).
    """
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
    """Counts, after the load `row` was executed, the lanes of the accumulators in `acc` that it wrote and the bits that
    toggled from each written vector to the next. Updated in place: `state`, the last contents of registers, and
    `totals`, the counters.
    """
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
def _lanes_row(tile, number, part, narrow):  # type: ignore[no-untyped-def]
    """Returns the row of weights, int8 (block_in,), by which DEPTHWISE multiplies an input vector. It is zero except
    for one part: `narrow` elements from element part * narrow on. These are row number `number` of `tile`, if the tile
    is divided into rows of `narrow` weights.
    """
    row = np.zeros(tile.shape[1], np.int8)
    flat = tile.reshape(-1, narrow)
    for j in range(narrow):
        row[part * narrow + j] = flat[number, j]
    return row


@compiled()
def observe_immediate(immediate, state, totals):  # type: ignore[no-untyped-def]
    """Counts the bits that toggle at the immediate operand of the ALU's lanes when an instruction with the value
    `immediate` in its field imm is executed. The hardware takes this field from every instruction whose bit use_imm is
    1, even if it is no ALU instruction. Updated in place: `state`, the last contents of registers, and `totals`, the
    counters.
    """
    if immediate == NO_IMMEDIATE:
        return
    for k in range(len(state.right)):
        totals[_RIGHTS] += ones(immediate ^ state.right[k])
        state.right[k] = immediate


@compiled()
def observe_operations(  # type: ignore[no-untyped-def]
    row, here, widths, pads, state, shown, sample, totals
):
    """Executes an instruction GEMM, DEPTHWISE, TAPS or ALU, one operation after the other, and counts the bits that
    toggle. Returns -1 if an operation accesses a scratchpad out of bounds, else 0.

    `row`: the decoded instruction. `here`: values of its unit's configuration registers. `widths`: bits of a micro-op's
    fields. `shown`: number of the accumulator bank whose word is selected at the store unit's read port. Updated in
    place: the scratchpads `pads`; `state`, the last contents of registers; `sample`; and `totals`, the counters of
    toggled bits.

    TAPS is counted as if the array did one operation of DEPTHWISE for each input position. In a sweep (TAPS with
    register SWEEP on) all positions that are multiplied count, but only the positions that the operation itself reads
    toggle bits of input vectors. Bits inside the array are counted as if the zero points (register ZERO) were 0.
    """
    share, seed, counts = sample.share, sample.seed, sample.counts
    if row[KIND] == ALU:
        return _observe_alu(row, here, widths, pads, state, shown, totals)
    uop, inp, wgt, acc = pads.uop, pads.inputs, pads.wgt, pads.acc
    batch, block_in, block_out, columns = inp.shape[1], inp.shape[2], acc.shape[2], wgt.shape[1]
    lanes, folds = batch * block_out, block_out // columns
    depthwise, taps, sweeping = BY_LANE[row[KIND]], POSITIONS[row[KIND]], sweeps(row[KIND], here)
    swept = pads.swept
    rows = len(swept) if sweeping else 1
    vector = np.zeros((batch, block_in), np.int16)
    # A row has as many weights as the shorter vector; a position is several inputs, or the lanes are a part of one.
    narrow = min(block_in, block_out)
    rows_a_tile = columns * block_in // narrow if depthwise else 1
    inputs = block_out // narrow if depthwise else 1
    parts = block_in // narrow if depthwise else 1
    acc_base, inp_base = here[0] & 0xFFFF, here[0] >> 16 & 0xFFFF
    wgt_base = (here[0] >> 32 & 0xFFFF) * rows_a_tile
    inp_zero, wgt_zero = zero_points(here)
    # DEPTHWISE and TAPS always use the largest number of groups of rows.
    groups = folds if depthwise else groups_of(here[FOLD])
    size = block_in // groups
    if row[UOP_END] > len(uop):
        return -1
    flat = acc.reshape(-1, lanes)
    tile = np.empty((columns, block_in), np.int64)
    sums = np.empty(lanes, np.int64)
    bank_depth = state.bank_depth
    # Index in state.trees of the previous operation's tree; `filled` says whether it was filled.
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
                input_part, lanes_part = np.int64(0), np.int64(0)
                if row[RESET]:
                    sums[:] = 0
                else:
                    if groups > folds:
                        return -1
                    if not depthwise:
                        input_part, lanes_part = parts_of(w, folds, groups)
                    part, group = w % parts, sweep_rows(swept, wgt) if sweeping else taps * inputs * parts
                    holds = sweeping and w % group >= group // 2
                    s, w = s - s % inputs, w - w % group
                    if s + taps * inputs - 1 >= len(inp) or w >= len(wgt) * rows_a_tile:
                        return -1
                    if sweeping:
                        hold(swept, inp, (s, part), inp_zero)
                    sums[:] = 0
                    for number_of_row in range(rows * taps * inputs):
                        t = number_of_row % (taps * inputs)
                        number = counts[0]
                        counts[0] += 1
                        to = t % inputs * narrow
                        shift = part * narrow - to
                        if sweeping:
                            row_of_tile = _lanes_row(
                                wgt[w // rows_a_tile], w % rows_a_tile + number_of_row, part, narrow
                            )
                        else:
                            row_of_tile = wgt[w // rows_a_tile, (w // parts + t) % columns]
                        for o in range(columns):
                            for k in range(block_in):
                                tile[o, k] = wgt[w // rows_a_tile, o, k]
                        for k in range(block_in):
                            totals[CHOSEN] += ones((np.int64(row_of_tile[k]) ^ state.chosen[k]) & 0xFF)
                            state.chosen[k] = row_of_tile[k]
                        if depthwise:
                            for o in range(to, to + narrow):
                                tile[o % columns, o + shift] = row_of_tile[o + shift]
                        newest = number_of_row >= (rows - 1) * taps * inputs
                        for b in range(batch):
                            for k in range(block_in):
                                at = k if depthwise else input_part * size + k % size
                                vector[b, k] = inp[s + t, b, at]
                                if not newest:
                                    held = swept[number_of_row // (taps * inputs), t // inputs, b]
                                    vector[b, k] = held[(k - shift) % block_out] + inp_zero
                                else:
                                    totals[INPUTS] += ones((vector[b, k] ^ state.vector[b, k]) & 0xFF)
                        if _chosen(number, share, seed):
                            counts[1] += 1
                            if not filled:
                                before = state.trees[tree]
                                fill_tree(
                                    state.vector,
                                    state.tile,
                                    depthwise,
                                    shift,
                                    block_out,
                                    state.places[4],
                                    before,
                                )
                            fill_tree(
                                vector, tile, depthwise, shift, block_out, groups, state.trees[1 - tree]
                            )
                            compare(
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
                                    weight = tile[o % columns, own] - wgt_zero
                                    total = (np.int64(vector[b, own]) - inp_zero) * weight
                                elif not depthwise:
                                    own_group = o // columns % groups
                                    for k in range(own_group * size, (own_group + 1) * size):
                                        weight = tile[o % columns, k] - wgt_zero
                                        total += (np.int64(vector[b, k]) - inp_zero) * weight
                                sums[b * block_out + o] += total
                        # Element by element: an assignment of arrays would compile numba's message for shapes that
                        # differ, 3 s.
                        for b in range(batch):
                            for k in range(block_in):
                                state.vector[b, k] = vector[b, k]
                        for o in range(columns):
                            for k in range(block_in):
                                state.tile[o, k] = tile[o, k]
                        state.places[4] = groups
                    if holds:
                        continue
                    if not row[OVERWRITE] or input_part != 0:
                        read_bank(flat[d], d // bank_depth, state, shown, totals, _READS, _SEEN)
                        for k in range(lanes):
                            sums[k] += flat[d, k]
                for k in range(lanes):
                    value = np.int64(np.int32(sums[k]))
                    totals[_RESULTS] += ones(value ^ state.result[k])
                    if first:
                        totals[_DRAINED] += ones(value) + ones(state.result[k])
                    state.result[k] = value
                    # Every lane has a sum, some the sum of another group; only part `lanes_part` of the lanes is
                    # written.
                    if row[RESET] or depthwise or k % block_out // columns // groups == lanes_part:
                        flat[d, k] = value
                first = False
    if filled and tree == 1:
        both = state.trees.reshape(2, -1)
        for k in range(both.shape[1]):
            both[0, k] = both[1, k]
    return 0


@compiled()
def _place(word, d, s, w, places, totals):  # type: ignore[no-untyped-def]
    """Counts the toggled bits of the micro-op `word` and of its addresses `d`, `s` and `w`; updates `places`. `totals`:
    counters of toggled bits, updated.
    """
    totals[_UOPS] += ones(word ^ places[0]) + ones((word ^ places[0]) >> 32)
    totals[_PLACES] += ones(d ^ places[1]) + ones(s ^ places[2]) + ones(w ^ places[3])
    places[0], places[1], places[2], places[3] = word, d, s, w


@compiled()
def _observe_alu(row, here, widths, pads, state, shown, totals):  # type: ignore[no-untyped-def]
    """Executes the ALU instruction `row` and counts the bits that toggle. Returns -1 if it accesses a scratchpad out of
    bounds, else 0. `here`: values of the unit's configuration registers. `widths`: bits of a micro-op's fields.
    `shown`: number of the accumulator bank whose word is selected at the store unit's read port. Updated in place: the
    scratchpads `pads`; `state`, the last contents of registers; and `totals`, the counters of toggled bits.
    """
    uop, acc = pads.uop, pads.acc
    lanes = acc.shape[1] * acc.shape[2]
    flat = acc.reshape(-1, lanes)
    base, bank_depth = here[0] & 0xFFFF, state.bank_depth
    if not is_operation(row[ALU_OPCODE], pads.custom) or row[UOP_END] > len(uop):
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
                        # In the cycle of its source read, a lane combines the source with the operand of the previous
                        # operation.
                        passing = np.int64(
                            np.int32(operate(row[ALU_OPCODE], np.int64(flat[s, k]), before, pads.custom))
                        )
                        totals[_RESULTS] += ones(passing ^ state.result[k])
                        state.result[k] = passing
                    value = np.int64(np.int32(operate(row[ALU_OPCODE], left, right, pads.custom)))
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
    """Counts the toggled bits of one step of MUL in lane `k`. MUL multiplies in three steps, each a product of 16-bit
    numbers `left` and `right` in the same multiplier. Rows 1 and 2 of `slow` hold the factors of the lane's previous
    step, which are compared and then replaced. `totals`: counters of toggled bits, updated.
    """
    totals[_MULTIPLIED] += booth_changes(left, right, slow[1, k], slow[2, k], 9, 18)
    slow[1, k], slow[2, k] = left, right

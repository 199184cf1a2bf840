"""Counts the bits that toggle in the store unit from one vector to the next; a vector takes one or several passes
through the lanes of STORE.POST.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.util.machine_code import compiled

from .decode import operand_shape
from .kernels import saturate
from .state import (
    CHAIN,
    COMBINE,
    DRAM_BASE,
    KIND,
    MULTIPLY,
    OPERAND,
    PAR_BY_X,
    PAR_BY_Y,
    PAR_INDEX,
    SRAM_BASE,
    STORE_POST,
    SWAP,
    TABLE,
    TABLE_INDEX,
    UNSIGNED,
    X_SIZE,
    X_STRIDE,
    Y_SIZE,
)
from .toggles_array import booth_changes, ones
from .toggles_compute import read_bank

STORE_MEASURED = (
    "store_reads", "reduced", "totals", "mantissas", "scaled", "scaled_products", "fixed", "requantized",
    "operands", "pairs", "pair_partials", "pair_mantissas", "pair_products", "outputs",
    "modes", "settings",
)  # fmt: skip
"""Counters of toggled bits in the store unit, in this order. First those of reduction, bias and stage A
(requantization): accumulators at the unit's read port; reductions of windows; sums of reduction and bias; mantissas of
the sums; partial products of mantissa and scale; products of mantissa and scale; products in fixed point (7 places);
results.

Then those of stage B (the operation after requantization): operands; the two inputs of the lane; partial products of
the two multipliers; the mantissa between the multipliers; products of the multipliers. Last: stored bytes; flags of an
instruction; registers of the unit.
"""

(
    _READS, _REDUCED, _TOTALS, _MANTISSAS, _SCALED, _PRODUCTS, _FIXED, _REQUANTIZED, _OPERANDS, _PAIRS, _PAIR_PARTIALS,
    _PAIR_MANTISSAS, _PAIR_PRODUCTS, _OUTPUTS, _MODES,
    _SETTINGS,
) = range(16)  # fmt: skip


class StoreState(NamedTuple):
    """Last contents of the store unit's registers, from which the bits that toggle are counted.

    `reduced`, `biases`, `scales`, `outputs`, `operands`: for each lane of a vector, the reduction of its window, its
    bias, scale, output and operand. `kept` (lanes of the arithmetic, _KEPT): the registers in stages A and B of each
    lane. `settings`: configuration registers and flags of the last instruction. `table`: the look-up tables.
    """

    reduced: NDArray[np.int64]
    biases: NDArray[np.int64]
    scales: NDArray[np.uint32]
    outputs: NDArray[np.int64]
    kept: NDArray[np.int64]
    settings: NDArray[np.int64]
    operands: NDArray[np.int64]
    table: NDArray[np.int8]


_TOTAL, _MANTISSA, _SCALE, _PRODUCT, _POINT, _RESULT = range(6)
_SIZE_A, _SIZE_B, _LEFT, _RIGHT, _INNER, _RATIO_A, _RATIO_B, _PRODUCT_A, _PRODUCT_B = range(6, 15)
_KEPT = 15


@compiled()
def start_store(pads, passes):  # type: ignore[no-untyped-def]
    """State of the store unit's registers at launch: all registers 0, and the look-up tables of the scratchpads `pads`.
    `passes`: passes of the store pipeline for a vector.
    """
    lanes = pads.acc.shape[1] * pads.acc.shape[2]
    return StoreState(
        np.zeros(lanes, np.int64),
        np.zeros(lanes, np.int64),
        np.zeros(lanes, np.uint32),
        np.zeros(lanes, np.int64),
        np.zeros((lanes // passes, _KEPT), np.int64),
        np.zeros(9, np.int64),
        np.zeros(lanes, np.int64),
        pads.table,
    )


@compiled()
def _wide(value):  # type: ignore[no-untyped-def]
    return ones(value) + ones(value >> 32)


@compiled()
def _mantissa(magnitude):  # type: ignore[no-untyped-def]
    """The 24 bits of a positive integer from its leading 1 on, filled up with zeros on the right if it is shorter; 0
    for 0.
    """
    if magnitude == 0:
        return np.int64(0)
    while magnitude >= 1 << 24:
        magnitude >>= 1
    while magnitude < 1 << 23:
        magnitude <<= 1
    return np.int64(magnitude)


@compiled()
def _float_mantissa(bits):  # type: ignore[no-untyped-def]
    if bits & 0x7FFFFFFF == 0:
        return np.int64(0)
    return np.int64(bits) & 0x7FFFFF | 0x800000


@compiled()
def _stage_a(total, scale, here, kept, totals):  # type: ignore[no-untyped-def]
    """Requantizes the sum `total` with the float32 `scale` (stage A) and counts the toggled bits; returns the int8
    result. `here`: values of the unit's configuration registers. Updated: `kept` (register contents), `totals`
    (counters of toggled bits).
    """
    zero_point = here[2] << 48 >> 48
    low, high = here[2] << 40 >> 56, here[2] << 32 >> 56
    magnitude = abs(total)
    mantissa, factor = _mantissa(magnitude), _float_mantissa(np.int64(scale))
    product = mantissa * factor
    real = np.float32(total) * np.uint32(scale).view(np.float32)
    point = np.int64(min(abs(np.float64(real)) * 128, 33554431.0)) if real == real else np.int64(0)
    result = saturate(real, zero_point, low, high)
    totals[_TOTALS] += ones(total ^ kept[_TOTAL])
    totals[_MANTISSAS] += ones(mantissa ^ kept[_MANTISSA])
    totals[_SCALED] += booth_changes(mantissa, factor, kept[_MANTISSA], kept[_SCALE], 13, 25)
    totals[_PRODUCTS] += _wide(product ^ kept[_PRODUCT])
    totals[_FIXED] += ones(point ^ kept[_POINT])
    totals[_REQUANTIZED] += ones((result ^ kept[_RESULT]) & 0xFF)
    kept[_TOTAL], kept[_MANTISSA], kept[_SCALE] = total, mantissa, factor
    kept[_PRODUCT], kept[_POINT], kept[_RESULT] = product, point, result
    return result


@compiled()
def _stage_b(value, operand, row, here, table, kept, totals):  # type: ignore[no-untyped-def]
    """Counts the toggled bits of stage B (the operation after requantization) for the pair `value`, `operand`. The
    hardware computes stage B for each pair, whether the result is used or not. `row`: the decoded instruction; `here`:
    values of its unit's configuration registers; `table`: look-up tables. Updated: `kept` (register contents), `totals`
    (counters of toggled bits).
    """
    zero_point = here[2] << 48 >> 48
    if row[TABLE]:
        value, zero_point = np.int64(table[row[TABLE_INDEX], value + 128]), here[2] >> 48
    used = row[OPERAND] == 1
    multiply = row[MULTIPLY] == 1 or not used
    ratio_self, ratio_operand = here[3] & 0xFFFFFFFF, here[3] >> 32 & 0xFFFFFFFF
    shift = 128 if row[UNSIGNED] else 0
    first, second = (operand, value) if row[SWAP] else (value, operand)
    size_a, size_b = abs(first + shift), abs(second + shift)
    if multiply:
        ratio_a = ratio_b = _float_mantissa(ratio_self)
        other = operand - (here[2] << 16 >> 48) if used else np.int64(1)
        inner = _mantissa(abs((value - zero_point) * other))
        left, right = inner >> 12, inner & 0xFFF
    else:
        ratio_a, ratio_b = _float_mantissa(ratio_self), _float_mantissa(ratio_operand)
        if row[SWAP]:
            ratio_a, ratio_b = ratio_b, ratio_a
        left, right = size_a, size_b
        inner = _mantissa(right * ratio_b)
    product_a, product_b = left * ratio_a, right * ratio_b
    totals[_PAIRS] += ones(size_a ^ kept[_SIZE_A]) + ones(size_b ^ kept[_SIZE_B])
    totals[_PAIR_PARTIALS] += booth_changes(ratio_a, left, kept[_RATIO_A], kept[_LEFT], 7, 25)
    totals[_PAIR_PARTIALS] += booth_changes(ratio_b, right, kept[_RATIO_B], kept[_RIGHT], 7, 25)
    totals[_PAIR_MANTISSAS] += ones(inner ^ kept[_INNER])
    totals[_PAIR_PRODUCTS] += _wide(product_a ^ kept[_PRODUCT_A]) + _wide(product_b ^ kept[_PRODUCT_B])
    kept[_SIZE_A], kept[_SIZE_B], kept[_LEFT], kept[_RIGHT], kept[_INNER] = size_a, size_b, left, right, inner
    kept[_RATIO_A], kept[_RATIO_B], kept[_PRODUCT_A], kept[_PRODUCT_B] = (
        ratio_a,
        ratio_b,
        product_a,
        product_b,
    )


@compiled()
def observe_begin(row, here, state, totals):  # type: ignore[no-untyped-def]
    """Counts the bits that toggle when an instruction begins: its flags (only STORE.POST has any) and its registers
    change while the lanes' inputs are still the values of the previous instruction. `row`: the decoded instruction;
    `here`: values of its unit's configuration registers. Updated: `state` (last register contents), `totals` (counters
    of toggled bits).
    """
    flags = np.int64(0)
    post = row[KIND] == STORE_POST
    modes = row if post else np.zeros_like(row)
    if post:
        for bit, name in enumerate((COMBINE, OPERAND, MULTIPLY, SWAP, UNSIGNED)):
            flags |= row[name] << bit
    settings = state.settings
    changed = ones(flags ^ settings[8])
    settings[8] = flags
    moved = np.int64(0)
    for k in range(2, 5):
        moved += _wide(here[k] ^ settings[k])
        settings[k] = here[k]
    totals[_MODES] += changed * len(state.kept)
    totals[_SETTINGS] += moved
    if changed == 0 and moved == 0:
        return
    for k in range(len(state.kept)):
        lane = len(state.reduced) - len(state.kept) + k
        kept = state.kept[k]
        value = _stage_a(kept[_TOTAL], state.scales[lane], here, kept, totals)
        _stage_b(value, state.operands[lane], modes, here, state.table, kept, totals)


@compiled()
def operands_of(row, here, memory, lanes):  # type: ignore[no-untyped-def]
    """The operands of a STORE.POST, int8 (y_size, x_size or 1, lanes), read from DRAM `memory` before the instruction's
    outputs may overwrite them; of length 0 if the instruction has no operands. `row`: the decoded instruction; `here`:
    values of its unit's configuration registers; `lanes`: bytes of an output vector.
    """
    if row[KIND] != STORE_POST or row[OPERAND] == 0:
        return np.empty((0, 1, lanes), np.int8)
    first, pitch, columns = operand_shape(row, here[5])
    found = np.empty((row[Y_SIZE], columns, lanes), np.int8)
    for y in range(row[Y_SIZE]):
        for x in range(columns):
            at = (first + y * pitch + x) * lanes
            for k in range(lanes):
                found[y, x, k] = np.int8(memory[at + k])
    return found


@compiled()
def observe_store(row, here, memory, operands, pads, compute, state, totals):  # type: ignore[no-untyped-def]
    """Counts the bits that toggled in the hardware during the store instruction `row`, after the simulator has executed
    it.

    `here`: values of the store unit's configuration registers. `operands`: result of `operands_of`, computed before the
    execution. `memory`, `pads`: DRAM and scratchpads after it. Updated in place: `compute` and `state`, the last
    register contents of the compute unit and of the store unit, and `totals`, the counters of toggled bits.
    """
    acc, par = pads.acc, pads.par
    lanes, block_out = acc.shape[1] * acc.shape[2], acc.shape[2]
    flat, width, bank_depth = acc.reshape(-1, lanes), len(state.kept), compute.bank_depth
    post = row[KIND] == STORE_POST
    y_stride, x_stride, rows, columns = row[X_SIZE], np.int64(1), np.int64(1), np.int64(1)
    row_stride, column_stride, sums = np.int64(0), np.int64(0), False
    if post:
        y_stride, x_stride = here[0] & 0xFFFF, here[0] >> 16 & 0xFFFF
        rows, columns = (here[1] & 0xFF) + 1, (here[1] >> 8 & 0xFF) + 1
        row_stride, column_stride, sums = (
            here[1] >> 16 & 0xFFFF,
            here[1] >> 32 & 0xFFFF,
            here[1] >> 48 & 1 == 1,
        )
    for y in range(row[Y_SIZE]):
        for x in range(row[X_SIZE]):
            corner = row[SRAM_BASE] + y * y_stride + x * x_stride
            to = (row[DRAM_BASE] + y * row[X_STRIDE] + x) * lanes
            for r in range(rows):
                for c in range(columns):
                    place = (corner + r * row_stride + c * column_stride) % len(flat)
                    bank = place // bank_depth
                    read_bank(flat[place], bank, compute, bank, totals, -1, _READS)
                    if post:
                        _reduce(flat[place], r == 0 and c == 0, sums, state.reduced, totals)
                        if r < rows - 1 or c < columns - 1:
                            # The lanes of the arithmetic also process each partial result of a window, with the
                            # biases and scales of the last pass.
                            for k in range(width):
                                lane = lanes - width + k
                                total = np.int64(np.int32(state.reduced[lane] + state.biases[lane]))
                                value = _stage_a(total, state.scales[lane], here, state.kept[k], totals)
                                _stage_b(
                                    value, state.operands[lane], row, here, state.table, state.kept[k], totals
                                )
            if post:
                entry = row[PAR_INDEX] + y * row[PAR_BY_Y] + x * row[PAR_BY_X]
                for k in range(lanes):
                    state.biases[k] = np.int64(np.int32(par[entry, 0, k % block_out]))
                    state.scales[k] = par[entry, 1, k % block_out]
                for k in range(lanes):
                    total = np.int64(np.int32(state.reduced[k] + state.biases[k]))
                    kept = state.kept[k % width]
                    value = _stage_a(total, state.scales[k], here, kept, totals)
                    if row[OPERAND]:
                        operand = np.int64(operands[y, x if operands.shape[1] > 1 else 0, k])
                        totals[_OPERANDS] += ones((operand ^ state.operands[k]) & 0xFF)
                        state.operands[k] = operand
                    _stage_b(value, state.operands[k], row, here, state.table, kept, totals)
            for k in range(lanes):
                out = np.int64(pads.chain[to + k]) if post and row[CHAIN] else np.int64(memory[to + k])
                totals[_OUTPUTS] += ones((out ^ state.outputs[k]) & 0xFF)
                state.outputs[k] = out


@compiled()
def _reduce(vector, first, sums, reduced, totals):  # type: ignore[no-untyped-def]
    """Takes one more accumulator `vector` into the reduction of a window, and counts the bits that toggle. `reduced`:
    the sum (if `sums`) or maximum of the window so far, updated in place. `first`: the vector is the first of its
    window and replaces `reduced`. `totals`: counters of toggled bits, updated.
    """
    for k in range(len(reduced)):
        value = np.int64(vector[k])
        if not first:
            value = np.int64(np.int32(reduced[k] + value)) if sums else max(reduced[k], value)
        totals[_REDUCED] += ones(value ^ reduced[k])
        reduced[k] = value

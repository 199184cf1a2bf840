"""Executes GEMM, DEPTHWISE, TAPS and ALU on the scratchpads. The functions named `run_...` return DONE, or OUTSIDE if
an index leaves its scratchpad or if the machine lacks the operation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.isa.registers import register
from vdla.util.machine_code import compiled

from .alu import is_operation, operate_on_lanes
from .folds import FOLD, groups_of, run_folded
from .kernels import LANES, multiply_tile
from .loads import DONE, OUTSIDE
from .state import (
    ALU_OPCODE,
    BY_LANE,
    DST_IN,
    DST_OUT,
    GEMM,
    IMM,
    ITER_IN,
    ITER_OUT,
    KIND,
    OVERWRITE,
    POSITIONS,
    RESET,
    SRC_IN,
    SRC_OUT,
    TAPS,
    UOP_BGN,
    UOP_END,
    USE_IMM,
    WGT_IN,
    WGT_OUT,
)

ZERO, SWEEP = register("ZERO").index, register("SWEEP").index
"""Indices of the registers ZERO and SWEEP in the compute unit's row of configuration registers."""


class Pads(NamedTuple):
    """The scratchpads while a program executes, in the data types that the simulator uses.

    `packed`: the weight tiles a second time, in the layout of `kernels.multiply_tile`. `inputs` (depth, batch,
    block_in): all memory that GEMM, DEPTHWISE and TAPS read inputs from. It starts with `inp`, the input scratchpad;
    from index chain_base on it has the chain memory (on-chip buffer between layers); vectors between them are unused.
    `chain` (chain_buffer_bytes,): the chain memory as a flat view.

    `swept` (operations, TAPS, batch, block_out): inputs of the last operations, oldest first, minus their zero point; a
    sweep (instruction TAPS with register SWEEP on) multiplies them again. `custom` (ALU_CODES,): addresses of the
    machine's custom instructions by ALU opcode.
    """

    uop: NDArray[np.uint64]
    inp: NDArray[np.int16]
    inputs: NDArray[np.int16]
    chain: NDArray[np.int16]
    wgt: NDArray[np.int8]
    packed: NDArray[np.int16]
    acc: NDArray[np.int32]
    swept: NDArray[np.int32]
    par: NDArray[np.uint32]
    table: NDArray[np.int8]
    rows: NDArray[np.uint32]
    custom: NDArray[np.int64]


@compiled()
def _empty(row):  # type: ignore[no-untyped-def]
    return row[ITER_OUT] == 0 or row[ITER_IN] == 0 or row[UOP_END] <= row[UOP_BGN]


@compiled()
def micro_op(word, widths):  # type: ignore[no-untyped-def]
    """The fields (dst, src, wgt) of a micro-op, int64 `word`; `widths` are their numbers of bits, from bit 0 on."""
    return (
        word & ((1 << widths[0]) - 1),
        word >> widths[0] & ((1 << widths[1]) - 1),
        word >> (widths[0] + widths[1]) & ((1 << widths[2]) - 1),
    )


@compiled()
def _split(row, widths, uop):  # type: ignore[no-untyped-def]
    """The fields dst, src and wgt of the micro-ops of instruction `row`, int64 (n, 3), without base and loop offsets.
    `widths`: bits of the fields; `uop`: the micro-op scratchpad.
    """
    indices = np.empty((row[UOP_END] - row[UOP_BGN], 3), np.int64)
    for k in range(len(indices)):
        indices[k, 0], indices[k, 1], indices[k, 2] = micro_op(np.int64(uop[row[UOP_BGN] + k]), widths)
    return indices


@compiled()
def _inside(row, indices, column, base, outer, inner, depth):  # type: ignore[no-untyped-def]
    top = np.int64(0)
    for k in range(len(indices)):
        top = max(top, indices[k, column])
    return base + top + (row[ITER_OUT] - 1) * row[outer] + (row[ITER_IN] - 1) * row[inner] < depth


@compiled()
def _inputs_inside(row, indices, base, own, chain_base, depth, more):  # type: ignore[no-untyped-def]
    """Whether all source vectors of the decoded instruction `row` exist. The index of a source vector is `base` plus
    the loops' offset plus the field src of a micro-op, column 1 of `indices`. The vector and the `more` vectors after
    it must be in one memory: the input scratchpad (indices below `own`) or the chain memory (on-chip buffer between
    layers, indices chain_base to depth - 1).
    """
    if _inside(row, indices, 1, base, SRC_OUT, SRC_IN, own - more):
        return True
    if depth == own or not _inside(row, indices, 1, base, SRC_OUT, SRC_IN, depth - more):
        return False
    for y in range(row[ITER_OUT]):
        for x in range(row[ITER_IN]):
            start = base + y * row[SRC_OUT] + x * row[SRC_IN]
            for k in range(len(indices)):
                if own - more <= start + indices[k, 1] < chain_base:
                    return False
    return True


@compiled()
def run_gemm(row, here, widths, pads, own, chain_base):  # type: ignore[no-untyped-def]
    """Executes the GEMM `row`. Returns DONE; or OUTSIDE if it accesses a vector outside a memory, or if register FOLD
    sets more groups of rows than the array has (extension `fold`).

    `pads`: the scratchpads. `pads.inputs`, int16 (depth, batch, block_in), holds two memories: the input scratchpad in
    its first `own` vectors, and the chain memory (on-chip buffer between layers) from vector `chain_base` on. `here`:
    values of the unit's configuration registers. `widths`: bits of a micro-op's fields.
    """
    uop, inp, packed, acc = pads.uop, pads.inputs, pads.packed, pads.acc
    if _empty(row):
        return DONE
    if row[UOP_END] > len(uop):
        return OUTSIDE
    indices = _split(row, widths, uop)
    acc_base, inp_base, wgt_base = here[0] & 0xFFFF, here[0] >> 16 & 0xFFFF, here[0] >> 32 & 0xFFFF
    if not _inside(row, indices, 0, acc_base, DST_OUT, DST_IN, len(acc)):
        return OUTSIDE
    if row[RESET]:
        for y in range(row[ITER_OUT]):
            for x in range(row[ITER_IN]):
                for k in range(len(indices)):
                    acc[acc_base + indices[k, 0] + y * row[DST_OUT] + x * row[DST_IN]] = 0
        return DONE
    if not _inputs_inside(row, indices, inp_base, own, chain_base, len(inp), 0):
        return OUTSIDE
    if not _inside(row, indices, 2, wgt_base, WGT_OUT, WGT_IN, len(packed)):
        return OUTSIDE
    inp_zero, wgt_zero = zero_points(here)
    folds = acc.shape[2] // (packed.shape[1] * packed.shape[3])
    if folds > 1:
        if groups_of(here[FOLD]) > folds:
            return OUTSIDE
        run_folded(row, here, indices, inp, packed, acc, inp_zero, wgt_zero)
        return DONE
    add = np.int64(1 - row[OVERWRITE])
    batch, pairs, blocks = acc.shape[1], np.int64(packed.shape[2]), packed.shape[1]
    acc_bytes, inp_bytes = acc.strides[0], inp.strides[0]
    wgt_bytes, block_bytes = packed.strides[0], packed.strides[1]
    acc_row, inp_row = acc.strides[1], inp.strides[1]
    acc_at, inp_at, wgt_at = acc.ctypes.data, inp.ctypes.data, packed.ctypes.data
    for y in range(row[ITER_OUT]):
        for x in range(row[ITER_IN]):
            dst = acc_base + y * row[DST_OUT] + x * row[DST_IN]
            src = inp_base + y * row[SRC_OUT] + x * row[SRC_IN]
            wgt = wgt_base + y * row[WGT_OUT] + x * row[WGT_IN]
            if packed.shape[3] != LANES or inp_zero or wgt_zero:
                _any_tiles(indices, dst, src, wgt, pads, add, inp_zero, wgt_zero)
                continue
            for k in range(len(indices)):
                target = acc_at + (dst + indices[k, 0]) * acc_bytes
                source = inp_at + (src + indices[k, 1]) * inp_bytes
                tile = wgt_at + (wgt + indices[k, 2]) * wgt_bytes
                for b in range(batch):
                    for block in range(blocks):
                        multiply_tile(  # pyright: ignore[reportCallIssue]
                            target + b * acc_row + block * 4 * LANES,
                            tile + block * block_bytes,
                            source + b * inp_row,
                            pairs,
                            add,
                        )
    return DONE


@compiled()
def zero_points(here):  # type: ignore[no-untyped-def]
    """Zero points (of inputs, of weights) in register ZERO; `here` are the compute unit's registers."""
    return np.int32(here[ZERO] << 56 >> 56), np.int32(here[ZERO] << 48 >> 56)


@compiled()
def _any_tiles(indices, dst, src, wgt, pads, add, inp_zero, wgt_zero):  # type: ignore[no-untyped-def]
    """Executes all micro-ops of one iteration of a GEMM's loops in scalar code. It serves arrays with fewer output
    lanes than LANES, and zero points other than 0.

    `indices`, int64 (n, 3): the micro-ops; each gives an index of an accumulator, of an input vector and of a tile.
    `dst`, `src`, `wgt`: offsets of the iteration, which are added to these indices. `add`: 1 adds to the accumulators
    of `pads`, 0 overwrites them. `inp_zero`, `wgt_zero`: zero points, subtracted from each input and each weight.
    """
    inp, packed, acc = pads.inputs, pads.packed, pads.acc
    lanes = packed.shape[3]
    totals = np.empty(lanes, np.int32)
    for k in range(len(indices)):
        target, source, tile = acc[dst + indices[k, 0]], inp[src + indices[k, 1]], packed[wgt + indices[k, 2]]
        for b in range(acc.shape[1]):
            for block in range(packed.shape[1]):
                totals[:] = 0
                for pair in range(packed.shape[2]):
                    first = np.int32(source[b, 2 * pair]) - inp_zero
                    second = np.int32(source[b, 2 * pair + 1]) - inp_zero
                    for lane in range(lanes):
                        totals[lane] += first * (np.int32(tile[block, pair, lane, 0]) - wgt_zero)
                        totals[lane] += second * (np.int32(tile[block, pair, lane, 1]) - wgt_zero)
                for lane in range(lanes):
                    at = block * lanes + lane
                    target[b, at] = np.int32(totals[lane] + add * np.int64(target[b, at]))


@compiled()
def _row_shape(inp, wgt, acc):  # type: ignore[no-untyped-def]
    """Sizes for DEPTHWISE and TAPS, which multiply a row of weights by a position (the inputs of one pixel). Returns
    (weights in a row, input vectors in a position, parts of an input vector that are as long as an output vector, rows
    in a weight tile), from the shapes of the arrays of input vectors `inp`, weight tiles `wgt` and accumulators `acc`.
    """
    narrow = min(acc.shape[2], inp.shape[2])
    return narrow, acc.shape[2] // narrow, inp.shape[2] // narrow, wgt.shape[1] * wgt.shape[2] // narrow


@compiled()
def run_depthwise(row, here, widths, pads, own, chain_base):  # type: ignore[no-untyped-def]
    """Executes the instruction `row`, a DEPTHWISE or TAPS; returns DONE, or OUTSIDE for an index out of bounds. The
    micro-ops index the weight scratchpad `pads.wgt`, int8 (depth, columns, block_in), by rows of weights, not tiles.

    A row of weights is as long as the shorter of an input and an output vector, and multiplies that many inputs of a
    pixel. If output vectors are longer, the inputs of a pixel take several input vectors, each with its own row of
    weights. If input vectors are longer, an operation multiplies one part of an input vector.

    `here`: values of the unit's configuration registers. `widths`: bits of a micro-op's fields. `pads.inputs` holds the
    input scratchpad in its first `own` vectors, and the chain memory (on-chip buffer between layers) from vector
    `chain_base` on.
    """
    uop, inp, wgt, acc = pads.uop, pads.inputs, pads.wgt, pads.acc
    if _empty(row):
        return DONE
    if row[UOP_END] > len(uop):
        return OUTSIDE
    indices = _split(row, widths, uop)
    taps = np.int64(POSITIONS[row[KIND]])
    acc_base, inp_base = here[0] & 0xFFFF, here[0] >> 16 & 0xFFFF
    inp_zero, wgt_zero = zero_points(here)
    narrow, inputs, outputs, rows = _row_shape(inp, wgt, acc)
    wgt_base = (here[0] >> 32 & 0xFFFF) * rows
    weights = wgt.reshape((wgt.shape[0] * rows, narrow))
    more, group = taps * inputs - 1, taps * inputs * outputs
    if not _inside(row, indices, 0, acc_base, DST_OUT, DST_IN, len(acc)):
        return OUTSIDE
    if row[RESET] == 0 and not (
        _inputs_inside(row, indices, inp_base, own, chain_base, len(inp), more - (inputs - 1))
        and _inside(row, indices, 2, wgt_base, WGT_OUT, WGT_IN, len(weights))
    ):
        return OUTSIDE
    for y in range(row[ITER_OUT]):
        for x in range(row[ITER_IN]):
            for k in range(len(indices)):
                target = acc[acc_base + indices[k, 0] + y * row[DST_OUT] + x * row[DST_IN]]
                if row[RESET] or row[OVERWRITE]:
                    target[:] = 0
                if row[RESET]:
                    continue
                s = inp_base + indices[k, 1] + y * row[SRC_OUT] + x * row[SRC_IN]
                w = wgt_base + indices[k, 2] + y * row[WGT_OUT] + x * row[WGT_IN]
                part = w % outputs
                s, w = s - s % inputs, w - w % group + part
                for t in range(taps * inputs):
                    source, line = inp[s + t], weights[w + t * outputs]
                    to = t % inputs * narrow
                    for b in range(target.shape[0]):
                        for j in range(narrow):
                            weight = np.int32(line[j]) - wgt_zero
                            target[b, to + j] += (np.int32(source[b, part * narrow + j]) - inp_zero) * weight
    return DONE


@compiled()
def sweeps(kind, here):  # type: ignore[no-untyped-def]
    """Whether an instruction of `kind` is a sweep, that is, TAPS with register SWEEP on, which also multiplies input
    positions of earlier operations. `here`: values of the compute unit's registers.
    """
    return kind == TAPS and here[SWEEP] & 1 == 1


@compiled()
def sweep_rows(swept, wgt):  # type: ignore[no-untyped-def]
    """Number of rows of weights that one operation of a sweep multiplies (TAPS with register SWEEP on). It is the
    number that `isa.array_modes.sweep_rows` returns for the configuration, here computed from the shapes of two arrays
    of `Pads`: `swept`, the held input positions, and `wgt`, the weight tiles.
    """
    block_out, block_in = swept.shape[3], wgt.shape[2]
    return max(
        swept.shape[0] * swept.shape[1] * max(1, block_out // block_in), 2 * max(1, block_in // block_out)
    )


@compiled()
def hold(swept, inp, s, inp_zero):  # type: ignore[no-untyped-def]
    """Shifts the memory of a sweep, a mode of the array that multiplies the input positions (pixels) of earlier
    operations again. `swept` holds the positions of the last operations: the oldest operation's positions are removed,
    and those of the current operation, read from the input vectors `inp` minus the zero point `inp_zero`, become the
    last entry.

    `s` is a pair (start, part). `start`: index in `inp` of the operation's first vector. `part`: number of the piece of
    each vector that is used, if a vector has more elements than the array has lanes.
    """
    start, part = s
    narrow = min(inp.shape[2], swept.shape[3])
    # Element by element, because numba takes 1.6 s to compile the error message of an assignment of array slices.
    for r in range(len(swept) - 1):
        for t in range(swept.shape[1]):
            for b in range(swept.shape[2]):
                for j in range(swept.shape[3]):
                    swept[r, t, b, j] = swept[r + 1, t, b, j]
    newest, inputs = swept[-1], swept.shape[3] // narrow
    for t in range(len(newest)):
        for b in range(inp.shape[1]):
            for j in range(swept.shape[3]):
                element = np.int32(inp[start + t * inputs + j // narrow, b, part * narrow + j % narrow])
                newest[t, b, j] = element - inp_zero


@compiled()
def run_sweep(row, here, widths, pads, own, chain_base):  # type: ignore[no-untyped-def]
    """Executes the TAPS `row` with register SWEEP on: an operation multiplies its own input positions and those of the
    operations before it. An operation only keeps its positions, and multiplies nothing, if its row of weights is in the
    second half of the rows that one operation multiplies (`sweep_rows`). Returns DONE, or OUTSIDE for an index out of
    bounds.

    `here`: values of the unit's configuration registers. `widths`: bits of a micro-op's fields. `pads.inputs` holds the
    input scratchpad in its first `own` vectors, and the chain memory from vector `chain_base` on.
    """
    uop, inp, wgt, acc, swept = pads.uop, pads.inputs, pads.wgt, pads.acc, pads.swept
    if _empty(row):
        return DONE
    if row[UOP_END] > len(uop):
        return OUTSIDE
    indices = _split(row, widths, uop)
    acc_base, inp_base = here[0] & 0xFFFF, here[0] >> 16 & 0xFFFF
    inp_zero, wgt_zero = zero_points(here)
    narrow, inputs, outputs, rows = _row_shape(inp, wgt, acc)
    wgt_base = (here[0] >> 32 & 0xFFFF) * rows
    weights = wgt.reshape((wgt.shape[0] * rows, narrow))
    group = sweep_rows(swept, wgt)
    if not _inside(row, indices, 0, acc_base, DST_OUT, DST_IN, len(acc)):
        return OUTSIDE
    if row[RESET] == 0 and not (
        _inputs_inside(row, indices, inp_base, own, chain_base, len(inp), (swept.shape[1] - 1) * inputs)
        and _inside(row, indices, 2, wgt_base, WGT_OUT, WGT_IN, len(weights))
    ):
        return OUTSIDE
    for y in range(row[ITER_OUT]):
        for x in range(row[ITER_IN]):
            for k in range(len(indices)):
                target = acc[acc_base + indices[k, 0] + y * row[DST_OUT] + x * row[DST_IN]]
                if row[RESET]:
                    target[:] = 0
                    continue
                s = inp_base + indices[k, 1] + y * row[SRC_OUT] + x * row[SRC_IN]
                w = wgt_base + indices[k, 2] + y * row[WGT_OUT] + x * row[WGT_IN]
                hold(swept, inp, (s - s % inputs, w % outputs), inp_zero)
                if w % group >= group // 2:
                    continue
                if row[OVERWRITE]:
                    target[:] = 0
                first = w - w % group
                for r in range(len(swept)):
                    for t in range(swept.shape[1]):
                        for j in range(target.shape[1]):
                            number = first + (r * swept.shape[1] + t) * inputs + j // narrow
                            weight = np.int32(weights[number, j % narrow]) - wgt_zero
                            for b in range(target.shape[0]):
                                target[b, j] += swept[r, t, b, j] * weight
    return DONE


@compiled()
def run_alu(row, here, widths, pads):  # type: ignore[no-untyped-def]
    """Executes the ALU `row` on the accumulators of `pads`; returns DONE, or OUTSIDE for an index out of bounds or an
    operation that does not exist. `here`: values of the unit's configuration registers; `widths`: bits of a micro-op's
    fields.
    """
    uop, acc = pads.uop, pads.acc
    if not is_operation(row[ALU_OPCODE], pads.custom):
        return OUTSIDE
    if _empty(row):
        return DONE
    if row[UOP_END] > len(uop):
        return OUTSIDE
    indices = _split(row, widths, uop)
    base = here[0] & 0xFFFF
    if not _inside(row, indices, 0, base, DST_OUT, DST_IN, len(acc)):
        return OUTSIDE
    if row[USE_IMM] == 0 and not _inside(row, indices, 1, base, SRC_OUT, SRC_IN, len(acc)):
        return OUTSIDE
    flat = acc.reshape((acc.shape[0], acc.shape[1] * acc.shape[2]))
    for y in range(row[ITER_OUT]):
        for x in range(row[ITER_IN]):
            for k in range(len(indices)):
                target = flat[base + indices[k, 0] + y * row[DST_OUT] + x * row[DST_IN]]
                source = target
                if row[USE_IMM] == 0:
                    source = flat[base + indices[k, 1] + y * row[SRC_OUT] + x * row[SRC_IN]]
                operate_on_lanes(row[ALU_OPCODE], target, source, row[USE_IMM], row[IMM], pads.custom)
    return DONE


@compiled()
def run_operations(row, here, widths, pads):  # type: ignore[no-untyped-def]
    """Executes the instruction `row`, a GEMM, DEPTHWISE, TAPS or ALU (OPERATIONS), on the scratchpads `pads`; returns
    DONE, or OUTSIDE for an index out of bounds and the other errors of `run_gemm` and `run_alu`. `here`: values of the
    unit's configuration registers; `widths`: bits of a micro-op's fields.
    """
    kind, own = row[KIND], len(pads.inp)
    chain_base = len(pads.inputs) - len(pads.chain) // (pads.inp.shape[1] * pads.inp.shape[2])
    if kind == GEMM:
        return run_gemm(row, here, widths, pads, own, chain_base)
    if sweeps(kind, here):
        return run_sweep(row, here, widths, pads, own, chain_base)
    if BY_LANE[kind]:
        return run_depthwise(row, here, widths, pads, own, chain_base)
    return run_alu(row, here, widths, pads)

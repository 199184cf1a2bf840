"""Executes GEMM with the extension `fold`. The array has fewer columns than vectors have lanes, so an operation
multiplies a part of the input vector for a part of the lanes; the index of its weight tile selects both parts.
"""

from __future__ import annotations

import numpy as np

from vdla.isa.registers import register
from vdla.util.machine_code import compiled

from .kernels import LANES, multiply_tile
from .state import (
    DST_IN,
    DST_OUT,
    ITER_IN,
    ITER_OUT,
    OVERWRITE,
    SRC_IN,
    SRC_OUT,
    WGT_IN,
    WGT_OUT,
)

FOLD = register("FOLD").index
"""Index of register FOLD among the compute unit's registers."""


@compiled()
def groups_of(fold):  # type: ignore[no-untyped-def]
    """Number of groups into which register FOLD divides the array's rows; each group makes sums of its own. `fold`:
    value of the register.
    """
    return np.int64(1) << (fold & 7)


@compiled()
def parts_of(w, folds, groups):  # type: ignore[no-untyped-def]
    """Returns the parts of the data for an operation with weight tile `w`: (part of the input vector, part of the
    output lanes).

    `folds`: number of consecutive weight tiles that form one block_in x block_out block of weights (block_out / columns
    of the array). `groups`: number of groups into which the array's rows are divided.
    """
    part = w % folds
    return part % groups, part // groups


@compiled()
def add_products(totals, inputs, weights, inp_zero, wgt_zero):  # type: ignore[no-untyped-def]
    """Adds dot products to `totals`, int32 (lanes,): for each lane, the sum of inputs times weights, after zero points
    `inp_zero` and `wgt_zero` are subtracted. `inputs`: (2 x pairs,). `weights`: (pairs, lanes, 2), in which the weights
    of two neighbouring inputs are adjacent.
    """
    for pair in range(len(weights)):
        first = np.int32(inputs[2 * pair]) - inp_zero
        second = np.int32(inputs[2 * pair + 1]) - inp_zero
        for lane in range(len(totals)):
            totals[lane] += first * (np.int32(weights[pair, lane, 0]) - wgt_zero)
            totals[lane] += second * (np.int32(weights[pair, lane, 1]) - wgt_zero)


@compiled()
def run_folded(row, here, indices, inp, packed, acc, inp_zero, wgt_zero):  # type: ignore[no-untyped-def]
    """Executes a GEMM that is neither empty nor a reset and has all indices in bounds. `row`: the decoded instruction;
    `here`: values of its unit's configuration registers.

    `indices` (n, 3): dst, src and wgt of its micro-ops. `inp`: input vectors; `packed` (depth, blocks of columns,
    pairs, lanes, 2): weight tiles; `acc`: accumulators; `inp_zero`, `wgt_zero`: zero points of inputs and weights.
    """
    acc_base, inp_base, wgt_base = here[0] & 0xFFFF, here[0] >> 16 & 0xFFFF, here[0] >> 32 & 0xFFFF
    batch, blocks, lanes = acc.shape[1], packed.shape[1], packed.shape[3]
    columns, groups = blocks * lanes, groups_of(here[FOLD])
    folds, pairs = acc.shape[2] // columns, packed.shape[2] // groups  # pairs of a group
    fast = lanes == LANES and inp_zero == 0 and wgt_zero == 0
    totals = np.empty(lanes, np.int32)
    for y in range(row[ITER_OUT]):
        for x in range(row[ITER_IN]):
            dst = acc_base + y * row[DST_OUT] + x * row[DST_IN]
            src = inp_base + y * row[SRC_OUT] + x * row[SRC_IN]
            wgt = wgt_base + y * row[WGT_OUT] + x * row[WGT_IN]
            for k in range(len(indices)):
                d, s, w = dst + indices[k, 0], src + indices[k, 1], wgt + indices[k, 2]
                part, lanes_part = parts_of(w, folds, groups)
                add = np.int64(row[OVERWRITE] == 0 or part != 0)
                first_pair = part * pairs
                for g in range(groups):
                    lane = (lanes_part * groups + g) * columns
                    if fast:
                        target = acc.ctypes.data + d * acc.strides[0] + lane * 4
                        source = inp.ctypes.data + s * inp.strides[0] + first_pair * 4
                        tile = packed.ctypes.data + w * packed.strides[0] + g * pairs * 4 * LANES
                        for b in range(batch):
                            for block in range(blocks):
                                multiply_tile(  # pyright: ignore[reportCallIssue]
                                    target + b * acc.strides[1] + block * 4 * LANES,
                                    tile + block * packed.strides[1],
                                    source + b * inp.strides[1],
                                    pairs,
                                    add,
                                )
                        continue
                    for b in range(batch):
                        inputs = inp[s, b, 2 * first_pair : 2 * (first_pair + pairs)]
                        for block in range(blocks):
                            totals[:] = 0
                            weights = packed[w, block, g * pairs : (g + 1) * pairs]
                            add_products(totals, inputs, weights, inp_zero, wgt_zero)
                            line = acc[d, b, lane + block * lanes : lane + (block + 1) * lanes]
                            for j in range(lanes):
                                line[j] = np.int32(totals[j] + add * np.int64(line[j]))

"""How operands change from one operation to the next: what switching depends on, besides counts.

The program runs with its data, instruction by instruction as `execute.py` does. Before every GEMM its operations are
looked at in order, all or the first of each instruction: bits that differ between an operation and the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from vdla.isa.config import Config
from vdla.isa.errors import ProgramError
from vdla.isa.layout import uop_fields
from vdla.util.machine_code import compiled

from .decode import decode
from .execute import run_row, start_pads
from .loads import OUTSIDE
from .state import (
    CHAIN,
    DRAM_BASE,
    DST_IN,
    DST_OUT,
    GEMM,
    ITER_IN,
    ITER_OUT,
    KIND,
    LOAD_ACC,
    LOAD_ACC8,
    OVERWRITE,
    PAR_INDEX,
    REGISTERS_AT,
    RESET,
    SRAM_BASE,
    SRC_IN,
    SRC_OUT,
    STORE_OUT,
    STORE_POST,
    UOP_BGN,
    UOP_END,
    WGT_IN,
    WGT_OUT,
    X_PAD_0,
    X_PAD_1,
    X_SIZE,
    X_STRIDE,
    Y_PAD_0,
    Y_PAD_1,
    Y_SIZE,
)

MEASURED = (
    "inputs", "weights", "partial_products", "products", "sums", "accumulators",
    "loaded", "loaded_lanes", "stored", "scaled", "outputs",
)  # fmt: skip
"""What is counted. Of GEMM, bits that change: of input vectors, weight tiles, ANDs of single bits of a pair, products
of a pair, sums in the adder trees, accumulator vectors as they are written. Of loads of accumulators: bits that change
from one to the next, and lanes. Of stores: bits that change of the accumulators read (the first of each window), of the
ANDs of single bits of a sum and its scale's mantissa (STORE.POST), and of the bytes stored."""

SUM_BITS = 24
"""Bits of a sum that are looked at; longer ones repeat their sign."""

_OPERATIONS = len(MEASURED)
_LOADED, _LOADED_LANES, _STORED, _SCALED, _OUTPUTS = range(6, 11)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandStatistics:
    """The counts of a program by `MEASURED`, and how many GEMM operations there are.

    Where only some were looked at, their bits stand for all in proportion, instruction by instruction.
    """

    operations: int
    changes: dict[str, float]


def operand_statistics(
    config: Config, instructions: NDArray[np.uint64], memory: NDArray[np.uint8], *, most: int | None = None
) -> OperandStatistics:
    """The statistics of a program with memory `memory`, `most` operations of each instruction looked at (all: None).

    Raises ProgramError as `simulate` does.
    """
    decoded = decode(config, instructions, len(memory))
    image = np.array(memory, np.uint8)
    pads = start_pads(config)
    widths = np.array([item.width for item in uop_fields(config)], np.int64)
    totals = np.zeros(len(MEASURED) + 1)
    wrong = _observe(
        decoded.rows, decoded.registers, image, widths, config.uop_bytes, pads, most or 1 << 62, totals
    )
    if wrong >= 0:
        raise ProgramError(f"instruction {wrong} reaches outside a scratchpad")
    return OperandStatistics(
        operations=int(totals[_OPERATIONS]),
        changes=dict(zip(MEASURED, totals[:_OPERATIONS].tolist(), strict=True)),
    )


@compiled()
def _ones(value):  # type: ignore[no-untyped-def]
    """Ones among 32 bits."""
    x = np.uint32(value)
    x = x - ((x >> np.uint32(1)) & np.uint32(0x55555555))
    x = (x & np.uint32(0x33333333)) + ((x >> np.uint32(2)) & np.uint32(0x33333333))
    x = (x + (x >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return np.int64((x * np.uint32(0x01010101)) >> np.uint32(24) & np.uint32(0xFF))


@compiled()
def _observe(rows, registers, memory, widths, uop_bytes, pads, most, totals):  # type: ignore[no-untyped-def]
    """The index of an instruction that reaches outside a scratchpad, or -1."""
    uop, inp, wgt, acc, par = pads.uop, pads.inp, pads.wgt, pads.acc, pads.par
    batch, block_in, block_out = inp.shape[1], inp.shape[2], wgt.shape[1]
    loaded = np.zeros(batch * block_out, np.int32)
    # Of the last vector stored: accumulators, sums, mantissas, bytes.
    kept = np.zeros((4, batch * block_out), np.int64)
    scratch = np.empty(acc.shape[1:], np.int32)
    last_inp = np.zeros((batch, block_in), np.int64)
    last_wgt = np.zeros((block_out, block_in), np.int64)
    # A tree's products and sums: block_in products, then every level.
    last_tree = np.zeros((batch, block_out, 2 * block_in), np.int64)
    last_acc = np.zeros((batch, block_out), np.int64)
    found = np.zeros(len(totals))
    trace = np.empty(uop.shape[0], np.uint64)
    for i in range(len(rows)):
        row = rows[i]
        here = registers[row[REGISTERS_AT]]
        if row[KIND] == GEMM and row[RESET] == 0 and row[UOP_END] <= len(uop):
            count = row[ITER_OUT] * row[ITER_IN] * max(0, row[UOP_END] - row[UOP_BGN])
            if count > 0:
                found[:] = 0
                seen = _measure(
                    row, here, widths, pads, min(most, count), last_inp, last_wgt, last_tree, last_acc, found
                )
                if seen < 0:
                    return i
                for k in range(len(found)):
                    totals[k] += found[k] * count / seen
        outcome, _ = run_row(row, here, memory, widths, uop_bytes, pads, scratch, trace, 0)
        if outcome == OUTSIDE:
            return i
        if row[KIND] in (LOAD_ACC, LOAD_ACC8):
            _loaded(row, acc, loaded, totals)
        elif row[KIND] in (STORE_OUT, STORE_POST):
            _stored(row, here, memory, pads.chain, acc, par, kept, totals)
    return -1


@compiled()
def _loaded(row, acc, loaded, totals):  # type: ignore[no-untyped-def]
    """Accumulators that a load has just written."""
    rows, columns = row[Y_PAD_0] + row[Y_SIZE] + row[Y_PAD_1], row[X_PAD_0] + row[X_SIZE] + row[X_PAD_1]
    if row[X_SIZE] == 0:
        return
    flat, lanes = acc.reshape(-1), acc.shape[1] * acc.shape[2]
    for vector in range(row[SRAM_BASE], row[SRAM_BASE] + rows * columns):
        totals[_LOADED_LANES] += lanes
        for k in range(lanes):
            value = flat[vector * lanes + k]
            totals[_LOADED] += _ones(np.int64(value ^ loaded[k]) & 0xFFFFFFFF)
            loaded[k] = value


@compiled()
def _stored(row, here, memory, chain, acc, par, kept, totals):  # type: ignore[no-untyped-def]
    """What a store has just read and written."""
    flat, lanes, block_out = acc.reshape(-1), acc.shape[1] * acc.shape[2], acc.shape[2]
    post = row[KIND] == STORE_POST
    chained = post and row[CHAIN] == 1
    y_stride, x_stride = row[X_SIZE], np.int64(1)
    if post:
        y_stride, x_stride = here[0] & 0xFFFF, here[0] >> 16 & 0xFFFF
    for y in range(row[Y_SIZE]):
        for x in range(row[X_SIZE]):
            vector = row[SRAM_BASE] + y * y_stride + x * x_stride
            to = (row[DRAM_BASE] + y * row[X_STRIDE] + x) * lanes
            for k in range(lanes):
                value = np.int64(flat[vector * lanes + k])
                out = np.int64(chain[to + k]) if chained else np.int64(memory[to + k])
                totals[_STORED] += _ones((value ^ kept[0, k]) & 0xFFFFFFFF)
                totals[_OUTPUTS] += _ones((out ^ kept[3, k]) & 0xFF)
                kept[0, k], kept[3, k] = value, out
                if post:
                    bias = np.int64(np.int32(par[row[PAR_INDEX], 0, k % block_out]))
                    total = abs(value + bias) & 0xFFFFFFFF
                    mantissa = np.int64(par[row[PAR_INDEX], 1, k % block_out]) & 0x7FFFFF | 0x800000
                    totals[_SCALED] += (
                        _ones(total) * _ones(mantissa)
                        + _ones(kept[1, k]) * _ones(kept[2, k])
                        - 2 * _ones(total & kept[1, k]) * _ones(mantissa & kept[2, k])
                    )
                    kept[1, k], kept[2, k] = total, mantissa


@compiled()
def _measure(  # type: ignore[no-untyped-def]
    row, here, widths, pads, most, last_inp, last_wgt, last_tree, last_acc, found
):
    """Looks at the first `most` operations of a GEMM, and takes back what they did; how many, or -1 outside."""
    uop, inp, wgt, acc = pads.uop, pads.inputs, pads.wgt, pads.acc
    batch, block_in, block_out = inp.shape[1], inp.shape[2], wgt.shape[1]
    acc_base, inp_base, wgt_base = here[0] & 0xFFFF, here[0] >> 16 & 0xFFFF, here[0] >> 32 & 0xFFFF
    seen = 0
    places, before_acc = np.empty(most, np.int64), np.empty((most, batch, block_out), np.int32)
    for y in range(row[ITER_OUT]):
        for x in range(row[ITER_IN]):
            for u in range(row[UOP_BGN], row[UOP_END]):
                if seen == most:
                    break
                word = np.int64(uop[u])
                d = acc_base + (word & ((1 << widths[0]) - 1)) + y * row[DST_OUT] + x * row[DST_IN]
                s = (
                    inp_base
                    + (word >> widths[0] & ((1 << widths[1]) - 1))
                    + y * row[SRC_OUT]
                    + x * row[SRC_IN]
                )
                w = wgt_base + (word >> (widths[0] + widths[1]) & ((1 << widths[2]) - 1))
                w += y * row[WGT_OUT] + x * row[WGT_IN]
                if d >= len(acc) or s >= len(inp) or w >= len(wgt):
                    return -1
                found[_OPERATIONS] += 1
                places[seen] = d
                before_acc[seen] = acc[d]
                seen += 1
                for o in range(block_out):
                    for k in range(block_in):
                        new, old = np.int64(wgt[w, o, k]), last_wgt[o, k]
                        found[1] += _ones((new ^ old) & 0xFF)
                        for b in range(batch):
                            value, before = np.int64(inp[s, b, k]), last_inp[b, k]
                            if o == 0:
                                found[0] += _ones((value ^ before) & 0xFF)
                            # ANDs of all pairs of bits: those that are 1 now or before, but not both.
                            found[2] += (
                                _ones(value & 0xFF) * _ones(new & 0xFF)
                                + _ones(before & 0xFF) * _ones(old & 0xFF)
                                - 2 * _ones(value & before & 0xFF) * _ones(new & old & 0xFF)
                            )
                            product = value * new
                            found[3] += _ones((product ^ last_tree[b, o, k]) & 0xFFFF)
                            last_tree[b, o, k] = product
                for b in range(batch):
                    for o in range(block_out):
                        start, width = 0, block_in
                        while width > 1:
                            for k in range(width // 2):
                                total = last_tree[b, o, start + 2 * k] + last_tree[b, o, start + 2 * k + 1]
                                place = start + width + k
                                found[4] += _ones((total ^ last_tree[b, o, place]) & ((1 << SUM_BITS) - 1))
                                last_tree[b, o, place] = total
                            start += width
                            width //= 2
                        total = last_tree[b, o, start]
                        if row[OVERWRITE] == 0:
                            total += np.int64(acc[d, b, o])
                        found[5] += _ones((total ^ last_acc[b, o]) & 0xFFFFFFFF)
                        last_acc[b, o] = total
                        acc[d, b, o] = np.int32(total)
                for b in range(batch):
                    for k in range(block_in):
                        last_inp[b, k] = inp[s, b, k]
                for o in range(block_out):
                    for k in range(block_in):
                        last_wgt[o, k] = wgt[w, o, k]
    for k in range(seen - 1, -1, -1):
        acc[places[k]] = before_acc[k]
    return seen

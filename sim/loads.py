"""Executes LOAD instructions, from DRAM to a scratchpad.

Each function returns DONE, or OUTSIDE if the load writes the scratchpad out of bounds or has pads that must be 0.
`row`: the decoded instruction. `here`: the values of its unit's configuration registers. `memory`: the DRAM image,
uint8.
"""

from __future__ import annotations

import numpy as np

from vdla.util.machine_code import compiled

from .kernels import LANES
from .ports import load_size
from .state import (
    DRAM_BASE,
    SRAM_BASE,
    X_PAD_0,
    X_PAD_1,
    X_SIZE,
    X_STRIDE,
    Y_PAD_0,
    Y_PAD_1,
    Y_SIZE,
)

DONE, OUTSIDE = 0, -1


@compiled()
def _fits(row, depth):  # type: ignore[no-untyped-def]
    size = load_size(row)
    return size == 0 or row[SRAM_BASE] + size <= depth


@compiled()
def _set(run, first, count, source):  # type: ignore[no-untyped-def]
    run[0], run[1], run[2] = first, count, source


@compiled()
def _copy(target, to, source, start, count):  # type: ignore[no-untyped-def]
    """Copies `count` elements from index `start` of `source` to index `to` of `target`, element by element. Numba would
    take 2 s longer to compile an assignment of array slices, because it needs an error message for different shapes.
    """
    for k in range(count):
        target[to + k] = source[start + k]


@compiled()
def _runs(row):  # type: ignore[no-untyped-def]
    """Runs of consecutive elements of a rectangular load, int64 (m, 3): first scratchpad element, number of elements,
    first DRAM element (-1 for pads). `row`: the decoded instruction.
    """
    columns = row[X_PAD_0] + row[X_SIZE] + row[X_PAD_1]
    runs = np.empty((3 * row[Y_SIZE] + 2, 3), np.int64)
    at, used = row[SRAM_BASE], 0
    if row[X_SIZE] == 0:
        return runs[:0]
    _set(runs[used], at, row[Y_PAD_0] * columns, -1)
    at, used = at + row[Y_PAD_0] * columns, used + 1
    for y in range(row[Y_SIZE]):
        _set(runs[used], at, row[X_PAD_0], -1)
        _set(runs[used + 1], at + row[X_PAD_0], row[X_SIZE], row[DRAM_BASE] + y * row[X_STRIDE])
        _set(runs[used + 2], at + row[X_PAD_0] + row[X_SIZE], row[X_PAD_1], -1)
        at, used = at + columns, used + 3
    _set(runs[used], at, row[Y_PAD_1] * columns, -1)
    return runs[: used + 1]


@compiled()
def _pad_int8(here):  # type: ignore[no-untyped-def]
    return here[0] << 56 >> 56


@compiled()
def load_inp(row, here, memory, inp):  # type: ignore[no-untyped-def]
    """Executes LOAD.INP into `inp` int16 (depth, batch, block_in). `row`: the decoded instruction; `here`: values of
    its unit's configuration registers; `memory`: DRAM. Returns DONE, or OUTSIDE if it writes out of bounds.
    """
    if not _fits(row, len(inp)):
        return OUTSIDE
    flat, size = inp.reshape(-1), inp.shape[1] * inp.shape[2]
    source = memory.view(np.int8)
    for to, count, start in _runs(row):
        if start < 0:
            flat[to * size : (to + count) * size] = _pad_int8(here)
        else:
            _copy(flat, to * size, source, start * size, count * size)
    return DONE


@compiled()
def load_patch(row, here, memory, inp):  # type: ignore[no-untyped-def]
    """Executes LOAD.PATCH into `inp` int16 (depth, batch, block_in), byte by byte in the order of isa/README.md. `row`:
    the decoded instruction; `here`: values of its unit's configuration registers; `memory`: DRAM. Returns DONE, or
    OUTSIDE if it writes out of bounds, has pads in x, or names a row of the batch that does not exist.
    """
    patch, pad = here[1], _pad_int8(here)
    run, step, pitch, left = patch & 0xFF, patch >> 8 & 0xFF, patch >> 16 & 0xFF, patch >> 24 & 0xFF
    row_bytes, batch_row = patch >> 32 & 0xFFFF, patch >> 48 & 7
    rows, block = row[Y_PAD_0] + row[Y_SIZE] + row[Y_PAD_1], inp.shape[2]
    if row[X_PAD_0] or row[X_PAD_1] or batch_row >= inp.shape[1]:
        return OUTSIDE
    if rows == 0 or run == 0 or row[X_SIZE] == 0:
        return DONE
    if row[SRAM_BASE] + (row[X_SIZE] - 1) * pitch + (rows * run - 1) // block >= len(inp):
        return OUTSIDE
    source = memory.view(np.int8)
    for y in range(rows):
        data = y >= row[Y_PAD_0] and y < row[Y_PAD_0] + row[Y_SIZE]
        start = row[DRAM_BASE] + (y - row[Y_PAD_0]) * row[X_STRIDE]
        for w in range(row[X_SIZE]):
            first = row[SRAM_BASE] + w * pitch
            for i in range(run):
                c, k = w * step + i - left, y * run + i
                value = np.int16(pad)
                if data and c >= 0 and c < row_bytes:
                    value = np.int16(source[start + c])
                inp[first + k // block, batch_row, k % block] = value
    return DONE


@compiled()
def load_wgt(row, memory, wgt, packed):  # type: ignore[no-untyped-def]
    """Executes LOAD.WGT into `wgt` int8 (depth, columns, block_in) and its copy `packed` int16 (depth, blocks of
    columns, pairs of inputs, lanes, 2). `row`: the decoded instruction; `memory`: DRAM. Returns DONE, or OUTSIDE if it
    writes out of bounds.
    """
    if not _fits(row, len(wgt)):
        return OUTSIDE
    source = memory.view(np.int8)
    flat, size = wgt.reshape(-1), wgt.shape[1] * wgt.shape[2]
    blocks, pairs, lanes = packed.shape[1], packed.shape[2], packed.shape[3]
    words = packed.reshape(-1).view(np.int32)  # each word is a pair of int16, the first in the low half
    for to, count, start in _runs(row):
        if start < 0:
            flat[to * size : (to + count) * size] = 0
            packed[to : to + count] = 0
            continue
        _copy(flat, to * size, source, start * size, count * size)
        for tile in range(to, to + count):
            for block in range(blocks):
                for lane in range(lanes):
                    line = tile * size + (block * LANES + lane) * 2 * pairs
                    place = (tile * blocks + block) * pairs * lanes + lane
                    for pair in range(pairs):
                        low, high = np.int32(flat[line + 2 * pair]), np.int32(flat[line + 2 * pair + 1])
                        words[place + pair * lanes] = high << 16 | low & 0xFFFF
    return DONE


@compiled()
def load_uop(row, memory, size, uop):  # type: ignore[no-untyped-def]
    """Executes LOAD.UOP into `uop` uint64; a micro-op has `size` bytes in DRAM `memory` (4 or 8). `row`: the decoded
    instruction. Returns DONE, or OUTSIDE if it writes out of bounds.
    """
    if not _fits(row, len(uop)):
        return OUTSIDE
    for to, count, start in _runs(row):
        if start < 0:
            uop[to : to + count] = 0
        else:
            data = memory[size * start : size * (start + count)]
            if size == 4:
                _copy(uop, to, data.view(np.uint32), 0, count)
            else:
                _copy(uop, to, data.view(np.uint64), 0, count)
    return DONE


@compiled()
def load_acc(row, here, memory, acc):  # type: ignore[no-untyped-def]
    """Executes LOAD.ACC into `acc` int32 (depth, batch, block_out). `row`: the decoded instruction; `here`: values of
    its unit's configuration registers; `memory`: DRAM. Returns DONE, or OUTSIDE if it writes out of bounds.
    """
    if not _fits(row, len(acc)):
        return OUTSIDE
    flat, lanes = acc.reshape(-1), acc.shape[1] * acc.shape[2]
    for to, count, start in _runs(row):
        if start < 0:
            flat[to * lanes : (to + count) * lanes] = np.int32(here[1])
        else:
            words = memory[4 * start * lanes : 4 * (start + count) * lanes].view(np.int32)
            _copy(flat, to * lanes, words, 0, count * lanes)
    return DONE


@compiled()
def load_acc8(row, here, memory, acc):  # type: ignore[no-untyped-def]
    """Executes LOAD.ACC8 into `acc` int32 (depth, batch, block_out): int8 values of DRAM `memory`, sign-extended.
    `row`: the decoded instruction; `here`: values of its unit's configuration registers. Returns DONE, or OUTSIDE if it
    writes out of bounds.
    """
    if not _fits(row, len(acc)):
        return OUTSIDE
    flat, lanes = acc.reshape(-1), acc.shape[1] * acc.shape[2]
    source = memory.view(np.int8)
    for to, count, start in _runs(row):
        if start < 0:
            flat[to * lanes : (to + count) * lanes] = np.int32(here[1])
        else:
            _copy(flat, to * lanes, source, start * lanes, count * lanes)
    return DONE


@compiled()
def load_table(row, memory, table):  # type: ignore[no-untyped-def]
    """Executes LOAD.TABLE from DRAM `memory` into `table` int8 (depth, 256). `row`: the decoded instruction. Returns
    DONE, or OUTSIDE if it writes out of bounds or has pads.
    """
    if not _fits(row, len(table)) or row[X_PAD_0] or row[X_PAD_1] or row[Y_PAD_0] or row[Y_PAD_1]:
        return OUTSIDE
    flat, size = table.reshape(-1), table.shape[1]
    source = memory.view(np.int8)
    for to, count, start in _runs(row):
        if start >= 0:
            _copy(flat, to * size, source, start * size, count * size)
    return DONE


@compiled()
def load_par(row, memory, par):  # type: ignore[no-untyped-def]
    """Executes LOAD.PAR from DRAM `memory` into `par` uint32 (depth, 2, block_out). `row`: the decoded instruction.
    Returns DONE, or OUTSIDE if it writes out of bounds.
    """
    if not _fits(row, len(par)):
        return OUTSIDE
    flat, size = par.reshape(-1), 2 * par.shape[2]
    for to, count, start in _runs(row):
        if start < 0:
            flat[to * size : (to + count) * size] = 0
        else:
            words = memory[4 * start * size : 4 * (start + count) * size].view(np.uint32)
            _copy(flat, to * size, words, 0, count * size)
    return DONE

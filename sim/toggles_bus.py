"""Counts the bits that toggle on the bus from one beat to the next, by the unit that moves the data."""

from __future__ import annotations

import numpy as np

from vdla.util.machine_code import compiled

from .decode import operand_shape, patch_row_bytes
from .state import (
    CHAIN,
    DRAM_BASE,
    KIND,
    LOAD_ACC,
    LOAD_ACC8,
    LOAD_INP,
    LOAD_PAR,
    LOAD_PATCH,
    LOAD_TABLE,
    LOAD_UOP,
    LOAD_WGT,
    OPERAND,
    STORE_POST,
    X_SIZE,
    X_STRIDE,
    Y_SIZE,
)
from .toggles_array import ones

BUS_MEASURED = ("fetched", "loaded_words", "compute_words", "store_words", "written_words")
"""Counters of bits that toggle on the bus, in this order, for: instructions; loads of inputs and weights; loads of the
compute unit; reads of the store unit; outputs.
"""

_FETCHED, _LOADED, _COMPUTE, _STORE, _WRITTEN = range(5)


@compiled()
def _bytes(memory, begin, end, beat, which, totals):  # type: ignore[no-untyped-def]
    """Counts the bits that toggle on the data lines of the bus while it transfers `memory[begin:end]`, and adds them to
    `totals[which]`. `beat`: bytes of the previous beat; replaced by those of the last one.
    """
    bus = len(beat)
    found = 0
    for first in range(begin // bus * bus, end, bus):
        for k in range(bus):
            value = memory[first + k] if first + k < len(memory) else np.uint8(0)
            found += ones(np.int64(value ^ beat[k]))
            beat[k] = value
    totals[which] += found


@compiled()
def observe_fetch(words, beats, totals):  # type: ignore[no-untyped-def]
    """Counts the toggled bits of the beats that fetch all instructions, one after the other; `words`: bytes of the
    program; `beats`: the last beats on the bus; the first of them, the last beat read, is updated; `totals`: counters
    of toggled bits, updated.
    """
    _bytes(words, 0, len(words), beats[0], _FETCHED, totals)


@compiled()
def observe_transfer(row, here, memory, sizes, beats, totals):  # type: ignore[no-untyped-def]
    """Counts the bits that toggle on the bus while the data of the instruction `row` are transferred. If `beats` has
    two rows, it counts reads: those of a load, or of a store's operands. If `beats` has one row, it counts the outputs
    of a store.

    `memory`: DRAM. `beats`, uint8 (n, bus bytes): the first row has the bytes of the last beat on the bus, and is
    updated. `here`: values of the unit's configuration registers. `sizes`: DRAM bytes of an element by kind of
    instruction. `totals`: counters of toggled bits, updated.
    """
    kind = row[KIND]
    size = sizes[kind]
    if size == 0 or row[Y_SIZE] == 0 or row[X_SIZE] == 0:
        return
    pitch, length, shift = row[X_STRIDE] * size, row[X_SIZE] * size, np.int64(0)
    if kind in (LOAD_INP, LOAD_WGT):
        which = _LOADED
    elif kind == LOAD_PATCH:
        which, pitch, length = _LOADED, row[X_STRIDE], patch_row_bytes(row, here[1])
    elif kind in (LOAD_UOP, LOAD_ACC, LOAD_ACC8):
        which = _COMPUTE
    elif kind in (LOAD_PAR, LOAD_TABLE):
        which = _STORE
    elif len(beats) == 1:
        if kind == STORE_POST and row[CHAIN]:
            return
        which = _WRITTEN
    elif kind == STORE_POST and row[OPERAND]:
        which = _STORE
        first, pitch, length = operand_shape(row, here[5])
        shift, pitch, length = (first - row[DRAM_BASE]) * size, pitch * size, length * size
    else:
        return
    if length <= 0:
        return
    begin, rows = row[DRAM_BASE] * size + shift, row[Y_SIZE]
    if pitch == length:
        rows, length = np.int64(1), rows * length
    for y in range(rows):
        _bytes(memory, begin + y * pitch, begin + y * pitch + length, beats[0], which, totals)

"""Splits the cycles of a simulated run over the network's layers, so that they sum up exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa.layout import Opcode
from vdla.isa.program import Program

from .traffic import owners


def layer_starts(program: Program, begin: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cycle in which the first instruction of each layer (a group of instructions in `program.groups`) begins, int64
    [groups]; this may be before the previous layer ends.

    `begin` is the cycle in which each instruction begins, -1 if it never does. A layer without instructions starts at
    0.
    """
    started = np.full(len(program.groups), np.iinfo(np.int64).max)
    ran = begin >= 0
    np.minimum.at(started, owners(program)[ran], begin[ran])
    return np.where(started == np.iinfo(np.int64).max, 0, started)


def layer_boundaries(program: Program, end: NDArray[np.int64], cycles: int) -> NDArray[np.int64]:
    """The cycles at which the layers (groups of instructions in `program.groups`) begin and end, int64 [groups + 1].
    Layer g lasts from element g to element g + 1 of the result. The first element is 0, and the last one is `cycles`.

    `end` is the cycle in which each instruction ends. A layer ends when its last store ends. A layer whose stores end
    before those of an earlier layer lasts 0 cycles.
    """
    stores = (np.asarray(program.instructions)[:, 0] & np.uint64(7)) == Opcode.STORE
    last = np.zeros(len(program.groups), np.int64)
    np.maximum.at(last, owners(program)[stores], end[stores])
    boundaries = np.concatenate(([0], np.maximum.accumulate(last)))
    boundaries[-1] = cycles
    return boundaries

"""Finds the cycles in which each instruction begins and ends, from recorded events of the trace ports."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.decoding import decode_one
from vdla.isa.layout import Opcode, Unit, unit_of


def instruction_times(
    config: Config, instructions: NDArray[np.uint64], events: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns two arrays, int64 (n,): the cycles in which each of `instructions`, uint64 (n, words), begins and ends;
    -1 for an event that did not happen.

    `events` int64 (m, 5), in order of cycles: cycle, unit, number of the unit's instructions that begin in this cycle,
    number of its instructions other than CONFIG that end, and number of its CONFIGs that end. A unit's instructions
    begin in order; CONFIGs end in order among themselves, and so do all other instructions.
    """
    begin = np.full(len(instructions), -1, np.int64)
    end = begin.copy()
    order: dict[Unit, list[int]] = {unit: [] for unit in Unit}
    is_config = (instructions[:, 0] & np.uint64(7)) == Opcode.CONFIG
    for index, words in enumerate(instructions.tolist()):
        name, values = decode_one(config, *words)
        order[unit_of(name, values)].append(index)
        if name == "FINISH":
            break
    for unit in Unit:
        mine = events[events[:, 1] == unit]
        indices = np.array(order[unit], np.int64)
        for chosen, into, column in (
            (indices, begin, 2),
            (indices[~is_config[indices]], end, 3),
            (indices[is_config[indices]], end, 4),
        ):
            cycles = np.repeat(mine[:, 0], mine[:, column])
            into[chosen[: len(cycles)]] = cycles[: len(chosen)]
    return begin, end

"""Finds the cycles in which a program reads or writes the rows of a DRAM, by channel and bank.

A run of words is a sequence of bus words of one row whose column commands (READ or WRITE) are in consecutive cycles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.dram_memory import DRAM
from vdla.isa.scratchpads import Contents

from .decode import decode
from .dram_machine import WordLog
from .dram_port import L_BANK, L_CHANNEL, L_CYCLE, L_OPENED, L_ROW, L_SIZE, L_WORDS, L_WRITE
from .execute import trace_uops
from .machine import run_timing
from .simulate import DEFAULT_CYCLE_LIMIT

_BANK_BITS = 16
_BANK_MASK = (1 << _BANK_BITS) - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordRuns:
    """The runs of words of a program, in order of time: arrays with one element for each run of words.

    `start` and `stop`: the cycles of the first column command and after the last one. `channel`, `bank`, `row`: where
    the words are. `write`: whether they are written. `opened`: number of rows that were opened for the run, 0 or 1,
    more if a refresh closed the row again.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    channel: NDArray[np.int64]
    bank: NDArray[np.int64]
    row: NDArray[np.int64]
    write: NDArray[np.bool_]
    opened: NDArray[np.int64]

    def banks(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Returns (for each run of words, the index of its bank among the banks; the names of the banks). The banks are
        those that have words, and bank 0 of channel 0. If all words are in channel 0, a name has no channel.
        """
        keys = np.append(0, self.channel << _BANK_BITS | self.bank)
        known, places = np.unique(keys, return_inverse=True)
        several = bool(self.channel.any())
        names = [
            f"channel {key >> _BANK_BITS}, bank {key & _BANK_MASK}" if several else f"bank {key}"
            for key in known.tolist()
        ]
        return places.reshape(-1)[1:], tuple(names)


def word_runs(
    config: Config,
    instructions: NDArray[np.uint64],
    memory: NDArray[np.uint8],
    *,
    scratchpads: Contents | None = None,
) -> WordRuns | None:
    """Simulates the timing of a program twice, and returns its runs of words. The program must be one that `simulate`
    runs to its end; the arguments are those of `simulate`.

    Returns None for a machine without a DRAM, and for a DRAM of one channel that is simulated cycle by cycle
    (`dram_words.has_closed_form`).
    """
    if config.memory.kind != DRAM:
        return None
    decoded = decode(config, instructions, len(memory))
    trace = trace_uops(config, decoded, memory, scratchpads)
    log, cycle = WordLog(np.zeros((0, L_SIZE), np.int64)), 0
    # The first run counts the runs of words, the second one writes them down.
    for _ in range(2):
        log = WordLog(np.zeros((log.count, L_SIZE), np.int64))
        cycle = run_timing(
            config, decoded, len(instructions), len(memory), DEFAULT_CYCLE_LIMIT, trace, scratchpads, log
        ).cycle
    if not log.count:
        return None
    found = log.runs[log.runs[:, L_CYCLE] <= cycle]
    return WordRuns(
        start=found[:, L_CYCLE],
        stop=found[:, L_CYCLE] + found[:, L_WORDS],
        channel=found[:, L_CHANNEL],
        bank=found[:, L_BANK],
        row=found[:, L_ROW],
        write=found[:, L_WRITE] != 0,
        opened=found[:, L_OPENED],
    )

"""Streams of AXI bursts, with which a model of a DRAM and LiteDRAM's RTL are compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

S_WRITE, S_WORD, S_WORDS, S_EARLIEST, S_GAP = range(5)
"""Columns of a request: whether it writes, its first bus word, its number of words, the earliest cycle of its address,
and, for writes, the cycles between its words.
"""
T_ACCEPTED, T_FIRST, T_END = range(3)
"""Columns of an array of cycles, a row for each burst. T_ACCEPTED: the address is accepted. T_FIRST: the first word of
a read arrives (-1 for writes). T_END: the last word of a read, or the response to a write, arrives. -1: the run stopped
before the event.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Streams:
    """Requests of masters that share a DRAM.

    `requests` int64 (masters, n, 5): n bursts of each master in the order of issue, with the columns S_WRITE to S_GAP.
    `stalls` int64 (masters,): on average, a master refuses data and responses in this number of every 8 cycles, at
    pseudo-random times. `reads`, `writes`: largest numbers of read bursts and of write bursts that a master has in
    flight.
    """

    requests: NDArray[np.int64]
    stalls: NDArray[np.int64]
    reads: int = 8
    writes: int = 4

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
"""Columns of a request's cycles: its address is accepted, its first word arrives (-1 for writes), its last word arrives
or its response. -1 if the burst has not ended when the run stops.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Streams:
    """Requests of masters that share a DRAM.

    `requests` int64 (masters, n, 5): a row for each burst in the order of issue. `stalls` int64 (masters,): of 8
    cycles, the average number in which the master takes neither data nor responses (pseudo-random). `reads`, `writes`:
    most bursts of a master in flight.
    """

    requests: NDArray[np.int64]
    stalls: NDArray[np.int64]
    reads: int = 8
    writes: int = 4

"""State of the machine's side of a DRAM's AXI port (`dram_machine.py`)."""

from __future__ import annotations

from typing import NamedTuple

from .arrays import Array
from .state import Q_READY, R_RESERVED

R_REQUEST = R_RESERVED
"""Column of ring R in a run with a DRAM: 1 + the number of the request of which the entry is the last beat, else 0."""
Q_REQUEST = Q_READY
"""Column of array Q in a run with a DRAM: the number of the request, an index of ring A."""

# E: the next cycle to simulate; the first cycle in which a read address may be on the bus; reads and writes that are
# outstanding; write bursts whose address was shown, and whether one waits for its acceptance; beats of the current
# write, and of the oldest read, that have moved; responses that came; the address of the first byte of the next entry
# of R; for each client, entries of R whose room `_free_room` has seen.
E_CYCLE, E_OPEN, E_READS, E_WRITES, E_ANNOUNCED, E_WAITS, E_SENT, E_ARRIVED, E_RESPONSES, E_FIRST, E_SEEN = (
    range(11)
)
E_SIZE = E_SEEN + 4


class Dram(NamedTuple):
    """State arrays of the memory. A: requests of the read clients, as ring R of a run without DRAM. E: the machine's
    side of the AXI port. P, G, B, L, M, F: parameters and state of the controller (`sim/dram.py`), with its `inputs`.
    """

    A: Array
    E: Array
    P: Array
    G: Array
    B: Array
    L: Array
    M: Array
    F: Array
    inputs: Array

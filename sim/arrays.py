"""Named groups of a timing run's arrays, which the functions of the timing core take as arguments.

`state.py` names the columns of each array. Further arguments of the same functions are the array P (`parameters.py`)
and the state arrays U (units), V (the current store) and X (a record for each instruction).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]


class Program(NamedTuple):
    """A program: decoded instructions `rows`, the configuration `registers` that instructions see, and `order[unit]`,
    the indices of a unit's instructions.

    `sizes[kind]`: DRAM bytes of an element of a LOAD or STORE. B: for each instruction, the accumulator banks that its
    operations read; `kept`: copies of micro-ops, from which the bank of an operation is computed if the banks differ
    (`ports.py`).
    """

    rows: Array
    registers: Array
    order: Array
    sizes: Array
    B: Array
    kept: NDArray[np.uint64]


class Bus(NamedTuple):
    """State arrays of the memory port. M: state of the memory and of fetch. C: read clients. R: bursts of the read
    clients. Q: accepted reads. W: write bursts.
    """

    M: Array
    C: Array
    R: Array
    Q: Array
    W: Array


class Tokens(NamedTuple):
    """State of the token queues. T: counters of each queue. `pushed`, `popped`: cycles of each queue's pushes and pops.
    `pop_queue`, `push_queue` [unit, side]: the queue of a unit's flags pop_prev and pop_next, push_prev and push_next.
    """

    T: Array
    pushed: Array
    popped: Array
    pop_queue: Array
    push_queue: Array


class Traffic(NamedTuple):
    """Data bytes `moved` and bus `beats`, each indexed by kind of traffic (`state.TRAFFIC`)."""

    moved: Array
    beats: Array

"""Named groups of the arrays of a timing run, as arguments of the functions of the timing core.

`state.py` names the columns of each array. Further arguments are P (`parameters.py`) and the state arrays U, V and X.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]


class Program(NamedTuple):
    """A program as arrays: `rows` of instructions, the `registers` that each instruction sees, and `order[unit]`, the
    instructions of each unit.

    `sizes` are element bytes by kind; B and `kept` give the accumulator bank that an operation reads (`ports.py`).
    """

    rows: Array
    registers: Array
    order: Array
    sizes: Array
    B: Array
    kept: NDArray[np.uint64]


class Bus(NamedTuple):
    """The memory port: M its state, C its read clients, R their bursts, Q accepted reads, W write bursts."""

    M: Array
    C: Array
    R: Array
    Q: Array
    W: Array


class Tokens(NamedTuple):
    """T: the token queues; `pushed` and `popped`: the cycles of each queue's pushes and pops; and the queue of each
    unit's flags.
    """

    T: Array
    pushed: Array
    popped: Array
    pop_queue: Array
    push_queue: Array


class Traffic(NamedTuple):
    """Data bytes `moved` and bus `beats` by kind of traffic."""

    moved: Array
    beats: Array

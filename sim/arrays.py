"""Groups of arrays that the functions of the timing simulation take as arguments: program, bus, tokens, traffic.

`state.py` names the columns of each array. The functions also take single arrays: P (`parameters.py`) and the state
arrays U (units), V (the current store) and X (a record for each instruction).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]


class Program(NamedTuple):
    """A program: `rows`, the decoded instructions; `registers`, the configuration registers at each instruction;
    `order[unit]`, the indices of a unit's instructions.

    `sizes[kind]`: DRAM bytes of an element of a LOAD or STORE. B: for each instruction, the accumulator banks that it
    reads. `kept`: the micro-ops of instructions whose operations read different banks. `ports.py` computes the bank of
    each of these operations from its micro-op.
    """

    rows: Array
    registers: Array
    order: Array
    sizes: Array
    B: Array
    kept: NDArray[np.uint64]


class Bus(NamedTuple):
    """State arrays of the memory port. M: state of the memory and of the fetch unit. C: a row for each read client. R:
    the bursts of each read client. Q: reads that the memory has accepted. W: write bursts.
    """

    M: Array
    C: Array
    R: Array
    Q: Array
    W: Array


class Tokens(NamedTuple):
    """State of the token queues. T: counters of each queue. `pushed`, `popped`: cycles of each queue's pushes and pops.
    `pop_queue` [unit, side]: the queue from which a unit's flag pop_prev (side 0) or pop_next (side 1) takes a token.
    `push_queue` [unit, side]: the queue into which push_prev or push_next puts a token.
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


class RunArrays(NamedTuple):
    """All arrays of the timing run of a program: the arguments of `machine.run`, in their order. The functions for
    machines with a DRAM take them together.

    P: the parameters of the run. U: state of the units. V: state of the current store. X: a record for each
    instruction.
    """

    P: Array
    U: Array
    V: Array
    X: Array
    bus: Bus
    tokens: Tokens
    program: Program
    traffic: Traffic

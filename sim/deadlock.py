"""The error message for a run that does not finish: each waiting unit and the event that it waits for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.layout import TOKEN_QUEUES, Unit

from . import state as s
from .decode import Decoded


def describe(
    config: Config,
    decoded: Decoded,
    count: int,
    units: NDArray[np.int64],
    tokens: NDArray[np.int64],
) -> str:
    """The error message: a clause for each unit, with its instruction and the token, queue or data that it waits for;
    then a clause for fetch.

    `decoded`: the program; `count`: number of its instructions, also those behind FINISH. `units`, `tokens`: the arrays
    U and T when the run stopped.
    """
    rows, last = decoded.rows, decoded.last
    clauses = [_unit_clause(config, rows, units, tokens, unit) for unit in Unit]
    dispatched = int(units[:, s.U_DISPATCHED].sum())
    if last == count and dispatched == count:
        clauses.append(
            f"all {count} instructions are dispatched, but none is FINISH: end the program with FINISH"
        )
    elif dispatched <= last and dispatched < count:
        unit = Unit(rows[dispatched, s.UNIT])
        waiting = units[unit, s.U_DISPATCHED] - units[unit, s.U_BEGUN]
        if waiting >= config.command_queue_depth:
            reason = f"room in the command queue of {unit.name.lower()}, which holds {waiting}"
        else:
            reason = "its bytes from memory"
        clauses.append(f"fetch waits to dispatch {_name(rows, dispatched)}: {reason}")
    return "; ".join(clauses)


def _name(rows: NDArray[np.int64], index: int) -> str:
    return f"instruction {index} ({s.KIND_NAMES[rows[index, s.KIND]]})"


def _unit_clause(
    config: Config, rows: NDArray[np.int64], units: NDArray[np.int64], tokens: NDArray[np.int64], unit: Unit
) -> str:
    mine = np.flatnonzero(rows[:, s.UNIT] == unit)
    state = units[unit]
    name = unit.name.lower()
    begun, ended = int(state[s.U_BEGUN]), int(state[s.U_ENDED])
    if begun == state[s.U_DISPATCHED]:
        if ended < begun:
            return f"{name} executes {_name(rows, int(mine[ended]))}"
        return f"{name} waits for an instruction"
    index = int(mine[begun])
    for side, flag in ((0, "pop_prev"), (1, "pop_next")):
        if rows[index, s.POP_PREV + side] and not state[s.U_POPPED] >> side & 1:
            queue = next(q for q in TOKEN_QUEUES if q.consumer == unit and q.pop_flag == flag)
            producer = queue.producer.name.lower()
            return f"{name} waits in {_name(rows, index)} for a {queue.name} token ({flag}; {producer} pushes it)"
    for side, flag in ((0, "push_prev"), (1, "push_next")):
        for number, queue in enumerate(TOKEN_QUEUES):
            if queue.producer != unit or queue.push_flag != flag or not rows[index, s.PUSH_PREV + side]:
                continue
            if tokens[number, s.T_RESERVED] - tokens[number, s.T_POPPED] >= config.token_queue_depth:
                return (
                    f"{name} waits in {_name(rows, index)} for room in the full {queue.name} queue ({flag}; "
                    f"{config.token_queue_depth} tokens, {queue.consumer.name.lower()} pops them)"
                )
    if ended < begun:
        return f"{name} executes {_name(rows, int(mine[ended]))} before it can begin {_name(rows, index)}"
    return f"{name} waits to begin {_name(rows, index)} until the other units have ended"

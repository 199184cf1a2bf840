"""The error message for a program that is deadlocked on the RTL: the event that each unit waits for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.decoding import decode_one
from vdla.isa.layout import TOKEN_QUEUES, Unit, unit_of

from ..counters import CYCLE_COUNTERS


def stall_counters(unit: Unit) -> tuple[str, ...]:
    """Names of the cycle counters of `unit`: those of its activities, then those of its causes of stall."""
    return tuple(name for owner, _, name in CYCLE_COUNTERS if owner is unit)


def describe(
    config: Config,
    instructions: NDArray[np.uint64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    moving: Mapping[Unit, str],
) -> str:
    """Writes the error message for a program that does not end: one clause for each unit, which names the event that it
    waits for, then whether the program lacks a FINISH.

    `instructions`: uint64 (n, words). `begin`, `end` int64 (n,): first and last cycle of each instruction, -1 for an
    event that did not happen. `moving`: for each unit, the name of the activity or stall counter that is still growing,
    which tells its cause of stall.
    """
    names: list[str] = []
    order: dict[Unit, list[int]] = {unit: [] for unit in Unit}
    for index, words in enumerate(instructions.tolist()):
        name, values = decode_one(config, *words)
        names.append(name)
        order[unit_of(name, values)].append(index)
        if name == "FINISH":
            break
    clauses = [_clause(unit, order[unit], names, begin, end, moving[unit]) for unit in Unit]
    if not names or names[-1] != "FINISH":
        clauses.append("no instruction is FINISH: end the program with FINISH")
    return "; ".join(clauses)


def _clause(
    unit: Unit,
    order: list[int],
    names: list[str],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    counter: str,
) -> str:
    unit_name, cause = unit.name.lower(), counter.partition(".")[2]
    executing = next((index for index in order if begin[index] >= 0 and end[index] < 0), None)
    waiting = next((index for index in order if begin[index] < 0), None)
    kind, _, queue_name = cause.partition(":")
    if waiting is not None and kind in ("token", "full"):
        queue = next(queue for queue in TOKEN_QUEUES if queue.name == queue_name)
        where = f"{unit_name} waits in instruction {waiting} ({names[waiting]})"
        if kind == "token":
            return f"{where} for a {queue.name} token ({queue.pop_flag}; {queue.producer.name.lower()} pushes it)"
        return (
            f"{where} for room in the full {queue.name} queue "
            f"({queue.push_flag}; {queue.consumer.name.lower()} pops it)"
        )
    if executing is not None:
        return f"{unit_name} executes instruction {executing} ({names[executing]})"
    if waiting is not None and kind == "unit":
        return (
            f"{unit_name} waits to begin instruction {waiting} ({names[waiting]}) until the instructions before it "
            "have ended"
        )
    return f"{unit_name} waits for an instruction"

"""Finds the unit that an instance belongs to in reports, by the instance's path. Does not import Amaranth, so that area
models can use it.
"""

from __future__ import annotations

from typing import Final

from ..lanes import ACCUMULATOR_LANE, ALU_LANE

TOP_UNIT: Final = "top"

_UNITS: Final = (
    ("compute.pipeline.array", "array"),
    (f"compute.pipeline.{ACCUMULATOR_LANE}.{ALU_LANE}", "alu"),
    ("compute.accumulators", "accumulators"),
    ("compute", "compute"),
    ("store.pipeline", "post"),
    ("store.tables", "look-up tables"),
    ("store.row_entries", "entries of rows"),
    ("store", "store"),
    ("load", "load"),
    ("fetch", "fetch"),
    ("memory_port", "memory port"),
    ("control", "control"),
    ("counters", "counters"),
    ("tokens_", "token queues"),
    ("inp", "input scratchpad"),
    ("wgt", "weight scratchpad"),
    ("chain", "chain memory"),
)
"""Pairs (prefix of instance paths, unit in reports). A path belongs to the unit of the first prefix that matches, or to
`top` if none does.
"""

UNITS: Final = (*dict.fromkeys(unit for _, unit in _UNITS), TOP_UNIT)


def unit_of_path(path: str) -> str:
    """The unit of the instance at the plain `path`, for example "compute.pipeline.array"."""
    for start, unit in _UNITS:
        if path == start or path.startswith(start if start.endswith("_") else start + "."):
            return unit
    return TOP_UNIT

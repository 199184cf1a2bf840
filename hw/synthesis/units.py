"""The units of a report, by where in the RTL a module is. Needs no Amaranth: models of area name units, too."""

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
"""Units of a report by the beginning of an instance's path; the first that fits. What fits none is `top`."""

UNITS: Final = (*dict.fromkeys(unit for _, unit in _UNITS), TOP_UNIT)


def unit_of_path(path: str) -> str:
    """The unit that the instance at the plain `path` ("compute.pipeline.array") belongs to."""
    for start, unit in _UNITS:
        if path == start or path.startswith(start if start.endswith("_") else start + "."):
            return unit
    return TOP_UNIT

"""The table of loads of plain copies: which scratchpad takes elements of which type from DRAM."""

from __future__ import annotations

from ...ir.stmt import Copy, Program
from ...ir.types import DType
from .errors import EmissionError

LOADS = {
    ("inp", DType.INT8): "INP",
    ("wgt", DType.INT8): "WGT",
    ("acc", DType.INT8): "ACC8",
    ("acc", DType.INT32): "ACC",
    ("par", DType.INT32): "PAR",
}
"""The memory type of LOAD by scratchpad and by type of an element in DRAM."""


def not_loaded(program: Program, leaf: Copy) -> EmissionError:
    """The error for a copy of elements that no load takes to the copy's scratchpad."""
    source, scope = leaf.source.buffer, leaf.destination.buffer.scope
    known = " or ".join(dtype for memory, dtype in LOADS if memory == scope)
    return EmissionError(
        f"{program.name}: {leaf.name} copies {source.name}, {source.dtype}, to {scope}; the accelerator loads {known} "
        "there"
    )

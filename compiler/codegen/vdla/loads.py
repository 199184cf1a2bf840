"""The table of loads of boxes (rectangular regions): the element types that each scratchpad can load from DRAM."""

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
"""Maps (scratchpad, type of an element in DRAM) to the memory type of instruction LOAD."""


def not_loaded(program: Program, leaf: Copy) -> EmissionError:
    """The error for the copy `leaf`, whose element type no load can bring to the destination scratchpad."""
    source, scope = leaf.source.buffer, leaf.destination.buffer.scope
    known = " or ".join(dtype for memory, dtype in LOADS if memory == scope)
    return EmissionError(
        f"{program.name}: {leaf.name} copies {source.name}, {source.dtype}, to {scope}; the accelerator loads {known} "
        "there"
    )

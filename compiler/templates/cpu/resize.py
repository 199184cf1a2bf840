"""Resizing on a CPU: vectors of channels where they are innermost, else of columns."""

from __future__ import annotations

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...schedule import Schedule
from .loops import parallel_grains, vectorize_loop


def schedule(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """Schedules `te.ops.resize` for any shape.

    `parallel`: images, channels or rows run on the threads of the kernel's pool.
    """
    outer, oh, ow, lanes = program.parameters[-1].shape
    s = Schedule(program)
    # Weights and positions of a row, or column, are the same in all lanes of the loops inside.
    vectorize_loop(s, target, "x" if lanes == 1 else "j", ow if lanes == 1 else lanes, vectors=2)
    if parallel:
        parallel_grains(s, [("n", outer), ("y", oh)], ow * lanes)
    return s

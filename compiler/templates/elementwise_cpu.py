"""Element-wise operators on a CPU: vectors of the last dimension, chunks of the outer ones in parallel."""

from __future__ import annotations

from ..ir.stmt import Program
from ..schedule import Schedule
from ..target.cpu.machine import CpuTarget
from .vectors import parallel_grains, vector_width, vectorize_loop


def schedule(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """`te.ops.float_elementwise` for any shape. `parallel`: chunks run on the threads of the kernel's pool."""
    shape = program.parameters[-1].shape
    s = Schedule(program)
    loops = [(f"d{d}", size) for d, size in enumerate(shape)]
    last, size = loops.pop()
    width = vector_width(target, size)
    outer = vectorize_loop(s, target, last, size)
    if parallel:
        # A single vector leaves no loop around it.
        tiles = size // width
        around, work = ([*loops, (outer, tiles)], width) if tiles > 1 else (loops, size)
        parallel_grains(s, around, work)
    return s

"""Changes of layout on a CPU: vectors of what is contiguous in the result."""

from __future__ import annotations

from ..ir.stmt import Program
from ..schedule import Schedule
from ..target.cpu.machine import CpuTarget
from .vectors import parallel_grains, vectorize_loop


def schedule(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """`te.ops.relayout` for any shape. `parallel`: chunks run on the threads of the kernel's pool."""
    shape = program.parameters[-1].shape
    s = Schedule(program)
    loops = list(zip(("n", "o", "p", "j"), shape, strict=False))
    name, size = loops[-1]
    if len(shape) == 4:
        s.vectorize(name)
        around, work = loops[:-1], size
    else:
        vectorize_loop(s, target, name, size, 1)
        around, work = loops[:-1], size
    if parallel:
        parallel_grains(s, around, work)
    return s

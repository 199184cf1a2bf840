"""Schedules of Winograd's transforms on a CPU: vectors run over the channels of a block; tiles along borders are
separate kernels, in which reads of pads and partial stores are known at compile time.
"""

from __future__ import annotations

from math import prod

from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Const
from ...ir.stmt import Program
from ...ir.visit import loops
from ...schedule import Schedule
from .loops import parallel_grains, peel_ends, peel_ragged


def schedule_tiles(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """Schedules `te.ops.blocked_winograd.blocked_tiles`. `parallel`: channels run on the threads of the
    kernel's pool.
    """
    s = Schedule(program)
    _vectorize(s, ("j", "l", "left.j", "right.j"))
    if parallel:
        _parallel(s, program, ("n", "c", "y"))
    peel_ends(s, "y", True, True)
    return s


def schedule_outputs(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """Schedules `te.ops.blocked_winograd.blocked_outputs`. `parallel`: filters run on the threads of the
    kernel's pool.
    """
    s = Schedule(program)
    _vectorize(s, ("j", "k", "l"))
    for loop in ("q", "r", "dy", "dx"):
        s.unroll(loop)
    if parallel:
        _parallel(s, program, ("n", "f", "y"))
    peel_ragged(s, "y", "t")
    return s


def _vectorize(s: Schedule, names: tuple[str, ...]) -> None:
    for name in {loop.name for loop in loops(s.program)} & set(names):
        s.vectorize(name)


def _parallel(s: Schedule, program: Program, names: tuple[str, ...]) -> None:
    sizes = {loop.name: loop.extent for loop in loops(program)}
    around = [(name, int(size.value)) for name in names if isinstance(size := sizes[name], Const)]
    elements = max(prod(p.shape) for p in program.parameters)
    parallel_grains(s, around, elements // prod(size for _, size in around))

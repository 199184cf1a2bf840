"""Reductions on a CPU, in vectors of the last axis: a sum for each lane if the axis is kept, partial sums if it is
reduced.
"""

from __future__ import annotations

from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Const
from ...ir.stmt import Program
from ...ir.visit import loops
from ...schedule import Schedule
from . import rows as rows_cpu
from .loops import parallel_grains, peel_ragged, vector_width


def schedule(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """`te.ops.reduction`, built with `width` = `loops.row_partials(target)`, for any shape and axes.

    `parallel`: kept axes run on the threads of the kernel's pool.
    """
    names = {loop.name for loop in loops(program)}
    if "reduce.l" in names:
        return rows_cpu.schedule(target, program, parallel=parallel)
    extents = {loop.name: loop.extent.value for loop in loops(program) if isinstance(loop.extent, Const)}
    shape = [int(extents[f"reduce.d{d}"]) for d in range(sum(name.startswith("reduce.d") for name in names))]
    s = Schedule(program)
    kept = [d for d in range(len(shape)) if f"d{d}" in names]
    reduced = [f"reduce.d{d}" for d in range(len(shape)) if d not in kept]
    last, size = f"d{kept[-1]}", shape[-1]
    width = vector_width(target, size)
    tile, lane = s.split(last, width)
    s.compute_at("reduce", tile)
    s.set_scope("sum", "register")
    inner = f"reduce.{last}"
    s.reorder(*reduced, *(f"reduce.d{d}" for d in kept))
    s.vectorize(lane)
    s.vectorize(inner)
    if reduced:
        s.decompose_reduction("reduce", reduced[0])
    if parallel:
        tiles = -(-size // width)
        work = width
        for d in range(len(shape)):
            work *= 1 if d in kept else shape[d]
        parallel_grains(s, [*((f"d{d}", shape[d]) for d in kept[:-1]), (tile, tiles)], work)
    peel_ragged(s, tile)
    return s

"""Operators along rows on a CPU (softmax, normalization, reductions of the last axis): partial results are vectors."""

from __future__ import annotations

from math import prod

from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Const
from ...ir.stmt import Program
from ...ir.visit import loops
from ...schedule import Schedule
from .loops import parallel_grains, peel_ragged


def schedule(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """Schedules `te.ops.softmax`, `normalization`, or `reduction` of the last axis, built with `width` =
    `row_partials(target)`.

    `parallel`: rows run on the threads of the kernel's pool.
    """
    s = Schedule(program)
    tiles: list[str] = []
    for loop in loops(program):
        if loop.name.endswith(".l"):
            s.vectorize(loop.name)
        elif loop.name == "column" or loop.name.endswith(".k"):
            tiles.append(loop.name)
    if parallel:
        around = [
            (n.name, int(n.extent.value))
            for n in loops(program)
            if isinstance(n.extent, Const) and "." not in n.name
        ]
        elements = max(prod(p.shape) for p in program.parameters)
        parallel_grains(s, around, elements // prod(size for _, size in around))
    peel_ragged(s, *tiles)
    return s

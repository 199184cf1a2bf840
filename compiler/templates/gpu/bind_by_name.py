"""Schedules tensor expressions whose loops have the names of the block and thread axes to which they are bound."""

from __future__ import annotations

import re
from typing import cast

from ...codegen.cuda.machine import GpuTarget
from ...ir.stmt import LoopKind, Program
from ...ir.visit import loops
from ...schedule import Schedule

_BLOCK, _THREAD = re.compile(r"(.*\.)?block\.([xyz])"), re.compile(r".+\.([xyz])")


def schedule(target: GpuTarget, program: Program) -> Schedule:
    """Binds loops named "block.x" or "STAGE.block.x" to axis x of the grid, and loops named "STAGE.x" to axis x of the
    threads; axes y and z likewise.
    """
    s = Schedule(program)
    for loop in loops(program):
        axis = ""
        if found := _BLOCK.fullmatch(loop.name):
            axis = f"block.{found[2]}"
        elif found := _THREAD.fullmatch(loop.name):
            axis = f"thread.{found[1]}"
        if axis:
            s.bind(loop.name, cast(LoopKind, axis))
    return s

"""Schedules tensor expressions in which each loop's name says to which axis of blocks or threads the loop is bound."""

from __future__ import annotations

import re
from typing import cast

from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.shuffles import shuffle
from ...ir.stmt import Alloc, LoopKind, Program, Reduce
from ...ir.visit import loads_in, loops, walk
from ...schedule import Schedule
from ...te.threads import LANES

_BLOCK, _THREAD = re.compile(r"(.*\.)?block\.([xyz])"), re.compile(r".+\.([xyz])")


def schedule(target: GpuTarget, program: Program) -> Schedule:
    """Binds loops by their names (`bind`). Sums and maxima over a warp (`te.threads.all_lanes`) become shuffles."""
    s = Schedule(program)
    bind(s)
    for node in walk(program):
        if isinstance(node, Alloc) and node.buffer.name.endswith(LANES):
            (join,) = (n for n in walk(node) if isinstance(n, Reduce))
            (load,) = loads_in(join.value)
            s.tensorize(node.buffer.name, shuffle(join.op, load.buffer.shape[-1]))
    return s


def bind(s: Schedule) -> None:
    """Binds loops named "block.x" or "STAGE.block.x" to axis x of the grid, and loops named "STAGE.x" to axis x of the
    threads (y and z in the same way).
    """
    for loop in loops(s.program):
        axis = ""
        if found := _BLOCK.fullmatch(loop.name):
            axis = f"block.{found[2]}"
        elif found := _THREAD.fullmatch(loop.name):
            axis = f"thread.{found[1]}"
        if axis:
            s.bind(loop.name, cast(LoopKind, axis))

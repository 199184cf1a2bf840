"""Schedules tensor expressions whose loops have the names of the block and thread axes to which they are bound."""

from __future__ import annotations

import re

from ...codegen.cuda.machine import GpuTarget
from ...ir.stmt import LoopKind, Program
from ...ir.visit import loops
from ...schedule import Schedule

_BLOCK, _THREAD = re.compile(r"(.*\.)?block\.([xyz])"), re.compile(r".+\.([xyz])")


def schedule(target: GpuTarget, program: Program) -> Schedule:
    """Binds loops "block.x" and "stage.block.x" to that axis of the grid, and loops "stage.x" (no "block") to that axis
    of threads.
    """
    s = Schedule(program)
    for loop in loops(program):
        axis: LoopKind | None = None
        if found := _BLOCK.fullmatch(loop.name):
            axis = _axis("block", found[2])
        elif found := _THREAD.fullmatch(loop.name):
            axis = _axis("thread", found[1])
        if axis is not None:
            s.bind(loop.name, axis)
    return s


def _axis(level: str, name: str) -> LoopKind:
    axes: dict[str, LoopKind] = {
        "block.x": "block.x",
        "block.y": "block.y",
        "block.z": "block.z",
        "thread.x": "thread.x",
        "thread.y": "thread.y",
        "thread.z": "thread.z",
    }
    return axes[f"{level}.{name}"]

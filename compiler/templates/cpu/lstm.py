"""Steps of an LSTM on a CPU, scheduled by `recurrent` with all four gates in a tile."""

from __future__ import annotations

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...schedule import Schedule
from .recurrent import Knobs, Stage, schedule_steps

GATES = 4


def schedule(
    target: CpuTarget, program: Program, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """Schedules `te.ops.recurrent.recurrent_steps` of LSTM cells for any size; R is packed, see `schedule.pack`.

    `parallel`: the tiles of a step run on the threads of the kernel's pool.
    """
    directions = range(next(p.shape for p in program.parameters if p.name == "R")[0])
    stages = [Stage(label=str(d), weight="R", gates=GATES) for d in directions]
    copies = [f"{copy}.{d}" for d in directions for copy in ("start.h", "start.c", "carry", "end.h", "end.c")]
    return schedule_steps(target, program, stages, copies, knobs=knobs, parallel=parallel)

"""Programs whose knobs come from sketch rules (rules that generate schedules): their workloads, search spaces and
default schedules.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from ...codegen.cpu.machine import CpuTarget
from ...ir.program_json import program_to_dict
from ...ir.stmt import Program
from ...ir.work import statement_runs
from ...schedule import Schedule
from ..space import Space
from .lowered import scheduled
from .sketch.default import default_values
from .sketch.schedule import sketch_schedule
from .sketch.sketch import Sketches, find_sketches
from .workload import Operator, SketchCpu

LEAST_RUNS = 4096
"""Least number of statement executions of a program that is tuned: with fewer, a kernel takes only a microsecond or
two.
"""
MOST_TEXT = 1 << 15
"""Largest number of characters of a program as JSON: each tuning record contains it, and the length of a record's line
is limited.
"""


def sketch_workload(operator: Operator, program: Program, constants: Collection[str]) -> SketchCpu | None:
    """The workload of a whole kernel; None if it is too small to tune, too long for a record, or cannot be measured
    (`SketchCpu.refusal`).
    """
    workload = SketchCpu(
        operator=operator,
        constants=tuple([p.name for p in program.parameters if p.name in constants]),
        expression=program,
    )
    if workload.refusal() is not None or statement_runs(program) < LEAST_RUNS:
        return None
    return workload if len(json.dumps(program_to_dict(program))) <= MOST_TEXT else None


def sketches_of(target: CpuTarget, workload: SketchCpu) -> Sketches:
    """The sketches (families of schedules with knobs) of the workload's program, for use in networks: loops may be
    parallel.
    """
    constants = frozenset(workload.constants)
    return find_sketches(workload.expression, target, constants=constants, parallel=True)


def space(target: CpuTarget, workload: SketchCpu) -> Space:
    """The space of the workload's program; costs are seconds."""
    from .sketch.cost import sketch_space

    return sketch_space(sketches_of(target, workload))


def default(target: CpuTarget, workload: SketchCpu) -> dict[str, int]:
    """The default point of the workload's space, which `scheduled` uses."""
    return default_values(sketches_of(target, workload))


def schedule(target: CpuTarget, workload: SketchCpu, values: Mapping[str, int] | None) -> Schedule:
    """The workload's program, scheduled with the knob `values` of a point of its space; None: the default schedule
    (`scheduled`).
    """
    if values is not None:
        return sketch_schedule(sketches_of(target, workload), values)
    return scheduled(target, workload.expression, frozenset(workload.constants), parallel=True)

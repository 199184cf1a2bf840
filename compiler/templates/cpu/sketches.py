"""Tuning of programs whose template has no knobs: a space from sketch rules, and the template's schedule as default."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from ...codegen.cpu.machine import CpuTarget
from ...ir.program_json import program_to_dict
from ...ir.stmt import Program
from ...ir.work import statement_runs
from ...schedule import Schedule
from ...te.blocks import Window
from ..space import Space
from . import conv_transpose as conv_transpose_cpu
from . import generic
from . import matmul as matmul_cpu
from . import reduction as reduction_cpu
from . import rows as rows_cpu
from .sketch.cost import sketch_space
from .sketch.schedule import sketch_schedule
from .sketch.sketch import Sketches, sketches
from .workload import Operator, SketchCpu

LEAST_RUNS = 4096
"""Least number of statement executions of a program worth tuning: below, a kernel takes a microsecond or two."""
MOST_TEXT = 1 << 15
"""Most characters of a program as JSON: each tuning record holds it, and a record's line is limited."""


def sketch_workload(
    operator: Operator, program: Program, constants: Collection[str], window: Window | None = None
) -> SketchCpu | None:
    """The workload of a whole kernel; None if it is too small to tune, too long for a record, or refused."""
    workload = SketchCpu(
        operator=operator,
        window=window,
        constants=tuple([p.name for p in program.parameters if p.name in constants]),
        expression=program,
    )
    if workload.refusal() is not None or statement_runs(program) < LEAST_RUNS:
        return None
    return workload if len(json.dumps(program_to_dict(program))) <= MOST_TEXT else None


def sketches_of(target: CpuTarget, workload: SketchCpu) -> Sketches:
    """The sketches of the workload's program, for networks, which may run on many threads."""
    constants = frozenset(workload.constants)
    return sketches(workload.expression, target, constants=constants, parallel=True)


def space(target: CpuTarget, workload: SketchCpu) -> Space:
    """The space of the workload's program; costs are seconds."""
    return sketch_space(sketches_of(target, workload))


def schedule(target: CpuTarget, workload: SketchCpu, values: Mapping[str, int] | None) -> Schedule:
    """The workload's program scheduled with a point's knobs; None: with its operator's own schedule."""
    if values is not None:
        return sketch_schedule(sketches_of(target, workload), values)
    program = workload.expression
    match workload.operator:
        case "matmul":
            return matmul_cpu.schedule(target, program, parallel=True)
        case "softmax" | "normalization":
            return rows_cpu.schedule(target, program, parallel=True)
        case "generic":
            return generic.schedule(target, program, parallel=True)
        case "reduction":
            return reduction_cpu.schedule(target, program, parallel=True)
        case "conv_transpose":
            assert workload.window is not None
            return conv_transpose_cpu.schedule(target, program, workload.window, parallel=True)

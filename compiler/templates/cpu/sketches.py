"""Programs whose template has no knobs as something to be tuned: by rules, and without knobs as the template has it."""

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
"""Runs of a program's statements from which on it is worth tuning: below, a kernel takes a microsecond or two."""
MOST_TEXT = 1 << 15
"""Characters of a program as JSON: each record holds them, and a line of records is limited."""


def sketch_workload(
    operator: Operator, program: Program, constants: Collection[str], window: Window | None = None
) -> SketchCpu | None:
    """The workload of a whole kernel; None where tuning it is not worth while, or records could not hold it."""
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
    """What rules make of the workload's program, for networks, which may run on many threads."""
    constants = frozenset(workload.constants)
    return sketches(workload.expression, target, constants=constants, parallel=True)


def space(target: CpuTarget, workload: SketchCpu) -> Space:
    """The space of the workload's program; costs are seconds."""
    return sketch_space(sketches_of(target, workload))


def schedule(target: CpuTarget, workload: SketchCpu, values: Mapping[str, int] | None) -> Schedule:
    """The workload's program with a point's knobs (None: as the template of its operator has it)."""
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

"""The lowered form of a graph node for a processor, before compilation."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program, Reduce
from ...ir.visit import walk
from ...schedule import LegalityError, Schedule
from ..lowered_node import LoweredNode
from .workload import CpuWorkload, Operator, SketchCpu

LoweredCpuNode: TypeAlias = LoweredNode[CpuTarget, CpuWorkload]


def sketched(lowered: LoweredCpuNode, operator: Operator) -> LoweredCpuNode:
    """Adds a workload (the node's program) to `lowered`, so that a tuner can choose its knobs; sketch rules (rules that
    generate schedules) define these knobs.
    """
    constants = tuple([p.name for p in lowered.program.parameters if p.name in lowered.constants])
    workload = SketchCpu(operator=operator, constants=constants, expression=lowered.program)
    return replace(lowered, workload=workload)


def tunable(lowered: LoweredCpuNode) -> LoweredCpuNode:
    """`lowered` without its workload if tuning cannot pay off (`SketchCpu.worth_tuning`), so that tuners skip it.
    Otherwise the names of the workload's constants are added to its key.
    """
    workload = lowered.workload
    if workload is None or not workload.worth_tuning():
        return replace(lowered, workload=None)
    # Constants that may be packed ahead make the tuned kernel of an equal program a different one.
    return replace(lowered, key=" ".join([lowered.key, *workload.constants]))


def scheduled(
    target: CpuTarget,
    program: Program,
    constants: frozenset[str] = frozenset(),
    *,
    parallel: bool = False,
) -> Schedule:
    """The default schedule that the sketch rules (rules that generate schedules) generate for a program. `parallel`:
    loops run on the kernel's threads. `constants`: parameters that may be packed before any call (weights).
    """
    if any(isinstance(node, Reduce) for node in walk(program)):
        from .sketch.schedule import sketch_schedule
        from .sketch.sketch import find_sketches

        sketches = find_sketches(program, target, constants=constants, parallel=parallel)
        try:
            return sketch_schedule(sketches)
        except LegalityError:
            pass  # Sums become nests like all others, of which only legal loops are vectorized.
    from .sketch.nests import schedule_nests

    return schedule_nests(program, target, parallel=parallel)

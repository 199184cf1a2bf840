"""The search spaces and schedules of workloads whose knobs come from sketch rules (rules that generate schedules)."""

from __future__ import annotations

from collections.abc import Mapping

from ...codegen.cpu.machine import CpuTarget
from ...schedule import Schedule
from ..space import Space
from .lowered import scheduled
from .sketch.default import default_values
from .sketch.schedule import sketch_schedule
from .sketch.sketch import Sketches, find_sketches
from .workload import SketchCpu


def sketches_of(target: CpuTarget, workload: SketchCpu) -> Sketches:
    """The sketches (families of schedules with knobs) of the workload's program, for use in networks: loops may be
    parallel.
    """
    constants = frozenset(workload.constants)
    return find_sketches(workload.expression, target, constants=constants, parallel=True)


def space(target: CpuTarget, workload: SketchCpu) -> Space:
    """The search space of the workload's program; its costs are in seconds."""
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

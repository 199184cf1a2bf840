"""The templates of processors: an explicit table.

Schedules are for networks, with one thread or many. Without values they have the template's defaults for many threads;
`choice` is the default point for one thread, on which candidates are measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...schedule import Schedule
from ..registry import Registry
from ..space import Space, Values
from ..template import Template, table_of
from . import (
    conv2d,
    conv2d_space,
    dense,
    dense_space,
    depthwise,
    depthwise_space,
    elementwise,
    elementwise_space,
    pool,
    pool_space,
)
from .workload import (
    Conv2dCpu,
    CpuWorkload,
    DenseCpu,
    DepthwiseCpu,
    ElementwiseCpu,
    PoolCpu,
    SketchCpu,
    workload_from_dict,
)

W = TypeVar("W")


def _scheduled(
    knobs_of: Callable[[CpuTarget, W, Values], Any],
    schedule: Callable[[CpuTarget, Program, W, Any], Schedule],
) -> Callable[[CpuTarget, W, Program, Values], Schedule]:
    """A template's schedule with the knobs of a point, or its defaults."""

    def of(target: CpuTarget, workload: W, program: Program, values: Values) -> Schedule:
        knobs = knobs_of(target, workload, values) if values else None
        return schedule(target, program, workload, knobs)

    return of


_CONV2D: Template[CpuTarget, Conv2dCpu, Program] = Template(
    name="conv2d_cpu",
    space=lambda target, w: conv2d_space.space(target, w.program(), w.window),
    choice=lambda target, w: conv2d_space.default_values(target, w.program(), w.window),
    schedule=_scheduled(
        lambda _, w, values: conv2d_space.knobs_of(w.program(), w.window, values),
        lambda target, program, w, knobs: conv2d.schedule(target, program, w.window, knobs, parallel=True),
    ),
)
_DENSE: Template[CpuTarget, DenseCpu, Program] = Template(
    name="dense_cpu",
    space=lambda target, w: dense_space.space(target, w.program()),
    choice=lambda target, w: dense_space.default_values(target, w.program()),
    schedule=_scheduled(
        lambda target, w, values: dense_space.knobs_of(target, w.program(), values),
        lambda target, program, _, knobs: dense.schedule(target, program, knobs, parallel=True),
    ),
)
_DEPTHWISE: Template[CpuTarget, DepthwiseCpu, Program] = Template(
    name="depthwise_cpu",
    space=lambda target, w: depthwise_space.space(target, w.program(), w.window),
    choice=lambda target, w: depthwise_space.default_values(target, w.program(), w.window),
    schedule=_scheduled(
        lambda _, w, values: depthwise_space.knobs_of(w.program(), w.window, values),
        lambda target, program, w, knobs: depthwise.schedule(target, program, w.window, knobs, parallel=True),
    ),
)
_POOL: Template[CpuTarget, PoolCpu, Program] = Template(
    name="pool_cpu",
    space=lambda target, w: pool_space.space(target, w.program(), w.window),
    choice=lambda target, w: pool_space.default_values(target, w.program(), w.window),
    schedule=_scheduled(
        lambda target, w, values: pool_space.knobs_of(target, w.program(), w.window, values),
        lambda target, program, w, knobs: pool.schedule(target, program, w.window, knobs, parallel=True),
    ),
)
_ELEMENTWISE: Template[CpuTarget, ElementwiseCpu, Program] = Template(
    name="elementwise_cpu",
    space=lambda target, w: elementwise_space.space(target, w.shapes, w.steps),
    choice=lambda target, w: elementwise_space.default_values(target, w.shapes),
    schedule=_scheduled(
        lambda target, w, values: elementwise_space.knobs_of(target, w.shapes, w.steps, values),
        lambda target, program, _, knobs: elementwise.schedule(target, program, knobs, parallel=True),
    ),
)


def _sketch_space(target: CpuTarget, workload: SketchCpu) -> Space:
    from . import sketches

    return sketches.space(target, workload)


def _sketch_schedule(target: CpuTarget, workload: SketchCpu, _: Program, values: Values) -> Schedule:
    from . import sketches

    return sketches.schedule(target, workload, values or None)


_SKETCH: Template[CpuTarget, SketchCpu, Program] = Template(
    name="sketch_cpu", space=_sketch_space, choice=lambda target, w: {}, schedule=_sketch_schedule
)

CPU: Registry[CpuTarget, CpuWorkload] = Registry(
    templates=table_of(_CONV2D, _DENSE, _DEPTHWISE, _POOL, _ELEMENTWISE, _SKETCH), read=workload_from_dict
)
"""Templates of processors; costs are seconds."""

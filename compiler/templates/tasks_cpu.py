"""What can be tuned on processors: a workload's space, its schedule with a point's knobs, and knobs looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..ir.stmt import Program
from ..schedule import LegalityError, Schedule
from ..target.cpu.machine import CpuTarget
from . import (
    conv2d_cpu,
    conv2d_cpu_space,
    dense_cpu,
    dense_cpu_space,
    depthwise_cpu,
    depthwise_cpu_space,
    elementwise_cpu,
    elementwise_cpu_space,
    pool_cpu,
    pool_cpu_space,
    sketch_cpu,
)
from .space import Space, Values
from .workload_cpu import (
    Conv2dCpu,
    CpuWorkload,
    DenseCpu,
    DepthwiseCpu,
    ElementwiseCpu,
    PoolCpu,
    SketchCpu,
)

Choose = Callable[[CpuWorkload], Values | None]
"""Finds knobs for a workload, as in records of a tuner; None: the template's defaults."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenKnobs:
    """Knobs of `choose`, where they are legal; `applied` and `ignored` list the workloads that had some, and why not.

    One object serves one compilation, whose caller reads the lists afterwards.
    """

    choose: Choose
    applied: list[CpuWorkload] = field(default_factory=list)
    ignored: list[tuple[CpuWorkload, str]] = field(default_factory=list)

    def schedule(self, target: CpuTarget, workload: CpuWorkload, program: Program) -> Schedule:
        """As the function `schedule`, with the knobs chosen for the workload."""
        values = self.choose(workload)
        if not values:
            return schedule(target, workload, program)
        obstacle = knobs_obstacle(space(target, workload), values)
        if obstacle is None:
            try:
                chosen = schedule(target, workload, program, values)
            except LegalityError as error:
                # A point that only looked legal: the network runs, if not as fast.
                obstacle = error.reason
            else:
                self.applied.append(workload)
                return chosen
        self.ignored.append((workload, obstacle))
        return schedule(target, workload, program)


def chosen(
    program: Program, workload: CpuWorkload, knobs: ChosenKnobs | None
) -> Callable[[CpuTarget], Schedule]:
    """How to schedule `program`, the workload's or that with more fused to it, with knobs chosen for it, if any."""
    if knobs is None:
        return lambda target: schedule(target, workload, program)
    return lambda target: knobs.schedule(target, workload, program)


def knobs_obstacle(space: Space, values: Values) -> str | None:
    """Why these knobs are no legal point of a space; None where they are one, or empty."""
    if not values:
        return None
    try:
        point = space.point(values)
    except ValueError as error:
        return str(error)
    account = space.account(space.columns(point[None]))
    broken = [name for name, kept in space.limits(account).items() if not kept[0]]
    return f"{space.template}: the knobs do not keep to {broken[0]}" if broken else None


def space(target: CpuTarget, workload: CpuWorkload) -> Space:
    """All settings of the template's knobs for a workload; costs are seconds."""
    program = workload.program()
    match workload:
        case Conv2dCpu(window=window):
            return conv2d_cpu_space.space(target, program, window)
        case DenseCpu():
            return dense_cpu_space.space(target, program)
        case DepthwiseCpu(window=window):
            return depthwise_cpu_space.space(target, program, window)
        case PoolCpu(window=window):
            return pool_cpu_space.space(target, program, window)
        case ElementwiseCpu(shapes=shapes, steps=steps):
            return elementwise_cpu_space.space(target, shapes, steps)
        case SketchCpu():
            return sketch_cpu.space(target, workload)


def default_values(target: CpuTarget, workload: CpuWorkload) -> dict[str, int]:
    """The point of the template's defaults, or the nearest one to it; empty where rules make a space without it."""
    program = workload.program()
    match workload:
        case Conv2dCpu(window=window):
            return conv2d_cpu_space.default_values(target, program, window)
        case DenseCpu():
            return dense_cpu_space.default_values(target, program)
        case DepthwiseCpu(window=window):
            return depthwise_cpu_space.default_values(target, program, window)
        case PoolCpu(window=window):
            return pool_cpu_space.default_values(target, program, window)
        case ElementwiseCpu(shapes=shapes):
            return elementwise_cpu_space.default_values(target, shapes)
        case SketchCpu():
            return {}


def schedule(
    target: CpuTarget, workload: CpuWorkload, program: Program, values: Values | None = None
) -> Schedule:
    """`program`, the workload's or that with more fused to it, scheduled for one thread or many as networks are.

    `values` are a point's of the workload's space (None or empty: the template's defaults). Of a `SketchCpu`, `program`
    is the workload's.
    """
    plain = workload.program()
    values = values or None
    match workload:
        case Conv2dCpu(window=window):
            knobs = None if values is None else conv2d_cpu_space.knobs_of(plain, window, values)
            return conv2d_cpu.schedule(target, program, window, knobs, parallel=True)
        case DenseCpu():
            knobs = None if values is None else dense_cpu_space.knobs_of(target, plain, values)
            return dense_cpu.schedule(target, program, knobs, parallel=True)
        case DepthwiseCpu(window=window):
            knobs = None if values is None else depthwise_cpu_space.knobs_of(plain, window, values)
            return depthwise_cpu.schedule(target, program, window, knobs, parallel=True)
        case PoolCpu(window=window):
            knobs = None if values is None else pool_cpu_space.knobs_of(target, plain, window, values)
            return pool_cpu.schedule(target, program, window, knobs, parallel=True)
        case ElementwiseCpu(shapes=shapes, steps=steps):
            knobs = None if values is None else elementwise_cpu_space.knobs_of(target, shapes, steps, values)
            return elementwise_cpu.schedule(target, program, knobs, parallel=True)
        case SketchCpu():
            return sketch_cpu.schedule(target, workload, values)

"""What can be tuned on processors: a workload's space, and its schedule with a point's knobs."""

from __future__ import annotations

from ...ir.stmt import Program
from ...schedule import Schedule
from ...target.cpu.machine import CpuTarget
from ..space import Space, Values
from . import conv2d as conv2d_cpu
from . import conv2d_space as conv2d_cpu_space
from . import dense as dense_cpu
from . import dense_space as dense_cpu_space
from . import depthwise as depthwise_cpu
from . import depthwise_space as depthwise_cpu_space
from . import elementwise as elementwise_cpu
from . import elementwise_space as elementwise_cpu_space
from . import pool as pool_cpu
from . import pool_space as pool_cpu_space
from . import sketches as sketch_cpu
from .workload import Conv2dCpu, CpuWorkload, DenseCpu, DepthwiseCpu, ElementwiseCpu, PoolCpu, SketchCpu


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

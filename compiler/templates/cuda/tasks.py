"""What can be tuned on GPUs: a workload's space, its schedule with a point's knobs, and knobs looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...schedule import LegalityError, Schedule
from ...target.cuda.machine import CudaTarget
from ..space import Space, Values
from ..tasks_cpu import knobs_obstacle
from . import (
    conv2d,
    conv2d_space,
    depthwise,
    depthwise_space,
    elementwise,
    elementwise_space,
    gemm,
    gemm_mma,
    gemm_mma_space,
    gemm_space,
    pool,
    pool_space,
)
from .workload import CudaWorkload

Choose = Callable[[CudaWorkload], Values | None]
"""Finds knobs for a workload, as in records of a tuner; None: the template's defaults."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenKnobs:
    """Knobs of `choose`, where they are legal; `applied` and `ignored` list the workloads that had some, and why not.

    One object serves one compilation, whose caller reads the lists afterwards.
    """

    choose: Choose
    applied: list[CudaWorkload] = field(default_factory=list)
    ignored: list[tuple[CudaWorkload, str]] = field(default_factory=list)

    def schedule(self, target: CudaTarget, workload: CudaWorkload) -> Schedule:
        """As the function `schedule`, with the knobs chosen for the workload."""
        values = self.choose(workload)
        if not values:
            return schedule(target, workload)
        obstacle = knobs_obstacle(space(target, workload), values)
        if obstacle is None:
            try:
                chosen = schedule(target, workload, values)
            except LegalityError as error:
                # A point that only looked legal: the network runs, if not as fast.
                obstacle = error.reason
            else:
                self.applied.append(workload)
                return chosen
        self.ignored.append((workload, obstacle))
        return schedule(target, workload)


def space(target: CudaTarget, workload: CudaWorkload) -> Space:
    """All settings of the template's knobs for a workload; costs are seconds."""
    program = workload.expression
    match workload.template:
        case "gemm_cuda":
            return gemm_space.space(target, program)
        case "gemm_mma_cuda":
            return gemm_mma_space.space(target, program)
        case "conv2d_cuda":
            return conv2d_space.space(target, program)
        case "depthwise_cuda":
            assert workload.window is not None
            return depthwise_space.space(target, program, workload.window)
        case "pool_cuda":
            return pool_space.space(target, program)
        case "elementwise_cuda":
            return elementwise_space.space(target, program)


def default_values(target: CudaTarget, workload: CudaWorkload) -> dict[str, int]:
    """The point of the template's defaults, or the nearest one to it."""
    program = workload.expression
    match workload.template:
        case "gemm_cuda":
            return gemm_space.default_values(target, program)
        case "gemm_mma_cuda":
            return gemm_mma_space.default_values(target, program)
        case "conv2d_cuda":
            return conv2d_space.default_values(target, program)
        case "depthwise_cuda":
            assert workload.window is not None
            return depthwise_space.default_values(target, program, workload.window)
        case "pool_cuda":
            return pool_space.default_values(target, program)
        case "elementwise_cuda":
            return elementwise_space.default_values(target, program)


def schedule(target: CudaTarget, workload: CudaWorkload, values: Values | None = None) -> Schedule:
    """The workload's program in kernel form, as its node has it in networks.

    `values` are a point's of the workload's space (None or empty: the template's defaults).
    """
    program, constants = workload.expression, workload.constants
    values = values or None
    match workload.template:
        case "gemm_cuda":
            tile = None if values is None else gemm_space.knobs_of(target, program, values)
            return gemm.schedule(target, program, tile, constants=constants)
        case "gemm_mma_cuda":
            warps = None if values is None else gemm_mma_space.knobs_of(program, values)
            return gemm_mma.schedule(target, program, warps, constants=constants)
        case "conv2d_cuda":
            knobs = None if values is None else conv2d_space.knobs_of(target, program, values)
            return conv2d.schedule(target, program, knobs)
        case "depthwise_cuda":
            assert workload.window is not None
            own = None if values is None else depthwise_space.knobs_of(target, program, values)
            return depthwise.schedule(target, program, workload.window, own)
        case "pool_cuda":
            pooling = None if values is None else pool_space.knobs_of(target, program, values)
            return pool.schedule(target, program, pooling)
        case "elementwise_cuda":
            each = None if values is None else elementwise_space.knobs_of(target, program, values)
            return elementwise.schedule(target, program, each)

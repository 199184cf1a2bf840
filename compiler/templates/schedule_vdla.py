"""From a workload of the accelerator to its template: the space of its knobs, and a schedule."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.isa.config import Config

from ..ir.stmt import Program
from ..schedule import Schedule
from ..te.post import Post
from . import conv2d_vdla, conv2d_vdla_space, depthwise_vdla, patch_conv2d_vdla, pool_vdla
from .space import Space
from .tiling import Copies
from .workload_vdla import Workload, program_of


def space_of(config: Config, workload: Workload) -> Space:
    """All ways to schedule a workload on one machine; costs are cycles."""
    shape = conv2d_vdla.convolution_shape(program_of(config, workload), workload.window)
    return conv2d_vdla_space.space(config, shape)


def schedule_workload(
    config: Config,
    workload: Workload,
    program: Program,
    post: Post,
    virtual_threads: int,
    values: Mapping[str, int] | None = None,
) -> tuple[Schedule, Copies | None]:
    """The tensor expression `program` of a workload scheduled, and the copies of its buffers (None: `virtual_threads`).

    `values` is a legal point of `space_of`; without it the template decides. Raises NoTileError if nothing fits.
    """
    window = workload.window
    match workload.template:
        case "conv2d":
            shape = conv2d_vdla.convolution_shape(program, window)
            knobs = None if values is None else conv2d_vdla_space.knobs(values, shape)
            schedule = conv2d_vdla.schedule(config, program, window, post, virtual_threads, knobs)
            return schedule, None if knobs is None else knobs.copies
        case "patch_conv2d":
            return patch_conv2d_vdla.schedule(config, program, window, post, virtual_threads), None
        case "depthwise_conv2d":
            return depthwise_vdla.schedule(config, program, window, post, virtual_threads), None
        case "max_pool" | "average_pool" | "elementwise":
            pool = "add" if workload.template == "average_pool" else "max"
            kernel, strides = workload.kernel, workload.strides
            return pool_vdla.schedule(config, program, post, kernel, strides, pool, virtual_threads), None

"""From a workload of the accelerator to its template: the space of its knobs, and a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from vdla.isa.config import Config

from ..ir.stmt import Program
from ..schedule import Schedule
from ..te.post import Post
from . import conv2d_vdla, conv2d_vdla_space, depthwise_vdla, patch_conv2d_vdla, pool_vdla
from .space import Space
from .tiling import TILE_ORDERS, Copies
from .workload_vdla import Workload, program_of


def space_of(config: Config, workload: Workload) -> Space:
    """All ways to schedule a workload on one machine; costs are cycles."""
    shape = conv2d_vdla.convolution_shape(program_of(config, workload), workload.window)
    return conv2d_vdla_space.space(config, shape)


def default_values(config: Config, workload: Workload, virtual_threads: int) -> dict[str, int] | None:
    """The template's own choice as values of the space's axes; None where it is none of its points.

    Raises NoTileError if nothing fits.
    """
    space = space_of(config, workload)
    knobs = conv2d_vdla.choose_knobs(
        config,
        conv2d_vdla.convolution_shape(program_of(config, workload), workload.window),
        virtual_threads,
    )
    window = workload.kernel if knobs.window is None else knobs.window
    chosen = {
        "output_blocks": knobs.output_blocks,
        "rows": knobs.rows,
        "columns": knobs.columns,
        "reduction_blocks": knobs.reduction_blocks,
        "window_rows": window[0],
        "window_columns": window[1],
        "order": TILE_ORDERS.index(knobs.order),
        "data_level": knobs.data_level,
        "weights_level": knobs.weights_level,
    }
    # As many copies as fit, which is what the pass makes of the virtual threads.
    for copies in product(range(virtual_threads, 0, -1), repeat=3):
        names = ("data_copies", "weights_copies", "sums_copies")
        values = {**chosen, **dict(zip(names, copies, strict=True))}
        known = {axis.name: values[axis.name] for axis in space.axes}
        try:
            point = space.point(known)
        except ValueError:
            return None
        if space.legal(point[None]).all():
            return known
    return None


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

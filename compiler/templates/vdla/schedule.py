"""From a workload of the accelerator to its template: the space of its knobs, and a schedule."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from vdla.isa.config import Config

from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.blocks import ceil_div
from ...te.post import Post
from ..space import Space, Values
from . import conv2d as conv2d_vdla
from . import conv2d_space as conv2d_vdla_space
from . import depthwise as depthwise_vdla
from . import depthwise_space as depthwise_vdla_space
from . import patch_conv2d as patch_conv2d_vdla
from . import patch_conv2d_space as patch_conv2d_vdla_space
from . import pool as pool_vdla
from . import pool_space as pool_vdla_space
from . import rolling_pool as rolling_pool_vdla
from . import rolling_pool_space as rolling_pool_vdla_space
from .image_account import extents_of
from .rolling_pool import used_columns
from .tiling import CHUNK, INNERMOST, OUTERMOST, Copies, Knobs, NoTileError
from .workload import Workload, program_of, ring_of_workload


def space_of(config: Config, workload: Workload) -> Space:
    """All ways to schedule a workload on one machine; costs are cycles."""
    match workload.template:
        case "conv2d":
            return conv2d_vdla_space.space(config, _shape(config, workload))
        case "patch_conv2d":
            return patch_conv2d_vdla_space.space(config, _patch_shape(config, workload))
        case "patch_conv2d_pool":
            return rolling_pool_vdla_space.space(config, _rolling_shape(config, workload))
        case "depthwise_conv2d":
            return depthwise_vdla_space.space(config, _shape(config, workload))
        case "max_pool" | "average_pool" | "elementwise":
            return pool_vdla_space.space(config, _shape(config, workload), workload.template)


def _shape(config: Config, workload: Workload) -> conv2d_vdla.ConvolutionShape:
    out_height, out_width = workload.window.outputs(workload.height, workload.width)
    return conv2d_vdla.ConvolutionShape(
        images=ceil_div(workload.batch, config.batch),
        input_blocks=ceil_div(workload.channels, config.block_in),
        output_blocks=ceil_div(workload.filters, config.block_out),
        height=workload.height,
        width=workload.width,
        out_height=out_height,
        out_width=out_width,
        kernel=workload.kernel,
        strides=workload.strides,
        dilations=workload.dilations,
        operand=workload.operand,
    )


def _patch_shape(config: Config, workload: Workload) -> patch_conv2d_vdla.PatchShape:
    out_height, out_width = workload.window.outputs(workload.height, workload.width)
    return patch_conv2d_vdla.PatchShape(
        batch=workload.batch,
        channels=workload.channels,
        height=workload.height,
        width=workload.width,
        images=ceil_div(workload.batch, config.batch),
        vectors=ceil_div(prod(workload.kernel) * workload.channels, config.block_in),
        output_blocks=ceil_div(workload.filters, config.block_out),
        out_height=out_height,
        out_width=out_width,
        kernel=workload.kernel,
        strides=workload.strides,
        operand=workload.operand,
    )


def _rolling_shape(config: Config, workload: Workload) -> rolling_pool_vdla_space.RollingShape:
    ring = ring_of_workload(config, workload)
    if ring is None:
        raise NoTileError("patch_conv2d_pool: no ring of rows is small enough for the accumulators")
    rows, columns = workload.window.outputs(workload.height, workload.width)
    pooled, wide = workload.pool.outputs(rows, columns)
    filters = ceil_div(workload.filters, config.block_out)
    return rolling_pool_vdla_space.RollingShape(
        images=ceil_div(workload.batch, config.batch),
        batch=workload.batch,
        groups=ceil_div(filters, ring.filters),
        filters=filters,
        rows=rows,
        columns=used_columns(ring, columns, workload.pool),
        pooled=pooled,
        vectors=ceil_div(prod(workload.kernel) * workload.channels, config.block_in),
        output_vectors=filters * pooled * wide,
        image_bytes=workload.batch * workload.channels * workload.height * workload.width,
        ring=ring,
    )


def settings_of(
    config: Config, workload: Workload, virtual_threads: int, values: Values | None = None
) -> dict[str, int | str]:
    """What a workload is scheduled with, for people: by axis of its space, for a point or for the template's choice.

    The template's choice (`values` None or empty) need not be a point: it may load parameters elsewhere, and of
    `virtual_threads` copies, which it asks for, a buffer gets those that fit. Under "order" are the loops over tiles of
    output blocks, rows and columns (o, y, x) that run more than once, outermost first; under a level those of them, and
    of the chunks (c) of the reduction, that are around the buffer. Raises NoTileError if nothing fits.
    """
    names = [axis.name for axis in space_of(config, workload).axes]
    found: dict[str, int | str] = dict.fromkeys((n for n in names if n.endswith("_copies")), virtual_threads)
    if workload.template == "patch_conv2d_pool":
        shape, program = _rolling_shape(config, workload), program_of(config, workload)
        found["columns"] = rolling_pool_vdla.choose_columns(config, program, shape.columns, virtual_threads)
        return {name: found[name] for name in names} | dict(values or {})
    knobs = _knobs(config, workload, values) if values else _default_knobs(config, workload, virtual_threads)
    shape = _shape(config, workload)
    extents, window = extents_of(shape), workload.kernel if knobs.window is None else knobs.window
    sizes = {"o": knobs.output_blocks, "y": knobs.rows, "x": knobs.columns}
    repeated = {letter for letter in sizes if sizes[letter] < extents[letter]}
    cut = "reduction_blocks" in names and knobs.reduction_blocks < shape.input_blocks
    chunked = cut or window != workload.kernel

    def around(level: int) -> str:
        loops = [letter for letter in knobs.order[: OUTERMOST - level + 1] if letter in repeated]
        return "".join(loops) + ("c" if level == CHUNK and chunked else "")

    found |= {name: value for name, value in (values or {}).items() if name.endswith("_copies")}
    found |= {
        "output_blocks": knobs.output_blocks,
        "rows": knobs.rows,
        "columns": knobs.columns,
        "reduction_blocks": knobs.reduction_blocks,
        "window_rows": window[0],
        "window_columns": window[1],
        "order": around(INNERMOST),
        "data_level": around(knobs.data_level),
        "weights_level": around(knobs.weights_level),
    }
    return {name: found[name] for name in names}


def _default_knobs(config: Config, workload: Workload, virtual_threads: int) -> Knobs:
    program, window = program_of(config, workload), workload.window
    match workload.template:
        case "conv2d":
            return conv2d_vdla.choose_knobs(config, _shape(config, workload), virtual_threads)
        case "patch_conv2d":
            return patch_conv2d_vdla.choose_knobs(config, program, window, virtual_threads)
        case "depthwise_conv2d":
            return depthwise_vdla.choose_knobs(config, program, window, virtual_threads)
        case "max_pool" | "average_pool" | "elementwise":
            kernel, strides = workload.kernel, workload.strides
            return pool_vdla.choose_knobs(config, program, kernel, strides, virtual_threads)
        case "patch_conv2d_pool":
            raise ValueError("a rolling pool has knobs of its own")


Cut = Knobs | int
"""How a workload is cut: the knobs of its template, or the columns that a rolling pool gathers at a time."""


def schedule_workload(
    config: Config,
    workload: Workload,
    program: Program,
    post: Post,
    virtual_threads: int,
    values: Values | None = None,
) -> tuple[Schedule, Copies | None]:
    """The tensor expression `program` of a workload scheduled, and the copies of its buffers (None: `virtual_threads`).

    `values` is a legal point of `space_of`; without it, or empty, the template decides. Raises NoTileError if nothing
    fits.
    """
    cut, copies = cut_of(config, workload, values) if values else (None, None)
    return schedule_cut(config, workload, program, post, virtual_threads, cut), copies


def cut_of(config: Config, workload: Workload, values: Values) -> tuple[Cut, Copies]:
    """A legal point of `space_of` as what its schedule depends on, and the copies of buffers, which passes make of it.

    Many points of a space have one schedule: those that differ in copies, or in levels that mean the same.
    """
    if workload.template == "patch_conv2d_pool":
        return values["columns"], rolling_pool_vdla_space.copies(values)
    knobs = _knobs(config, workload, values)
    assert knobs.copies is not None
    return replace(knobs, copies=None), knobs.copies


def _knobs(config: Config, workload: Workload, values: Values) -> Knobs:
    match workload.template:
        case "conv2d":
            return conv2d_vdla_space.knobs(values, _shape(config, workload))
        case "patch_conv2d":
            return patch_conv2d_vdla_space.knobs(values, _patch_shape(config, workload))
        case "depthwise_conv2d":
            return depthwise_vdla_space.knobs(values, _shape(config, workload))
        case "max_pool" | "average_pool" | "elementwise":
            return pool_vdla_space.knobs(values, _shape(config, workload))
        case "patch_conv2d_pool":
            raise ValueError("a rolling pool has knobs of its own")


def schedule_cut(
    config: Config,
    workload: Workload,
    program: Program,
    post: Post,
    virtual_threads: int,
    cut: Cut | None,
) -> Schedule:
    """The tensor expression `program` of a workload scheduled as `cut_of` says; None: the template decides.

    Raises NoTileError if nothing fits.
    """
    if workload.template == "patch_conv2d_pool":
        assert not isinstance(cut, Knobs)
        columns, pool = _rolling_shape(config, workload).columns, workload.pool_kernel
        return rolling_pool_vdla.schedule(config, program, columns, pool, post, virtual_threads, cut)
    assert not isinstance(cut, int)
    window, kernel, strides = workload.window, workload.kernel, workload.strides
    match workload.template:
        case "conv2d":
            return conv2d_vdla.schedule(config, program, window, post, virtual_threads, cut)
        case "patch_conv2d":
            return patch_conv2d_vdla.schedule(config, program, window, post, virtual_threads, cut)
        case "depthwise_conv2d":
            return depthwise_vdla.schedule(config, program, window, post, virtual_threads, cut)
        case "max_pool" | "average_pool" | "elementwise":
            reduction = "add" if workload.template == "average_pool" else "max"
            return pool_vdla.schedule(config, program, post, kernel, strides, reduction, virtual_threads, cut)

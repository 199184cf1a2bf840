"""A first convolution with its max-pool on the accelerator: one row of the pool after the other, rows in a ring."""

from __future__ import annotations

from vdla.isa.config import Config

from ...ir.stmt import Program
from ...schedule import Schedule
from ...target.vdla import intrinsics
from ...te.blocks import Pair, Window
from ...te.ops.rolling_pool import Ring
from ...te.post import Post
from .tiling import NoTileError, balanced_sizes


def choose_columns(config: Config, program: Program, columns: int, virtual_threads: int) -> int:
    """How many patches of a row are gathered at a time: as many as fit. Raises NoTileError."""
    vectors = next(buffer for buffer in program.parameters if buffer.name == "W").shape[1]
    for count in balanced_sizes(columns)[::-1].tolist():
        if virtual_threads * count * vectors <= config.inp_depth:
            return count
    raise NoTileError(f"{program.name}: no tile is small enough for the input scratchpad")


def used_columns(ring: Ring, columns: int, pool: Window) -> int:
    """How many of a row's `columns` the pool has a use for."""
    return min(columns, ring.width - pool.pads[1])


def weights_fit(config: Config, program: Program, ring: Ring, virtual_threads: int) -> bool:
    """Whether the weights of a group of filters stay on the chip."""
    blocks, vectors = next(buffer for buffer in program.parameters if buffer.name == "W").shape[:2]
    groups = -(-blocks // ring.filters)
    return min(virtual_threads, groups) * ring.filters * vectors <= config.wgt_depth


def schedule(
    config: Config,
    program: Program,
    columns: int,
    pool: Pair,
    post: Post,
    virtual_threads: int,
    gathered: int | None = None,
) -> Schedule:
    """The tensor expression of `te.ops.patch_conv2d_pool`, whose rows have `columns` patches, scheduled.

    `gathered` patches of them at a time (default: `choose_columns`).
    """
    s = Schedule(program)
    if gathered is None:
        gathered = choose_columns(config, program, columns, virtual_threads)
    tx, x = s.split("conv.x", gathered)
    s.reorder("conv.y", tx, x, "conv.o", "conv.kb", "conv.b", "conv.j", "conv.k")
    s.compute_at("patch", tx)
    s.cache_read("W", "og", "wgt")
    s.cache_read("P", "og", "par")
    s.tensorize("conv.b", intrinsics.gemm(config))
    s.tensorize("window", intrinsics.post_rows(config, post, pool), intrinsics.post_attributes(post))
    for loop in ("og", tx):
        s.virtual_thread(loop)
    return s

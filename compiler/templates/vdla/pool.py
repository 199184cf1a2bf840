"""Pools and element-wise operators on the accelerator: widened into the accumulators, finished by the store unit."""

from __future__ import annotations

import numpy as np
from vdla.isa.config import Config

from ...ir.stmt import Program
from ...schedule import Schedule
from ...target.vdla import intrinsics
from ...te.blocks import Pair
from ...te.post import PoolOperator, Post
from .tile_loops import cut_tiles
from .tiling import (
    MOST_WINDOW,
    Knobs,
    balanced_sizes,
    best,
    candidates,
    divide,
    first_that_fits,
    fits,
    store_reads,
)


def choose_knobs(
    config: Config, program: Program, kernel: Pair, strides: Pair, virtual_threads: int
) -> Knobs:
    """The cheapest tile by the static estimate, with fewer threads where so many do not fit.

    Raises NoTileError when nothing fits at all.
    """
    return first_that_fits(
        lambda threads, _: _cheapest(config, program, kernel, strides, threads), virtual_threads
    )


def _cheapest(config: Config, program: Program, kernel: Pair, strides: Pair, virtual_threads: int) -> Knobs:
    buffers = {buffer.name: buffer for buffer in program.parameters}
    images, blocks, out_height, out_width = buffers["Y"].shape[:4]
    knobs = candidates(
        {
            "columns": balanced_sizes(out_width),
            "rows": balanced_sizes(out_height),
            "output": balanced_sizes(blocks, config.par_depth),
        }
    )
    rows, columns, output = knobs["rows"], knobs["columns"], knobs["output"]
    in_rows = (rows - 1) * strides[0] + kernel[0]
    in_columns = (columns - 1) * strides[1] + kernel[1]
    groups = divide(blocks, output)
    tiles = images * divide(out_height, rows) * divide(out_width, columns)
    acc, out = output * in_rows * in_columns, output * rows * columns
    runs = np.minimum(virtual_threads, groups * tiles)
    legal = {
        "the windows of the store unit": np.full(len(rows), max(kernel) <= MOST_WINDOW),
        "the accumulators": fits(config, "acc", acc, runs),
        "the parameter table": output <= config.par_depth,
    }
    bus = config.memory.bus_bytes
    latency = config.memory.read_latency
    load = acc * max(1.0, config.out_bytes / bus) + 1.0 * latency * output
    beats = out * max(1.0, config.out_bytes / bus) * (2 if "R" in buffers else 1)
    store = np.maximum(store_reads(config, out, kernel[0] * kernel[1]), beats) + 2.0 * latency * output
    both = np.maximum(load, store) if virtual_threads > 1 else load + store
    cost = groups * tiles * both + load + store
    index = best(
        program.name,
        legal,
        np.asarray(cost, dtype=np.float64),
        np.asarray(groups * tiles * acc, dtype=np.float64),
    )
    return Knobs(
        output_blocks=int(output[index]),
        rows=int(rows[index]),
        columns=int(columns[index]),
    )


def schedule(
    config: Config,
    program: Program,
    post: Post,
    kernel: Pair,
    strides: Pair,
    pool: PoolOperator,
    virtual_threads: int,
    knobs: Knobs | None = None,
) -> Schedule:
    """The tensor expressions of `te.ops.pointwise` scheduled with `knobs` (default: `choose_knobs`)."""
    if knobs is None:
        knobs = choose_knobs(config, program, kernel, strides, virtual_threads)
    s = Schedule(program)
    blocks = next(buffer for buffer in program.parameters if buffer.name == "Y").shape[1]
    tiles = cut_tiles(s, knobs, ("b", "j") if kernel == (1, 1) else ())
    s.compute_at("pad", tiles.at(knobs.data_level))
    s.set_scope("acc", "acc")
    s.cache_read("P", tiles.parameters(blocks, config.par_depth), "par")
    s.tensorize(
        "b" if kernel == (1, 1) else "window",
        intrinsics.post(config, post, kernel, pool),
        intrinsics.post_attributes(post, pool),
    )
    for loop in tiles.names:
        s.virtual_thread(loop)
    return s

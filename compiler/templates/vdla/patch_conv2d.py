"""A first convolution on the accelerator: patches gathered by the load unit, all of the reduction in one chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from vdla.isa.config import Config

from ...ir.stmt import Program
from ...schedule import Schedule
from ...target.vdla import intrinsics
from ...te.blocks import Window
from ...te.post import Post
from .tile_loops import cut_tiles
from .tiling import Knobs, balanced_sizes, best, candidates, divide, first_that_fits, fits, store_reads


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchShape:
    """What a space needs to know of a first convolution: `batch` in images, `images` and outputs in blocks.

    A patch is `vectors` vectors long.
    """

    batch: int
    channels: int
    height: int
    width: int
    images: int
    vectors: int
    output_blocks: int
    out_height: int
    out_width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    operand: bool


def choose_knobs(config: Config, program: Program, window: Window, virtual_threads: int) -> Knobs:
    """The cheapest tile by the static estimate, with fewer threads where so many do not fit.

    Raises NoTileError when nothing fits at all.
    """
    return first_that_fits(lambda threads, _: _cheapest(config, program, window, threads), virtual_threads)


def _cheapest(config: Config, program: Program, window: Window, virtual_threads: int) -> Knobs:
    buffers = {buffer.name: buffer for buffer in program.parameters}
    images, _, row_bytes = buffers["X"].shape
    filters, vectors = buffers["W"].shape[:2]
    out_height, out_width = buffers["Y"].shape[2:4]
    knobs = candidates(
        {
            "columns": balanced_sizes(out_width),
            "rows": balanced_sizes(out_height),
            "output": balanced_sizes(filters, config.par_depth),
        }
    )
    rows, columns, output = knobs["rows"], knobs["columns"], knobs["output"]
    groups = divide(filters, output)
    tiles = images * divide(out_height, rows) * divide(out_width, columns)
    inp, wgt, acc = rows * columns * vectors, output * vectors, rows * columns * output
    legal = {
        "the input scratchpad": fits(config, "inp", inp, np.minimum(virtual_threads, groups * tiles)),
        "the weight scratchpad": fits(config, "wgt", wgt, np.minimum(virtual_threads, groups)),
        "the accumulators": fits(config, "acc", acc, np.minimum(virtual_threads, groups * tiles)),
        "the parameter table": output <= config.par_depth,
        "the micro-op memory": output * vectors * 2 <= config.uop_depth,
    }
    kernel_rows = window.kernel[0]
    # A patch of a window row writes its run in pieces of one vector each, wherever it starts.
    writes = rows * columns * (vectors + kernel_rows) * config.batch
    beats = (
        rows * kernel_rows * (row_bytes * columns // out_width + 32) // config.memory.bus_bytes * config.batch
    )
    load = np.maximum(writes, beats)
    out_beats = acc * max(1.0, config.out_bytes / config.memory.bus_bytes)
    store = np.maximum(store_reads(config, acc), out_beats)
    compute = groups * tiles * acc * vectors
    traffic = groups * tiles * (beats + out_beats)
    storing = groups * tiles * store
    work = np.maximum(np.maximum(compute, groups * tiles * load), np.maximum(traffic, storing))
    if virtual_threads == 1:
        work = compute + groups * tiles * (load + store - out_beats) + traffic
    cost = work + load + 0.5 * store + 8.0 * groups * tiles
    index = best(
        "patch_conv2d", legal, np.asarray(cost, dtype=np.float64), np.asarray(traffic, dtype=np.float64)
    )
    return Knobs(
        output_blocks=int(output[index]),
        rows=int(rows[index]),
        columns=int(columns[index]),
    )


def schedule(
    config: Config,
    program: Program,
    window: Window,
    post: Post,
    virtual_threads: int,
    knobs: Knobs | None = None,
) -> Schedule:
    """The tensor expression of `te.ops.patch_conv2d` scheduled with `knobs` (default: `choose_knobs`)."""
    if knobs is None:
        knobs = choose_knobs(config, program, window, virtual_threads)
    s = Schedule(program)
    filters = next(buffer for buffer in program.parameters if buffer.name == "W").shape[0]
    tiles = cut_tiles(s, knobs, ("b", "j"))
    s.compute_at("conv", tiles.innermost)
    s.set_scope("acc", "acc")
    s.reorder("conv.n", "conv.y", "conv.x", "conv.o", "conv.kb", "conv.b", "conv.j", "conv.k")
    s.compute_at("patch", tiles.at(knobs.data_level))
    s.cache_read("W", tiles.at(knobs.weights_level), "wgt")
    s.cache_read("P", tiles.parameters(filters, config.par_depth), "par")
    s.tensorize("conv.b", intrinsics.gemm(config))
    s.tensorize("b", intrinsics.post(config, post), intrinsics.post_attributes(post))
    for loop in tiles.names:
        s.virtual_thread(loop)
    return s

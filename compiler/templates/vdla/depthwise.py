"""Depthwise convolution on the accelerator: one vector of channels an operation."""

from __future__ import annotations

import numpy as np
from vdla.isa.config import Config

from ...ir.expr import Const
from ...ir.stmt import Program
from ...ir.visit import loops
from ...schedule import Schedule
from ...target.vdla import intrinsics
from ...te.blocks import Window
from ...te.post import Post
from .tile_loops import cut_tiles
from .tiling import (
    Knobs,
    balanced_sizes,
    best,
    candidates,
    divide,
    first_that_fits,
    fits,
    store_reads,
    window_sizes,
)


def choose_knobs(config: Config, program: Program, window: Window, virtual_threads: int) -> Knobs:
    """The cheapest tile by the static estimate, with fewer threads or cut windows where nothing else fits.

    Raises NoTileError when nothing fits at all.
    """
    return first_that_fits(
        lambda threads, whole: _cheapest(config, program, window, threads, whole),
        virtual_threads,
        window.kernel,
    )


def _cheapest(config: Config, program: Program, window: Window, virtual_threads: int, whole: bool) -> Knobs:
    buffers = {buffer.name: buffer for buffer in program.parameters}
    images, _, height, width = buffers["X"].shape[:4]
    weight_blocks, weight_tiles = buffers["W"].shape[:2]
    # The loops, not Y, say how much is computed: it may be a part of Y.
    blocks, out_height, out_width = (_extent(program, name) for name in ("o", "y", "x"))
    knobs = candidates(
        {
            "columns": balanced_sizes(out_width),
            "rows": balanced_sizes(out_height),
            "output": balanced_sizes(blocks, config.par_depth if whole else 1),
            **window_sizes(window.kernel, whole),
        }
    )
    rows, columns, output = knobs["rows"], knobs["columns"], knobs["output"]
    window_rows, window_columns = knobs["window_rows"], knobs["window_columns"]
    taps = window_rows * window_columns
    in_rows = (rows - 1) * window.strides[0] + (window_rows - 1) * window.dilations[0] + 1
    in_columns = (columns - 1) * window.strides[1] + (window_columns - 1) * window.dilations[1] + 1
    groups = divide(blocks, output)
    tiles = images * divide(out_height, rows) * divide(out_width, columns)
    chunks = divide(window.kernel[0], window_rows) * divide(window.kernel[1], window_columns)
    inp, acc = output * in_rows * in_columns, output * rows * columns
    wgt = np.minimum(output, weight_blocks) * weight_tiles
    runs = np.minimum(virtual_threads, groups * tiles)
    loads = np.minimum(virtual_threads, groups * tiles * chunks)
    legal = {
        "the input scratchpad": fits(config, "inp", inp, loads),
        "the weight scratchpad": fits(config, "wgt", wgt, np.minimum(virtual_threads, groups)),
        # Weight rows are addressed by the micro-op's weight index, relative to a tile.
        "the row index of a micro-op": wgt * config.block_out <= config.wgt_depth,
        "the accumulators": fits(config, "acc", acc, runs),
        "the parameter table": output <= config.par_depth,
        "the micro-op memory": output * taps * (2 if whole else 1) <= config.uop_depth,
    }
    bus = config.memory.bus_bytes
    seen = np.minimum(in_rows, height) * np.minimum(in_columns, width)
    load = np.maximum(output * seen * max(1, config.inp_bytes // bus), inp)
    out_beats = acc * max(1.0, config.out_bytes / bus)
    store = np.maximum(store_reads(config, acc), out_beats)
    compute = groups * tiles * chunks * acc * taps
    traffic = groups * tiles * (chunks * load + out_beats)
    storing = groups * tiles * store
    work = np.maximum(np.maximum(compute, traffic), storing)
    if virtual_threads == 1:
        work = compute + traffic + storing - groups * tiles * out_beats
    cost = work + load + 0.5 * store + 8.0 * groups * tiles * chunks
    index = best(
        "depthwise_conv2d", legal, np.asarray(cost, dtype=np.float64), np.asarray(traffic, dtype=np.float64)
    )
    return Knobs(
        output_blocks=int(output[index]),
        rows=int(rows[index]),
        columns=int(columns[index]),
        window=None if whole else (int(window_rows[index]), int(window_columns[index])),
    )


def _extent(program: Program, name: str) -> int:
    extent = next(loop.extent for loop in loops(program) if loop.name == name)
    assert isinstance(extent, Const)
    return int(extent.value)


def schedule(
    config: Config,
    program: Program,
    window: Window,
    post: Post,
    virtual_threads: int,
    knobs: Knobs | None = None,
) -> Schedule:
    """The tensor expression of `te.ops.depthwise_conv2d` scheduled with `knobs` (default: `choose_knobs`)."""
    if knobs is None:
        knobs = choose_knobs(config, program, window, virtual_threads)
    s = Schedule(program)
    blocks = _extent(program, "o")
    tiles = cut_tiles(s, knobs, ("b", "j"))
    s.compute_at("conv", tiles.innermost)
    s.set_scope("acc", "acc")
    chunk: tuple[str, ...] = ()
    kh, kw = "conv.kh", "conv.kw"
    if knobs.window is not None:
        khc, kh = s.split(kh, knobs.window[0])
        kwc, kw = s.split(kw, knobs.window[1])
        chunk = (khc, kwc)
    s.reorder(*chunk, "conv.n", "conv.y", "conv.x", "conv.o", kh, kw, "conv.b", "conv.j")
    s.compute_at("pad", tiles.at(knobs.data_level, chunk[-1] if chunk else None))
    s.set_scope("padded", "inp")
    s.cache_read("W", tiles.at(knobs.weights_level), "wgt")
    s.cache_read("P", tiles.parameters(blocks, config.par_depth), "par")
    s.tensorize("conv.b", intrinsics.depthwise(config))
    s.tensorize("b", intrinsics.post(config, post), intrinsics.post_attributes(post))
    for loop in (*tiles.names, *chunk):
        s.virtual_thread(loop)
    return s

"""conv2d on the accelerator: tiles of output blocks, rows and columns, chunks of the reduction, two virtual threads."""

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
from .tiling import (
    CHUNK,
    OUTERMOST,
    Knobs,
    balanced_sizes,
    best,
    candidates,
    divide,
    first_that_fits,
    fits,
    par_load_cycles,
    store_overhead,
    store_reads,
    transfer_cycles,
    window_sizes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionShape:
    """What the tile choice needs to know of a convolution, in blocks."""

    images: int
    input_blocks: int
    output_blocks: int
    height: int
    width: int
    out_height: int
    out_width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    operand: bool


def choose_knobs(config: Config, shape: ConvolutionShape, virtual_threads: int) -> Knobs:
    """The cheapest tile by the static estimate, with fewer threads or cut windows where nothing else fits.

    Raises NoTileError when nothing fits at all.
    """
    return first_that_fits(
        lambda threads, whole: _cheapest(config, shape, threads, whole), virtual_threads, shape.kernel
    )


def _cheapest(config: Config, shape: ConvolutionShape, threads: int, whole: bool) -> Knobs:
    knobs = candidates(
        {
            "columns": balanced_sizes(shape.out_width),
            "rows": balanced_sizes(shape.out_height),
            "reduction": balanced_sizes(shape.input_blocks),
            # Where not even one window fits, few filters and no weights that stay are what is left to try.
            "output": balanced_sizes(shape.output_blocks, config.par_depth if whole else 1),
            "resident": (0, 1) if whole else (0,),
            **window_sizes(shape.kernel, whole),
        }
    )
    resident = knobs["resident"] == 1
    rows, columns, output, reduction = knobs["rows"], knobs["columns"], knobs["output"], knobs["reduction"]
    window_rows, window_columns = knobs["window_rows"], knobs["window_columns"]
    taps = window_rows * window_columns
    in_rows = (rows - 1) * shape.strides[0] + (window_rows - 1) * shape.dilations[0] + 1
    in_columns = (columns - 1) * shape.strides[1] + (window_columns - 1) * shape.dilations[1] + 1
    groups = divide(shape.output_blocks, output)
    chunks = divide(shape.input_blocks, reduction)
    chunks = chunks * divide(shape.kernel[0], window_rows) * divide(shape.kernel[1], window_columns)
    tiles = shape.images * divide(shape.out_height, rows) * divide(shape.out_width, columns)
    inp, acc = reduction * in_rows * in_columns, output * rows * columns
    wgt = output * np.where(resident, shape.input_blocks, reduction) * taps
    weight_loads = np.where(resident, groups, groups * tiles * chunks)
    legal = {
        "the input scratchpad": fits(config, "inp", inp, np.minimum(threads, groups * tiles * chunks)),
        "the weight scratchpad": fits(config, "wgt", wgt, np.minimum(threads, weight_loads)),
        "the accumulators": fits(config, "acc", acc, np.minimum(threads, groups * tiles)),
        "the parameter table": output <= config.par_depth,
        # Twice: the last tile of a row or column may need a sequence of its own. What remains is paged.
        "the micro-op memory": output * reduction * taps * (2 if whole else 1) <= config.uop_depth,
    }
    memory = config.memory
    seen_rows, seen_columns = np.minimum(in_rows, shape.height), np.minimum(in_columns, shape.width)
    # Rows over the whole width are one run in DRAM, others are read one by one.
    runs = reduction * np.where(seen_columns == shape.width, 1, seen_rows)
    inp_beats = reduction * seen_rows * seen_columns * max(1, config.inp_bytes // memory.bus_bytes)
    load = np.maximum(inp, transfer_cycles(config, inp_beats, runs))
    wgt_beats = wgt * (config.wgt_bytes // min(memory.bus_bytes, config.wgt_bytes))
    out_beats = acc * max(1.0, config.out_bytes / memory.bus_bytes) * (2 if shape.operand else 1)
    store = output * store_overhead(config, shape.operand) + np.maximum(store_reads(config, acc), out_beats)
    steps = groups * tiles * chunks
    compute = steps * (output * rows * columns * reduction * taps)
    loading = steps * load + weight_loads * wgt_beats
    storing = groups * (tiles * store + par_load_cycles(config, output))
    traffic = steps * inp_beats + weight_loads * wgt_beats + groups * tiles * out_beats
    if threads == 1:
        cost = compute + loading + storing + steps * 2.0 * memory.read_latency
    else:
        # What the layers around cannot hide: the first inputs, part of the first weights, the last stores.
        exposed = load + memory.read_latency + 0.25 * wgt_beats + 0.5 * store
        # Resident weights wait, in the load queue, behind the inputs of the tiles before.
        ahead = threads * (compute - loading + weight_loads * wgt_beats) / np.maximum(groups * tiles, 1)
        exposed = exposed + np.where(resident, (groups - 1) * np.maximum(0, wgt_beats - ahead), 0)
        busiest = np.maximum(np.maximum(compute, loading), np.maximum(storing, traffic))
        cost = busiest + exposed + 4.0 * steps
    index = best("conv2d", legal, np.asarray(cost, dtype=np.float64), np.asarray(traffic, dtype=np.float64))
    return Knobs(
        output_blocks=int(output[index]),
        rows=int(rows[index]),
        columns=int(columns[index]),
        reduction_blocks=int(reduction[index]),
        weights_level=OUTERMOST if resident[index] else CHUNK,
        window=None if whole else (int(window_rows[index]), int(window_columns[index])),
    )


def schedule(
    config: Config,
    program: Program,
    window: Window,
    post: Post,
    virtual_threads: int,
    knobs: Knobs | None = None,
) -> Schedule:
    """The tensor expression of `te.ops.conv2d` scheduled with `knobs` (default: `choose_knobs`)."""
    shape = convolution_shape(program, window)
    if knobs is None:
        knobs = choose_knobs(config, shape, virtual_threads)
    s = Schedule(program)
    tiles = cut_tiles(s, knobs, ("b", "j"))
    s.compute_at("conv", tiles.innermost)
    s.set_scope("acc", "acc")
    icc, ic = s.split("conv.ic", knobs.reduction_blocks)
    chunk, kh, kw = (icc,), "conv.kh", "conv.kw"
    if knobs.window is not None:
        khc, kh = s.split(kh, knobs.window[0])
        kwc, kw = s.split(kw, knobs.window[1])
        chunk = (icc, khc, kwc)
    s.reorder(*chunk, "conv.n", "conv.y", "conv.x", "conv.o", ic, kh, kw, "conv.b", "conv.j", "conv.k")
    s.compute_at("pad", tiles.at(knobs.data_level, chunk[-1]))
    s.set_scope("padded", "inp")
    s.cache_read("W", tiles.at(knobs.weights_level, chunk[-1]), "wgt")
    s.cache_read("P", tiles.parameters(shape.output_blocks, config.par_depth), "par")
    s.tensorize("conv.b", intrinsics.gemm(config))
    s.tensorize("b", intrinsics.post(config, post), intrinsics.post_attributes(post))
    for loop in (*tiles.names, *chunk):
        s.virtual_thread(loop)
    return s


def convolution_shape(program: Program, window: Window) -> ConvolutionShape:
    """The shape of a program made by `te.ops.conv2d` without a pool."""
    buffers = {buffer.name: buffer for buffer in program.parameters}
    x, w, y = buffers["X"].shape, buffers["W"].shape, buffers["Y"].shape
    return ConvolutionShape(
        images=x[0],
        input_blocks=x[1],
        output_blocks=w[0],
        height=x[2],
        width=x[3],
        out_height=y[2],
        out_width=y[3],
        kernel=window.kernel,
        strides=window.strides,
        dilations=window.dilations,
        operand="R" in buffers,
    )

"""The cost model of convolutions on a processor: cycles at many settings of the knobs, without scheduling them.

Sums are in registers or in memory. With sums in registers, the sums of a tile are finished before the next tile, so
that each tile reads all weights of a panel (packed weights of the tile's filters). With sums in memory, a part of the
weights stays in the first-level cache for all tiles of a block, at the price of a load and a store of every sum for
each part. Sums over many channels are faster in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Literal

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...te.blocks import Window
from ..columns import Columns
from .conv2d_knobs import COPY_BYTES_CYCLE, Taps, part_blocks, reduction_loops, taps_of
from .partial_sums import REMOTE_BYTES_CYCLE
from .register_tile import VECTOR_COST, tile_cycles

PANELS: tuple[Literal["inside", "between", "outside"], ...] = ("inside", "between", "outside")
STORED_CYCLES = 6.0
"""Cycles to add a vector of partial sums to sums in the second-level cache (measured with 512 channels, 1x1, 28 x 28: 6
to 9).
"""
NEAR_VECTOR_COST = 0.5
"""Time to load a vector of weights from the first-level cache, in units of a vector multiplication, like
`register_tile.VECTOR_COST`, which is for the second-level cache.
"""
STREAM_SHARE = 0.5
"""With sums in memory, the share of input bytes from beyond the second-level cache whose latency is not hidden. The
channel blocks of one part of a sum are few memory streams, which processors prefetch (1x1, 2048 channels: blocks of all
output pixels are 9% faster than blocks of an eighth).
"""
FEW_LIVE = 0.75
"""The model counts a gain from skipping products of pads only if at most this share of all products reads the input
itself. Above this share, small tiles, which can skip more, lose as much by loading weights (at 0.91, 44 ms instead of
26 with 512 channels and filters on 28 x 28).
"""
PAGE_BYTES = 4096
NEAR_PAGES = 64
"""Number of memory pages in a processor's first-level translation buffer (Zen 64 to 72, Golden Cove 96)."""
INPUT_PAGE_CYCLES, WEIGHT_PAGE_CYCLES = 25.0, 8.0
"""Cycles to enter a page of the input and of weights, if a tile uses more than `NEAR_PAGES` pages: memory streams of an
input restart in each page, those of weights continue. For 1x1 convolutions on 28 x 28 with 512, 768, 1024 and 2048
channels, tiles with sums in registers take 0.92, 1.05, 1.14 and 1.25 of the time of tiles with sums in memory.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a convolution, from its tensor expression.

    `height` x `width`: the padded input. `rows`, `columns`: (span, stride) of the window. `loops`: extents of the
    reduction loops by name; `orders`: legal nesting orders of these loops. `in_bytes`: bytes of one input position
    (pixel) with all channels of a group. `default_terms`: terms of a partial sum in default schedules. `taps`: the
    window's taps (positions in the window) along rows and along columns.
    """

    outer: int
    blocks: int
    oh: int
    ow: int
    co: int
    height: int
    width: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    loops: Mapping[str, int]
    orders: tuple[tuple[str, ...], ...]
    in_bytes: int
    weight_bytes: int
    out_bytes: int
    padded: bool
    default_terms: int
    taps: tuple[Taps, Taps]

    @property
    def depth(self) -> int:
        """Number of terms of one output's sum."""
        return prod(self.loops.values())

    @property
    def least_depth(self) -> float:
        """Mean number of terms of an output's sum with the smallest tiles, which skip every tap (position in the
        window) that reads only pads.
        """
        rows, columns = self.taps
        return self.depth * rows.live(1, rows.outputs) * columns.live(1, columns.outputs)

    @property
    def few_taps(self) -> bool:
        """Whether the share of products that read only pads is so large that the model counts a gain from skipping them
        (`FEW_LIVE`).
        """
        rows, columns = self.taps
        return rows.live(1, rows.outputs) * columns.live(1, columns.outputs) <= FEW_LIVE

    @property
    def copies(self) -> tuple[Literal["none", "rows", "columns", "whole"], ...]:
        """The legal values of the knob `copy`: the parts of the input that may be copied."""
        return ("rows", "columns", "whole") if self.padded else ("none", "rows", "columns")


def shape_of(program: Program, window: Window) -> Shape:
    """The sizes of a program made by `te.ops.blocked_convolution` with this window."""
    shapes = {b.name: b.shape for b in program.parameters}
    batch, groups, blocks, oh, ow, co = shapes["Y"]
    loops = reduction_loops(program)
    looping = [name for name, extent in loops.items() if extent > 1]
    single = [name for name, extent in loops.items() if extent == 1]
    height, width = window.padded(*shapes["X"][3:5])
    spans = [
        ((kernel - 1) * dilation + 1, stride)
        for kernel, dilation, stride in zip(window.kernel, window.dilations, window.strides, strict=True)
    ]
    part = part_blocks(program)
    depth = prod(loops.values())
    element = program.parameters[0].dtype.bits // 8
    return Shape(
        outer=batch * groups,
        blocks=blocks,
        oh=oh,
        ow=ow,
        co=co,
        height=height,
        width=width,
        rows=spans[0],
        columns=spans[1],
        loops=loops,
        orders=tuple((*order, *single) for order in permutations(looping)),
        in_bytes=element * shapes["X"][2] * shapes["X"][5],
        weight_bytes=element * prod(shapes["W"][1:]),
        out_bytes=4 * prod(shapes["Y"]),
        padded=any(window.pads),
        default_terms=depth if part is None else depth // loops["ic"] * part,
        taps=taps_of(window, *shapes["X"][3:5]),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cycles:
    """Estimated cycles of one thread at many points (settings of the knobs), by cause.

    `busy`: arithmetic. `paging`: waits for memory pages and for evicted weights. `waiting`: waits for bytes from beyond
    the second-level cache. `copying`: copies. `near`: no cycles, but the bytes that must stay in the second-level
    cache.
    """

    busy: np.ndarray
    paging: np.ndarray
    waiting: np.ndarray
    copying: np.ndarray
    near: np.ndarray
    remote: np.ndarray
    copied: np.ndarray
    sums_bytes: np.ndarray
    block_bytes: np.ndarray
    box: np.ndarray
    copy: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """The sum of the cycles of all four causes: busy, paging, waiting and copying."""
        return self.busy + self.paging + self.waiting + self.copying


def arithmetic_cycles(shape: Shape, e: Columns) -> np.ndarray:
    """Cycles, at each point (setting of the knobs), of the products and of adding partial sums to sums in memory."""
    split, stored = shape.co // e["lanes"], e["strips"] > 0
    live: float | np.ndarray = 1.0
    if shape.few_taps:
        live = _live(shape.taps[0], e["rows"], e["row_block"])
        live = live * _live(shape.taps[1], e["columns"], e["column_block"])
    busy = np.zeros(len(split))
    for vectors in np.unique(split):
        here = split == vectors
        busy[here] = tile_cycles(
            (shape.oh, shape.ow, shape.blocks),
            (e["rows"][here], e["columns"][here], e["vectors"][here]),
            (shape.depth * live * np.ones(len(split)))[here],
            np.where(stored, NEAR_VECTOR_COST, VECTOR_COST)[here],
            int(vectors),
        )
    adding = STORED_CYCLES * -(-shape.depth // e["part"]) * shape.oh * shape.ow * shape.blocks * split
    return shape.outer * (busy / 2 + np.where(stored, adding, 0.0))


def cycles(target: CpuTarget, shape: Shape, e: Columns) -> Cycles:
    """Cycles of one thread at the points (settings of the knobs) with effective values `e`."""
    rows, columns, stored = e["rows"], e["columns"], e["strips"] > 0
    outside, between = (e["panels"] == PANELS.index(name) for name in ("outside", "between"))
    block_rows, block_columns = np.minimum(e["row_block"], shape.oh), np.minimum(e["column_block"], shape.ow)
    taken_rows, taken_columns = (
        input_extent(*shape.rows, block_rows),
        input_extent(*shape.columns, block_columns),
    )
    row_count, column_count = -(-shape.oh // block_rows), -(-shape.ow // block_columns)
    panel_count = -(-shape.blocks // e["vectors"])
    # Number of filters whose sums are in memory at a time, and bytes in the cache in addition to their
    # inputs.
    filters = np.minimum(e["vectors"] * np.maximum(e["strips"], 1), shape.blocks)
    passes = -(-shape.blocks // filters)
    share = e["part"] / shape.depth
    sums_bytes = np.where(stored, 4 * shape.co * filters * block_rows * block_columns, 0)
    part_bytes = shape.weight_bytes * filters / shape.blocks * share
    near_bytes = np.where(stored, sums_bytes + part_bytes, shape.weight_bytes / panel_count)
    # Bytes of the positions that are combined with one panel (or with all) before the next positions.
    block_bytes = shape.in_bytes * np.where(
        outside, shape.height * shape.width, taken_rows * np.where(between, shape.width, taken_columns)
    )
    count = np.where(outside, 1, row_count * np.where(between, 1, column_count))
    near = 0.75 * target.cache_bytes[1]
    beside = np.where(stored, sums_bytes + block_bytes * share, block_bytes)
    weights_again = np.where(shape.weight_bytes + beside > near, count, 1)
    inputs_again = np.where(near_bytes + block_bytes > near, passes, 1) * np.where(stored, STREAM_SHARE, 1)
    remote = shape.outer * (shape.weight_bytes * weights_again + count * block_bytes * inputs_again)
    copy = np.array([("none", "rows", "columns", "whole").index(name) for name in shape.copies])[e["copy"]]
    nothing, whole = 0 * taken_rows, shape.height * shape.width
    box = shape.in_bytes * np.choose(
        copy, [nothing, taken_rows * shape.width, taken_rows * taken_columns, nothing + whole]
    )
    times = np.choose(copy, [nothing + 1, row_count, row_count * column_count, nothing + 1])
    repeated = np.where((outside & (copy != 3)) | (between & (copy == 2)), passes, 1)
    copied = shape.outer * box * times * repeated
    span = input_extent(*shape.rows, rows)
    inputs = input_pages(
        shape.loops["ic"],
        shape.in_bytes / shape.loops["ic"],
        (shape.height, shape.width),
        span,
        np.minimum(span, rows * shape.loops["kh"]),
        input_extent(*shape.columns, columns),
    )
    # With sums in registers each tile reads the whole panel.
    tiles = -(-shape.oh // rows) * -(-shape.ow // columns) * shape.outer
    panel = shape.weight_bytes * np.minimum(e["vectors"] / shape.blocks, 1)
    paging = page_cycles(inputs, panel / PAGE_BYTES) * tiles * panel_count
    paging += np.where(panel > near, tiles * shape.weight_bytes / REMOTE_BYTES_CYCLE, 0.0)
    return Cycles(
        busy=arithmetic_cycles(shape, e),
        paging=np.where(stored, 0.0, paging),
        waiting=remote / REMOTE_BYTES_CYCLE,
        # A small padded copy is still in the first-level cache when it is read.
        copying=copied * np.where(stored | (box >= near / 4), 2, 1) / COPY_BYTES_CYCLE,
        near=near_bytes + block_bytes * share,
        remote=remote,
        copied=copied,
        sums_bytes=sums_bytes,
        block_bytes=block_bytes,
        box=box,
        copy=copy,
    )


def input_pages(
    blocks: int,
    position: float,
    plane: tuple[int, int],
    span: np.ndarray,
    lines: np.ndarray,
    width: np.ndarray,
) -> np.ndarray:
    """Number of memory pages of the input that a tile reads.

    There are `blocks` blocks of channels. Each has a `plane` (rows, columns) of pixels of `position` bytes, of which
    the tile reads `lines` rows of `width` pixels, within `span` consecutive rows.
    """
    pages = blocks * lines * width * position / PAGE_BYTES
    if position * plane[0] * plane[1] <= PAGE_BYTES:
        # Planes smaller than a page are contiguous.
        return pages
    return pages + blocks * np.minimum(1 + position * (span - 1) * plane[1] / PAGE_BYTES, lines)


def page_cycles(inputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Cycles that a tile waits for its memory pages of the input and of weights; 0 if all these pages fit the
    translation buffer.
    """
    waited = inputs * INPUT_PAGE_CYCLES + weights * WEIGHT_PAGE_CYCLES
    return np.where(inputs + weights > NEAR_PAGES, waited, 0.0)


def _live(taps: Taps, tile: np.ndarray, block: np.ndarray) -> np.ndarray:
    """For many settings of the knobs, the share of products that is computed with tiles of `tile` outputs in blocks of
    `block` outputs if taps (rows or columns of the window) that read only pads are skipped (`Taps.live`).
    """
    pairs, places = np.unique(np.stack([tile, block]), axis=1, return_inverse=True)
    return np.array([taps.live(int(a), int(b)) for a, b in pairs.T])[places.reshape(-1)]


def input_extent(span: int, stride: int, block: np.ndarray) -> np.ndarray:
    """Number of inputs that a block of `block` outputs reads along a dimension with this window `span` and `stride`."""
    return (block - 1) * stride + span

"""Which knobs suit a convolution on a CPU: sums in registers or in memory, whichever are estimated to be faster.

In registers a tile is finished before the next one, so that all of a panel's weights pass by for each tile. In memory a
part of the weights stays in the first-level cache while all tiles of a block pass by, for the price of a load and a
store of every sum a part. That pays for deep sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import prod

import numpy as np

from ...ir.stmt import Program
from ...ir.types import DType
from ...passes.sum_in_blocks import BLOCK_TERMS
from ...target.cpu.machine import CpuTarget
from ...te.blocks import Window, ceil_div
from .borders import team_times
from .conv2d_knobs import (
    COPY_BYTES_CYCLE,
    MOST_VECTORS,
    REMOTE_BYTES_CYCLE,
    Knobs,
    cheapest_tile,
    column_block,
    few_taps,
    reduction_loops,
    row_block,
)
from .partial_sums import even_part

STORED_CYCLES = 6.0
"""Of adding a vector of a part's sums to those in the second-level cache (512 channels, 1x1, 28 x 28: 6 to 9)."""
NEAR_VECTOR_COST = 0.5
"""As `register_tile.VECTOR_COST`, of weights in the first-level cache."""
NEAR_SHARE = 2 / 3
"""Of the first-level cache, for the weights of a part: the rest is the input's."""
NEAR_TERMS = 128
"""Terms of a part at least: tiles have so few filters that their weights fit."""
STREAM_SHARE = 0.5
"""Of the inputs' bytes from beyond the second-level cache, what waits where sums lie in memory: a part's blocks of
channels are few streams, which processors fetch ahead (1x1, 2048 channels: all positions at once are 9% faster than
eighths)."""
MOST_TRIED = 4
"""Numbers of blocks of positions that are tried, for threads to share."""
PAGE_BYTES = 4096
NEAR_PAGES = 64
"""Pages that a processor finds at once (Zen 64 to 72, Golden Cove 96 in its first-level buffer of translations)."""
INPUT_PAGE_CYCLES, WEIGHT_PAGE_CYCLES = 25.0, 8.0
"""Of going to another page where a tile goes through more than NEAR_PAGES: the loads of an input start anew in each,
those of weights go on. Of 1x1 convolutions on 28 x 28 with 512, 768, 1024 and 2048 channels, tiles whose sums stay in
registers take 0.92, 1.05, 1.14 and 1.25 of the time of those whose sums lie in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """Of a convolution's group: `weights` in bytes, `depth` terms of a sum, of which `unit` of a block of channels.

    `outer` groups there are in all samples.
    """

    outer: int
    blocks: int
    oh: int
    ow: int
    co: int
    channel_blocks: int
    unit: int
    weights: int

    @staticmethod
    def of(program: Program) -> _Sizes:
        shapes = {b.name: b.shape for b in program.parameters}
        batch, groups, blocks, oh, ow, co = shapes["Y"]
        loops = reduction_loops(program)
        return _Sizes(
            outer=batch * groups,
            blocks=blocks,
            oh=oh,
            ow=ow,
            co=co,
            channel_blocks=loops["ic"],
            unit=prod(loops.values()) // loops["ic"],
            weights=4 * prod(shapes["W"][1:]),
        )

    @property
    def depth(self) -> int:
        return self.unit * self.channel_blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Estimate:
    """Cycles on one thread `alone`, and with those that threads spend where they share the work; of these knobs.

    `turning` are those of `alone` that tiles wait because they go through too much memory.
    """

    alone: float
    cycles: float
    turning: float = 0.0
    knobs: Knobs


def choose_knobs(target: CpuTarget, program: Program, window: Window, *, parallel: bool = False) -> Knobs:
    """Defaults for any shape, from the sizes of registers and caches alone; `parallel`: also good for many threads."""
    registers = _in_registers(target, program, window, parallel)
    if not registers.turning:
        return registers.knobs
    memory = _in_memory(target, program, window, parallel)
    # One thread must not pay for what many gain.
    if memory is None or registers.alone <= memory.alone or registers.cycles <= memory.cycles:
        return registers.knobs
    return memory.knobs


def _in_registers(target: CpuTarget, program: Program, window: Window, parallel: bool) -> _Estimate:
    """The best knobs of sums in registers."""
    shapes, size = {b.name: b.shape for b in program.parameters}, _Sizes.of(program)
    taps = few_taps(window, *shapes["X"][3:5])
    steps, (rows, columns, vectors) = cheapest_tile(target, size.oh, size.ow, size.blocks, size.depth, taps)
    arithmetic = size.outer * steps / 2
    panels = size.blocks / vectors
    shared = prod(shapes["Y"]) * size.depth / (2 * target.lanes(DType.FLOAT32)) if parallel else None
    tiles = ceil_div(size.oh, rows) * ceil_div(size.ow, columns)
    panel = size.weights * min(vectors / size.blocks, 1)
    if size.oh == 1:
        blocks = column_block(target, program, window, columns, panels, shared)
        knobs = Knobs(rows=rows, columns=columns, vectors=vectors, row_block=1, column_block=blocks.size)
    else:
        blocks = row_block(target, program, window, rows, panels, shared)
        knobs = Knobs(rows=rows, columns=columns, vectors=vectors, row_block=blocks.size)
    turning = float(page_cycles(_input_pages(program, window, knobs), panel / PAGE_BYTES))
    turning *= tiles * ceil_div(size.blocks, vectors)
    if panel > 0.75 * target.cache_bytes[1]:
        # It comes from beyond that cache for each tile.
        turning += tiles * size.weights / REMOTE_BYTES_CYCLE
    busy = arithmetic + size.outer * turning
    alone = busy + blocks.moving
    # Blocks are chosen without what waits for pages.
    teams = 0.0 if shared is None else blocks.shared + busy - shared
    return _Estimate(alone=alone, cycles=alone + teams, turning=turning, knobs=knobs)


def _in_memory(target: CpuTarget, program: Program, window: Window, parallel: bool) -> _Estimate | None:
    """The best knobs of sums in memory; None where a part is all of a sum."""
    shapes, size = {b.name: b.shape for b in program.parameters}, _Sizes.of(program)
    taps = few_taps(window, *shapes["X"][3:5])
    held = int(NEAR_SHARE * target.cache_bytes[0]) // (4 * size.co)
    steps, (rows, columns, vectors) = cheapest_tile(
        target,
        size.oh,
        size.ow,
        size.blocks,
        size.depth,
        taps,
        NEAR_VECTOR_COST,
        max(1, min(MOST_VECTORS, held // NEAR_TERMS)),
    )
    most = min(BLOCK_TERMS, held // vectors) // size.unit
    part = even_part(size.channel_blocks, max(1, most))
    if part >= size.channel_blocks:
        return None
    adding = ceil_div(size.channel_blocks, part) * size.oh * size.ow * size.blocks * STORED_CYCLES
    busy = size.outer * (steps / 2 + adding)
    found: list[_Estimate] = []
    strips = 1
    while True:
        knobs = Knobs(
            rows=rows, columns=columns, vectors=vectors, row_block=size.oh, part=part, strips=strips
        )
        blocks = _in_blocks(target, program, window, size, knobs, busy, parallel)
        tried = list(islice(blocks, MOST_TRIED if parallel else 1))
        found += tried
        if not tried or vectors * strips >= size.blocks:
            return min(found, key=lambda estimate: estimate.cycles, default=None)
        strips = min(2 * strips, ceil_div(size.blocks, vectors))


def _in_blocks(
    target: CpuTarget,
    program: Program,
    window: Window,
    size: _Sizes,
    knobs: Knobs,
    busy: float,
    parallel: bool,
) -> Iterator[_Estimate]:
    """Sums in memory with `knobs`, of blocks of positions that fit, the largest first; `busy`: cycles of arithmetic."""
    one_row = size.oh == 1
    along, tile = (size.ow, knobs.columns) if one_row else (size.oh, knobs.rows)
    outer = "x_block" if one_row else "y_block"
    assert knobs.strips is not None
    panels = max(1.0, size.blocks / (knobs.vectors * knobs.strips))
    for pieces in _pieces(ceil_div(along, tile)):
        block = ceil_div(ceil_div(along, tile), pieces) * tile
        sized = replace(
            knobs, **({"row_block": 1, "column_block": block} if one_row else {"row_block": block})
        )
        cost = _moving(target, program, window, size, sized)
        if cost is None:
            continue
        waiting, copying = cost
        alone = cycles = busy + waiting + copying
        if parallel:
            counts = {"n": size.outer, outer: max(1.0, along / block), "panel": panels}
            cycles += min(team_times(counts, busy + waiting, {outer: copying}).values())
        yield _Estimate(alone=alone, cycles=cycles, knobs=sized)


def _pieces(tiles: int) -> Iterator[int]:
    """Numbers of pieces into which so many tiles are cut, twice as many at a time."""
    pieces = 1
    while pieces < 2 * tiles:
        yield min(pieces, tiles)
        pieces *= 2


def _moving(
    target: CpuTarget, program: Program, window: Window, size: _Sizes, knobs: Knobs
) -> tuple[float, float] | None:
    """Cycles of waiting for bytes from beyond the second-level cache, and of copying, with sums in memory.

    None where that cache does not hold the sums of a block with the weights and inputs of a part.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    lanes, near = shapes["X"][5], 0.75 * target.cache_bytes[1]
    blocks, inputs, outputs = 1, 4 * lanes, size.co * 4
    for axis, block in enumerate((knobs.row_block, knobs.column_block)):
        total, all_inputs = (size.oh, size.ow)[axis], shapes["X"][3 + axis]
        if block is None or block >= total:
            inputs, outputs = inputs * all_inputs, outputs * total
            continue
        span = (window.kernel[axis] - 1) * window.dilations[axis] + 1
        blocks *= ceil_div(total, block)
        inputs *= (block - 1) * window.strides[axis] + span
        outputs *= block
    assert knobs.strips is not None and knobs.part is not None
    filters = min(knobs.vectors * knobs.strips, size.blocks)
    weights = size.weights * filters / size.blocks * knobs.part / size.channel_blocks
    held = outputs * filters + inputs * knobs.part + weights
    if held > near:
        return None
    taken = inputs * size.channel_blocks
    remote = size.weights * (blocks if held - weights + size.weights > near else 1)
    again = held - inputs * knobs.part + taken > near
    remote += STREAM_SHARE * blocks * taken * (ceil_div(size.blocks, filters) if again else 1)
    # A copy of the padded input is written, and read from where it is written to.
    copied = 2 * blocks * taken if any(window.pads) else 0
    return size.outer * remote / REMOTE_BYTES_CYCLE, size.outer * copied / COPY_BYTES_CYCLE


def _input_pages(program: Program, window: Window, knobs: Knobs) -> float:
    """As `input_pages`, of a tile of these knobs."""
    shapes = {b.name: b.shape for b in program.parameters}
    spans = [
        (tile - 1) * stride + (kernel - 1) * dilation + 1
        for tile, stride, kernel, dilation in zip(
            (knobs.rows, knobs.columns), window.strides, window.kernel, window.dilations, strict=True
        )
    ]
    lines = min(spans[0], knobs.rows * window.kernel[0])
    plane = window.padded(*shapes["X"][3:5])
    return float(input_pages(shapes["X"][2], 4 * shapes["X"][5], plane, spans[0], lines, spans[1]))


def input_pages(
    blocks: int,
    position: float,
    plane: tuple[int, int],
    span: int | np.ndarray,
    lines: int | np.ndarray,
    width: int | np.ndarray,
) -> float | np.ndarray:
    """Pages of the input that a tile goes through.

    In each of the `blocks` of channels, a `plane` of rows and columns of `position` bytes, it reads `lines` rows of
    `width` positions, of `span` rows that follow one another.
    """
    pages = blocks * lines * width * position / PAGE_BYTES
    if position * plane[0] * plane[1] <= PAGE_BYTES:
        # Planes within a page follow one another.
        return pages
    return pages + blocks * np.minimum(1 + position * (span - 1) * plane[1] / PAGE_BYTES, lines)


def page_cycles(inputs: float | np.ndarray, weights: float | np.ndarray) -> float | np.ndarray:
    """Cycles that a tile waits for pages that it goes through, of the input and of weights."""
    cycles = inputs * INPUT_PAGE_CYCLES + weights * WEIGHT_PAGE_CYCLES
    return np.where(inputs + weights > NEAR_PAGES, cycles, 0.0)

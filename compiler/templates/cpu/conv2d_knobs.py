"""Knobs of convolutions on a CPU, and which of them suit a shape whose sums stay in registers."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import Literal

from ...ir.stmt import Program
from ...target.cpu.machine import CpuTarget
from ...te.blocks import Window, ceil_div
from .borders import team_times
from .live_taps import Taps, taps_of
from .partial_sums import part_size
from .register_tile import TILE_OVERHEAD, VECTOR_COST, fits, step_cycles

REMOTE_BYTES_CYCLE = 8.0
"""Bytes a cycle from beyond the second-level cache, as far as they do not hide behind the arithmetic."""
COPY_BYTES_CYCLE = 16.0
"""Bytes a cycle of copying an input into its padded form."""
MOST_POSITIONS = 16
"""Positions of a tile: more of them, of few filters, wait for their loads (28 of one block are 20% slower than 16)."""
MOST_VECTORS = 8
"""Blocks of filters of a tile."""
FEW_LIVE = 0.75
"""Share of products with the input, not its pads, below which tiles are chosen by what they leave out. Above it,
tiles of few positions lose more to loading weights (at 0.91, 44 ms for 26 with 512 channels and filters on 28 x 28)."""
MOST_BLOCKS = 64
"""Blocks into which a row of outputs is cut at most: enough for any cache, and for the threads of a pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A tile is `rows` x `columns` output positions x `vectors` blocks of filters.

    `row_block` rows, and of them `column_block` columns (None: all), pass over all filters before the next ones where
    `panels` is "inside"; where it is "outside" all positions pass over a panel of filters before the next one, and
    "between" columns do so within their rows. `tiles`: which loop over the tiles of a block is the outer one.
    `copy`: what of the input is copied at a time, padded where there are pads (None: the rows of a block where there
    are pads, else nothing): the "columns" are those of a block's rows. `reduction`: the loops of the sum, outermost
    first, of which `unroll` steps are written out; `part` iterations of the outermost one are a part of the sum (None:
    `part_blocks`). `lanes` of a block of filters are a vector (None: all). `inner`: what a step goes through inside.
    `strips`: where they are given, sums lie in memory, those of a block of positions and of so many tiles' filters at a
    time, and a part of the sum is added to all of them before the next one, so that its weights and inputs stay near.
    None: sums stay in registers.
    """

    rows: int
    columns: int
    vectors: int
    row_block: int
    column_block: int | None = None
    panels: Literal["inside", "between", "outside"] = "inside"
    tiles: Literal["rows", "columns"] = "rows"
    copy: Literal["rows", "columns", "whole", "none"] | None = None
    reduction: tuple[str, ...] = ("ic", "kh", "kw", "k")
    unroll: int = 1
    part: int | None = None
    lanes: int | None = None
    inner: Literal["filters", "positions"] = "filters"
    strips: int | None = None


def flattened(window: Window, height: int, width: int) -> tuple[int, int]:
    """The height and width to compute a convolution with: one row, where every position is by itself."""
    alone = window.kernel == (1, 1) and window.strides == (1, 1) and not any(window.pads)
    return (1, height * width) if alone else (height, width)


def few_taps(window: Window, height: int, width: int) -> tuple[Taps, Taps] | None:
    """The window's rows and columns where so many read pads alone that small tiles pay; else None."""
    rows, columns = taps = taps_of(window, height, width)
    return taps if rows.live(1, rows.outputs) * columns.live(1, columns.outputs) <= FEW_LIVE else None


def choose_positions(
    target: CpuTarget, oh: int, ow: int, blocks: int, depth: int, taps: tuple[Taps, Taps] | None = None
) -> tuple[int, int, int]:
    """The rows, columns and blocks of filters of the tile of `cheapest_tile`."""
    return cheapest_tile(target, oh, ow, blocks, depth, taps)[1]


def cheapest_tile(
    target: CpuTarget,
    oh: int,
    ow: int,
    blocks: int,
    depth: int,
    taps: tuple[Taps, Taps] | None = None,
    vector_cost: float = VECTOR_COST,
    most_vectors: int = MOST_VECTORS,
) -> tuple[float, tuple[int, int, int]]:
    """The register tile with the least estimated time: multiplications' worth of it, rows, columns, blocks of filters.

    `oh` x `ow` positions of `blocks` blocks of filters sum up `depth` products each. `taps`: of the window's rows and
    columns, where those that read pads alone are left out. `vector_cost`: of loading weights, as `step_cycles` has it;
    `most_vectors`: blocks of filters at most.
    """
    row_shares = [1.0 if taps is None else taps[0].live(n, oh) for n in range(1, min(oh, 6) + 1)]
    widest = min(ow, MOST_POSITIONS)
    column_shares = [1.0 if taps is None else taps[1].live(n, ow) for n in range(1, widest + 1)]
    best: tuple[float, int, int, int] | None = None
    for vectors in range(1, min(blocks, most_vectors) + 1):
        for rows in range(1, min(oh, 6) + 1):
            for columns in range(1, min(ow, target.vector_registers) + 1):
                if rows * columns > MOST_POSITIONS or not fits(target, rows * columns, vectors):
                    break
                cost = 0.0
                summed = depth * row_shares[rows - 1] * column_shares[columns - 1]
                for height_, n in ((rows, oh // rows), (oh % rows, 1)):
                    for width_, m in ((columns, ow // columns), (ow % columns, 1)):
                        for depth_, k in ((vectors, blocks // vectors), (blocks % vectors, 1)):
                            if height_ and width_ and depth_:
                                step = step_cycles(height_ * width_, depth_, vector_cost)
                                cost += n * m * k * (step * summed + TILE_OVERHEAD * height_ * width_)
                key = (cost, -rows * columns * vectors, vectors, rows)
                if best is None or key < best:
                    best = key
    assert best is not None
    cost, size, vectors, rows = best
    return cost, (rows, -size // vectors // rows, vectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Positions in blocks of `size` rows or columns.

    `moving` are the cycles of waiting for bytes from beyond the second-level cache and of copying; `shared` those that
    threads spend on the whole, `borders.team_times`, and 0 where none share it.
    """

    size: int
    moving: float
    shared: float


def row_block(
    target: CpuTarget,
    program: Program,
    window: Window,
    rows: int,
    panels: float,
    cycles: float | None = None,
) -> Blocks:
    """How many rows of outputs to do at a time: the least bytes from beyond the second-level cache, and copied.

    `rows` are a tile's, `panels` the filters' panels, a fraction where the last one is smaller. `cycles`: of the whole
    arithmetic, where threads share it; then there is as much work for each as can be.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    oh, width = shapes["Y"][3], shapes["X"][4]
    span = (window.kernel[0] - 1) * window.dilations[0] + 1

    def of(block: int) -> Blocks:
        lines = (min(block, oh) - 1) * window.strides[0] + span
        counts = {"y_block": oh / block, "y_tile": min(block, oh) / rows}
        return _blocks(target, program, window, block, lines * width, counts, panels, cycles)

    return min(map(of, range(rows, oh + rows, rows)), key=lambda blocks: blocks.moving + blocks.shared)


def column_block(
    target: CpuTarget,
    program: Program,
    window: Window,
    columns: int,
    panels: float,
    cycles: float | None = None,
) -> Blocks:
    """How many columns to do at a time of a single row of outputs; otherwise as `row_block`."""
    shapes = {b.name: b.shape for b in program.parameters}
    ow, height = shapes["Y"][4], shapes["X"][3]
    span = (window.kernel[1] - 1) * window.dilations[1] + 1
    tiles = ceil_div(ow, columns)

    def of(pieces: int) -> Blocks:
        block = ceil_div(tiles, pieces) * columns
        taken = height * ((min(block, ow) - 1) * window.strides[1] + span)
        return _blocks(target, program, window, block, taken, {"x_block": ow / block}, panels, cycles)

    pieces = range(1, min(tiles, MOST_BLOCKS) + 1)
    return min(map(of, pieces), key=lambda blocks: blocks.moving + blocks.shared)


def _blocks(
    target: CpuTarget,
    program: Program,
    window: Window,
    size: int,
    positions: int,
    counts: dict[str, float],
    panels: float,
    cycles: float | None,
) -> Blocks:
    """Blocks of `size` rows or columns that take `positions` of the input each.

    `counts` are the iterations of the loops over them, outermost first; `panels` and `cycles` as of `row_block`.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    element = program.parameters[0].dtype.bits // 8
    batch, groups, channels, _, _, lanes = shapes["X"]
    (outer, divided), *inner = counts.items()
    count = ceil(divided)
    weights = prod(shapes["W"][1:]) * element
    taken = channels * lanes * positions * element
    near = target.cache_bytes[1] * 0.75
    panel = weights / ceil(panels)
    # Panels come anew for each block of positions, unless all stay; positions for each panel, unless they stay.
    remote = weights * (count if weights + taken > near else 1)
    remote += count * taken * (ceil(panels) if panel + taken > near else 1)
    waiting, copying = batch * groups * remote / REMOTE_BYTES_CYCLE, 0.0
    if any(window.pads):
        # A small padded copy is still in the first-level cache when it is read.
        moves = 1 if taken < near / 4 else 2
        copying = batch * groups * count * taken * moves / COPY_BYTES_CYCLE
    shared = 0.0
    if cycles is not None:
        nest = {"n": batch, "g": groups, outer: divided, "panel": panels, **dict(inner)}
        shared = min(team_times(nest, cycles + waiting, {outer: copying}).values())
    return Blocks(size=size, moving=waiting + copying, shared=shared)


def part_blocks(program: Program) -> int | None:
    """How many blocks of channels make a part of a sum; None where the sum is short."""
    shapes = {b.name: b.shape for b in program.parameters}
    blocks, lanes = shapes["X"][2], shapes["X"][5]
    products = lanes * shapes["W"][3] * shapes["W"][4]
    return part_size(blocks * products, products)


def reduction_loops(program: Program) -> dict[str, int]:
    """The iterations of the sum's loops: blocks of channels, the window's rows and columns, channels of a block."""
    shapes = {b.name: b.shape for b in program.parameters}
    _, _, _, kh, kw = shapes["W"]
    return {"ic": shapes["X"][2], "kh": kh, "kw": kw, "k": shapes["X"][5]}

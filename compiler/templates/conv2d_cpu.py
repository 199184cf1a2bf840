"""Convolutions on a CPU: register tiles of output positions x filters, directly on activations in blocks of channels.

A tile sums up its whole window in registers, in parts that are added up: rounding errors grow with the length of a
sum. Weights are packed in panels of one tile's filters. Rows of outputs are
done in blocks, whose padded input stays in the second-level cache while the panels pass over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import Literal

from ..ir.expr import Binary
from ..ir.stmt import For, Program, Reduce
from ..ir.types import DType
from ..ir.visit import loops
from ..schedule import Schedule
from ..target.cpu.machine import CpuTarget
from ..te.blocks import Window, ceil_div
from .borders import has_loop, parallel_loop, parts_of, peel_ragged, team_times
from .live_taps import Taps, taps_of
from .partial_sums import part_size, sum_in_parts
from .reduction_order import ordered_terms, unroll_terms
from .register_tile import TILE_OVERHEAD, fits, step_cycles

REMOTE_BYTES_CYCLE = 8.0
"""Bytes a cycle from beyond the second-level cache, as far as they do not hide behind the arithmetic."""
COPY_BYTES_CYCLE = 16.0
"""Bytes a cycle of copying an input into its padded form."""
MOST_POSITIONS = 16
"""Positions of a tile: more of them, of few filters, wait for their loads (28 of one block are 20% slower than 16)."""
WAITING_SHARE = 0.05
"""Of the arithmetic, that waiting for weights takes before prefetching them pays for its instructions."""
PREFETCH_BYTES = 4096
"""How far ahead: some hundred cycles of a tile's steps."""
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


def flattened(window: Window, height: int, width: int) -> tuple[int, int]:
    """The height and width to compute a convolution with: one row, where every position is by itself."""
    alone = window.kernel == (1, 1) and window.strides == (1, 1) and not any(window.pads)
    return (1, height * width) if alone else (height, width)


def choose_knobs(target: CpuTarget, program: Program, window: Window, *, parallel: bool = False) -> Knobs:
    """Defaults for any shape, from the sizes of registers and caches alone; `parallel`: also good for many threads."""
    shapes = {b.name: b.shape for b in program.parameters}
    _, _, blocks, oh, ow, _ = shapes["Y"]
    _, _, channels, kh, kw = shapes["W"]
    depth = channels * kh * kw
    rows, columns, vectors = choose_positions(
        target, oh, ow, blocks, depth, _few_taps(window, *shapes["X"][3:5])
    )
    cycles = prod(shapes["Y"]) * depth / (2 * target.lanes(DType.FLOAT32)) if parallel else None
    panels = blocks / vectors
    if oh == 1:
        columns_ = column_block(target, program, window, columns, panels, cycles)
        return Knobs(rows=rows, columns=columns, vectors=vectors, row_block=1, column_block=columns_)
    block = row_block(target, program, window, rows, panels, cycles)
    return Knobs(rows=rows, columns=columns, vectors=vectors, row_block=block)


def _few_taps(window: Window, height: int, width: int) -> tuple[Taps, Taps] | None:
    """The window's rows and columns where so many read pads alone that small tiles pay; else None."""
    rows, columns = taps = taps_of(window, height, width)
    return taps if rows.live(1, rows.outputs) * columns.live(1, columns.outputs) <= FEW_LIVE else None


def choose_positions(
    target: CpuTarget, oh: int, ow: int, blocks: int, depth: int, taps: tuple[Taps, Taps] | None = None
) -> tuple[int, int, int]:
    """The rows, columns and blocks of filters of a register tile with the least estimated time.

    `oh` x `ow` positions of `blocks` blocks of filters sum up `depth` products each. `taps`: of the window's rows and
    columns, where those that read pads alone are left out.
    """
    row_shares = [1.0 if taps is None else taps[0].live(n, oh) for n in range(1, min(oh, 6) + 1)]
    widest = min(ow, MOST_POSITIONS)
    column_shares = [1.0 if taps is None else taps[1].live(n, ow) for n in range(1, widest + 1)]
    best: tuple[float, int, int, int] | None = None
    for vectors in range(1, min(blocks, 8) + 1):
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
                                step = step_cycles(height_ * width_, depth_)
                                cost += n * m * k * (step * summed + TILE_OVERHEAD * height_ * width_)
                key = (cost, -rows * columns * vectors, vectors, rows)
                if best is None or key < best:
                    best = key
    assert best is not None
    _, size, vectors, rows = best
    return rows, -size // vectors // rows, vectors


def row_block(
    target: CpuTarget,
    program: Program,
    window: Window,
    rows: int,
    panels: float,
    cycles: float | None = None,
) -> int:
    """How many rows of outputs to do at a time: the least bytes from beyond the second-level cache, and copied.

    `rows` are a tile's, `panels` the filters' panels, a fraction where the last one is smaller. `cycles`: of the whole
    arithmetic, where threads share it; then there is as much work for each as can be.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    oh, width = shapes["Y"][3], shapes["X"][4]
    span = (window.kernel[0] - 1) * window.dilations[0] + 1
    best: tuple[float, int] | None = None
    for block in range(rows, oh + rows, rows):
        lines = (min(block, oh) - 1) * window.strides[0] + span
        blocks = {"y_block": oh / block, "y_tile": min(block, oh) / rows}
        cost = _block_cycles(target, program, window, lines * width, blocks, panels, cycles)
        if best is None or cost < best[0]:
            best = (cost, block)
    assert best is not None
    return best[1]


def column_block(
    target: CpuTarget,
    program: Program,
    window: Window,
    columns: int,
    panels: float,
    cycles: float | None = None,
) -> int:
    """How many columns to do at a time of a single row of outputs; otherwise as `row_block`."""
    shapes = {b.name: b.shape for b in program.parameters}
    ow, height = shapes["Y"][4], shapes["X"][3]
    span = (window.kernel[1] - 1) * window.dilations[1] + 1
    tiles = ceil_div(ow, columns)
    best: tuple[float, int] | None = None
    for pieces in range(1, min(tiles, MOST_BLOCKS) + 1):
        block = ceil_div(tiles, pieces) * columns
        taken = height * ((min(block, ow) - 1) * window.strides[1] + span)
        cost = _block_cycles(target, program, window, taken, {"x_block": ow / block}, panels, cycles)
        if best is None or cost < best[0]:
            best = (cost, block)
    assert best is not None
    return best[1]


def _block_cycles(
    target: CpuTarget,
    program: Program,
    window: Window,
    positions: int,
    blocks: dict[str, float],
    panels: float,
    cycles: float | None,
) -> float:
    """What dividing positions into `blocks`, the first of which take `positions` of the input each, costs in cycles."""
    shapes = {b.name: b.shape for b in program.parameters}
    element = program.parameters[0].dtype.bits // 8
    batch, groups, channels, _, _, lanes = shapes["X"]
    (outer, divided), *inner = blocks.items()
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
    cost = waiting + copying
    if cycles is not None:
        counts = {"n": batch, "g": groups, outer: divided, "panel": panels, **dict(inner)}
        cost += min(team_times(counts, cycles + waiting, {outer: copying}).values())
    return cost


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


def schedule(
    target: CpuTarget, program: Program, window: Window, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.float_conv2d` scheduled with `knobs` (default: `choose_knobs`); W is packed, see `schedule.pack`.

    `parallel`: tiles run on the threads of the kernel's pool."""
    shapes = {b.name: b.shape for b in program.parameters}
    batch, groups, blocks, oh, ow, co = shapes["Y"]
    ci = shapes["X"][5]
    if knobs is None:
        knobs = choose_knobs(target, program, window, parallel=parallel)
    s = Schedule(program)
    y_block, y = s.split("y", knobs.row_block)
    y_tile, y = s.split(y, knobs.rows)
    x_block, x = s.split("x", knobs.column_block or ow)
    x_tile, x = s.split(x, knobs.columns)
    panel, o = s.split("o", knobs.vectors)
    lanes = knobs.lanes or co
    # One vector is the whole of a block; otherwise its vectors are written out.
    halves, j = s.split("j", lanes) if lanes < co else (None, "j")
    around = {
        "inside": (y_block, x_block, panel),
        "between": (y_block, panel, x_block),
        "outside": (panel, y_block, x_block),
    }[knobs.panels]
    tiles = (y_tile, x_tile) if knobs.tiles == "rows" else (x_tile, y_tile)
    s.reorder("n", "g", *around, *tiles, o, y, x, *([halves] if halves else []), j)
    s.compute_at("conv", tiles[1])
    s.set_scope("sum", "register")
    _copy_input(s, window, knobs, y_block, x_block)
    terms = reduction_loops(program)
    order = [(name, terms[name]) for name in knobs.reduction]
    ordered, unrolled = ordered_terms(s, "conv", order, knobs.unroll)
    vector = ["conv.j"]
    if halves:
        vector = list(s.split("conv.j", lanes))
    # Filters inside: a value of the input is loaded for all of them at once, see `register_tile.fits`.
    inside = ["conv.y", "conv.x", "conv.o", *vector]
    if knobs.inner == "positions":
        inside = ["conv.o", *vector[:-1], "conv.y", "conv.x", vector[-1]]
    part = part_blocks(program) if knobs.part is None else knobs.part
    if part is not None and part >= order[0][1]:
        part = None
    summed = sum_in_parts(s, "conv", "sum", ordered, ("conv.n", "conv.g", *inside), part)
    unroll_terms(s, unrolled)
    for loop in (o, y, x, *([halves] if halves else [])):
        s.unroll(loop)
    s.vectorize(j)
    for suffix in summed:
        for loop in ("conv.o", "conv.y", "conv.x", *vector[:-1]):
            s.unroll(f"{loop}{suffix}")
        s.vectorize(f"{vector[-1]}{suffix}")
    # Weights lie in the order in which the sum reads them.
    position = {"ic": 2, "kh": 3, "kw": 4, "k": 6}
    s.pack("W", ((1, knobs.vectors * co), (2, ci)), (0, 1, *(position[name] for name in knobs.reduction), 5))
    if parallel:
        counts = {
            "n": batch,
            "g": groups,
            y_block: oh / knobs.row_block,
            x_block: ow / (knobs.column_block or ow),
            panel: blocks / knobs.vectors,
            y_tile: min(oh, knobs.row_block) / knobs.rows,
            x_tile: min(ow, knobs.column_block or ow) / knobs.columns,
        }
        # The innermost one leaves little to do between two forks.
        counts = {name: counts[name] for name in ("n", "g", *around, tiles[0])}
        cycles = prod(shapes["Y"]) * prod(shapes["W"][2:]) / (2 * target.lanes(DType.FLOAT32))
        copied = prod(shapes["X"]) * 4 / COPY_BYTES_CYCLE if any(window.pads) else 0.0
        parallel_loop(s, counts, cycles, {x_block if knobs.copy == "columns" else y_block: copied})
    peel_ragged(s, *around, *tiles)
    if any(window.pads):
        _skip_dead_taps(s, taps_of(window, *shapes["X"][3:5]), knobs, ordered)
    if knobs.unroll == 1 and _waits_for_weights(target, program, knobs):
        # Of a sum in parts, loops of one iteration are in both nests, and weights are read in that of the parts.
        innermost = f"{ordered[-1]}.rf" if has_loop(s, f"{ordered[-1]}.rf") else ordered[-1]
        for loop in parts_of(s, innermost):
            s.prefetch(loop.name, "W", PREFETCH_BYTES)
    return s


def _skip_dead_taps(s: Schedule, taps: tuple[Taps, Taps], knobs: Knobs, ordered: tuple[str, ...]) -> None:
    """Leaves out the window's rows and columns that read pads alone, where a tile has enough of them."""
    rows, columns = taps
    blocks = {"kh": (rows, knobs.rows, knobs.row_block), "kw": (columns, knobs.columns, knobs.column_block)}
    for name, (along, tile, block) in blocks.items():
        if along.live(tile, block or along.outputs) == 1:
            continue
        for term in ordered:
            if term.split(".")[1] == name:
                for loop in _innermost(s, term):
                    s.skip_pads(loop)


def _innermost(s: Schedule, term: str) -> list[str]:
    """Of the loops that splits and partial sums made of a sum's loop, those nearest to the products."""
    found: list[str] = []
    for loop in loops(s.program):
        inside, node = "", loop
        while isinstance(node, For):
            if node.name == term or node.name.startswith(f"{term}."):
                inside = node.name
            node = node.body
        if isinstance(node, Reduce) and isinstance(node.value, Binary) and inside == loop.name:
            found.append(inside)
    return found


def _waits_for_weights(target: CpuTarget, program: Program, knobs: Knobs) -> bool:
    """Whether asking for weights early pays.

    A panel that is more than the first-level cache holds comes anew for each tile (asking early: 3 to 10% faster, from
    the second-level cache too); a smaller one where it comes from far away and few positions use it.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    groups, blocks = shapes["Y"][1:3]
    weights = prod(shapes["W"]) * 4
    if weights // groups * min(knobs.vectors, blocks) // blocks > target.cache_bytes[0]:
        return True
    arithmetic = prod(shapes["Y"]) * prod(shapes["W"][2:]) / (2 * target.lanes(DType.FLOAT32))
    far = weights > target.cache_bytes[1] * 0.75
    return far and weights / REMOTE_BYTES_CYCLE > WAITING_SHARE * arithmetic


def _copy_input(s: Schedule, window: Window, knobs: Knobs, y_block: str, x_block: str) -> None:
    """Copies as much of the input at a time as `knobs.copy` says."""
    padded = any(window.pads)
    what = knobs.copy or ("rows" if padded else "none")
    at = {"rows": y_block, "columns": x_block, "whole": None, "none": None}[what]
    if not padded:
        if at is not None:
            s.cache_read("X", at, "workspace")
        return
    if at is not None:
        s.compute_at("pad", at)
    s.set_scope("padded", "workspace")

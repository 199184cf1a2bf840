"""The default knobs of a convolution on a CPU: the least cost by `conv2d_cost`, found in two steps.

The first step chooses the register tile with the least arithmetic, the second the blocks of output pixels that move the
fewest bytes and that threads share most evenly. Both steps are done with sums in registers and with sums in memory. All
constants belong to the cost model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...ir.types import DType
from ...passes.sum_in_blocks import BLOCK_TERMS
from ...te.blocks import Window, ceil_div
from ..columns import Columns
from .conv2d_cost import NEAR_VECTOR_COST, Cycles, Shape, cycles, shape_of
from .conv2d_knobs import Knobs, reduction_loops
from .conv2d_tile import MOST_VECTORS, choose_positions, points
from .loops import even_part, team_times
from .partial_sums import most_steps, waits_for_weights

MOST_BLOCKS = 64
"""Largest number of blocks into which a row of outputs is cut: enough for any cache, and for the threads of a pool."""
NEAR_SHARE = 2 / 3
"""Share of the first-level cache for the weights of a partial sum; the rest is for the input."""
NEAR_TERMS = 128
"""Least number of terms of a partial sum; it limits a tile's number of filters, so that the weights of a partial sum
fit the first-level cache.
"""
EQUAL = 0.001
"""Relative difference of costs that is below the model's accuracy. Among numbers of rows of a block whose costs differ
by less, the smallest is chosen: any number of threads can share small blocks evenly.
"""
MOST_TRIED = 4
"""Number of block sizes that are tried for sums in memory, among those whose data fit the second-level cache: smaller
blocks are easier to share among threads.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Knobs and their estimates. `alone`: cycles on one thread. `cycles`: the cost, which is `alone` plus, for parallel
    kernels, the cycles of all threads together, a mean over several numbers of threads. `paging`: cycles of waiting for
    memory pages.
    """

    knobs: Knobs
    alone: float
    cycles: float
    paging: float


def choose_knobs(target: CpuTarget, program: Program, window: Window, *, parallel: bool = False) -> Knobs:
    """Default knobs for any shape, chosen from the sizes of registers and caches alone. `parallel`: the knobs should
    also suit many threads.
    """
    shape = shape_of(program, window)
    found = _in_registers(target, shape, parallel)
    if found.paging:
        memory = _in_memory(target, shape, parallel)
        # Sums in memory must be faster on one thread too, not only for teams of threads.
        if memory is not None and memory.alone < found.alone and memory.cycles < found.cycles:
            found = memory
    if conv_waits(target, program, found.knobs):
        return found.knobs
    return replace(found.knobs, unroll=most_steps(target))


def conv_waits(target: CpuTarget, program: Program, knobs: Knobs) -> bool:
    """Whether a tile's arithmetic waits for weights, so that prefetching them saves time
    (`partial_sums.waits_for_weights`).
    """
    shapes = {b.name: b.shape for b in program.parameters}
    groups, blocks = shapes["Y"][1:3]
    weights = prod(shapes["W"]) * 4
    panel = weights / groups * min(knobs.vectors / blocks, 1)
    if knobs.strips is not None and knobs.part is not None:
        panel *= min(knobs.part / reduction_loops(program)[knobs.reduction[0]], 1)
    cycles = prod(shapes["Y"]) * prod(shapes["W"][2:]) / (2 * target.lanes(DType.FLOAT32))
    return waits_for_weights(target, panel=panel, weights=weights, cycles=cycles)


def _in_registers(target: CpuTarget, shape: Shape, parallel: bool) -> _Found:
    """The best knobs with sums in registers."""
    tile = choose_positions(target, (shape.oh, shape.ow, shape.blocks), shape.depth, shape)
    rows, columns, vectors = tile
    if shape.oh == 1:
        count = ceil_div(shape.ow, columns)
        sizes = np.array([ceil_div(count, n) * columns for n in range(1, min(count, MOST_BLOCKS) + 1)])
        e = points(shape, tile, np.ones_like(sizes), sizes)
    else:
        sizes = np.arange(rows, shape.oh + rows, rows)
        e = points(shape, tile, sizes, np.full_like(sizes, shape.ow))
    best = _best(target, shape, e, parallel, 0.0 if shape.oh == 1 else EQUAL)
    block = int(sizes[best[0]])
    knobs = Knobs(rows=rows, columns=columns, vectors=vectors, row_block=block)
    return _found(best, replace(knobs, row_block=1, column_block=block) if shape.oh == 1 else knobs)


def _in_memory(target: CpuTarget, shape: Shape, parallel: bool) -> _Found | None:
    """The best knobs with sums in memory; None if one partial sum would contain all terms, or if no block fits the
    caches.
    """
    held = int(NEAR_SHARE * target.cache_bytes[0]) // (4 * shape.co)
    most = max(1, min(MOST_VECTORS, held // NEAR_TERMS))
    tile = choose_positions(
        target, (shape.oh, shape.ow, shape.blocks), shape.depth, shape, NEAR_VECTOR_COST, most
    )
    rows, columns, vectors = tile
    channel_blocks = shape.loops["ic"]
    unit = shape.depth // channel_blocks
    part = even_part(channel_blocks, max(1, min(BLOCK_TERMS, held // vectors) // unit))
    if part >= channel_blocks:
        return None
    one_row = shape.oh == 1
    along, step = (shape.ow, columns) if one_row else (shape.oh, rows)
    tiles = ceil_div(along, step)
    pieces = [min(1 << n, tiles) for n in range((2 * tiles - 1).bit_length())]
    strips = [1]
    while vectors * strips[-1] < shape.blocks:
        strips.append(min(2 * strips[-1], ceil_div(shape.blocks, vectors)))
    best: _Found | None = None
    for count in strips:
        sizes = np.array([ceil_div(tiles, n) * step for n in pieces])
        blocks = (np.ones_like(sizes), sizes) if one_row else (sizes, np.full_like(sizes, shape.ow))
        e = points(shape, tile, *blocks, part=part * unit, strips=count)
        fitting = np.flatnonzero(cycles(target, shape, e).near <= 0.75 * target.cache_bytes[1])
        fitting = fitting[: MOST_TRIED if parallel else 1]
        if not len(fitting):
            break
        found = _best(target, shape, {name: column[fitting] for name, column in e.items()}, parallel)
        block = int(sizes[fitting[found[0]]])
        knobs = Knobs(rows=rows, columns=columns, vectors=vectors, row_block=block, part=part, strips=count)
        if best is None or found[2] < best.cycles:
            best = _found(found, replace(knobs, row_block=1, column_block=block) if one_row else knobs)
    return best


_Best = tuple[int, float, float, float]
"""Index of a point (setting of the knobs), its cycles on one thread, its cost, and its cycles of waiting for memory
pages (`Cycles.paging`). The cost is the cycles on one thread plus, for parallel kernels, the cycles of all threads
together, a mean over several numbers of threads.
"""


def _best(target: CpuTarget, shape: Shape, e: Columns, parallel: bool, equal: float = 0.0) -> _Best:
    """The first point (setting of the knobs) whose cost is at most the least cost times 1 + `equal`.

    The cost is the cycles on one thread; with `parallel`, plus the cycles of all threads together, a mean over several
    numbers of threads.
    """
    cost = cycles(target, shape, e)
    alone = cost.total
    total = alone + (_shared(shape, e, cost) if parallel else 0.0)
    best = int(np.argmax(total <= total.min() * (1 + equal)))
    return best, float(alone[best]), float(total[best]), float(cost.paging[best])


def _found(best: _Best, knobs: Knobs) -> _Found:
    return _Found(knobs=knobs, alone=best[1], cycles=best[2], paging=best[3])


def _shared(shape: Shape, e: Columns, cost: Cycles) -> np.ndarray:
    """For each point (setting of the knobs), the cycles of all threads together (a mean over numbers of threads), if
    the loop that is best for this point runs in parallel (`loops.team_times`).
    """
    found: list[float] = []
    # With sums in registers, cycles beyond full speed are not counted as work that threads share, so that blocks become
    # small, as threads need them. With this rule the model chooses the blocks of earlier formulas in 725 of 735
    # convolutions of 16 networks; the rule itself was not measured.
    full = shape.outer * shape.oh * shape.ow * shape.blocks * shape.depth / 2
    shared = np.where(e["strips"] > 0, cost.busy, full)
    for i in range(len(cost.busy)):
        rows, block, columns = (int(e[name][i]) for name in ("rows", "row_block", "column_block"))
        filters = int(e["vectors"][i]) * max(1, int(e["strips"][i]))
        counts = {"n": float(shape.outer), "block": max(1.0, shape.ow / columns)}
        if shape.oh > 1:
            counts["block"] = max(1.0, shape.oh / block)
        counts["panel"] = max(1.0, shape.blocks / filters)
        if shape.oh > 1 and not e["strips"][i]:
            counts["tile"] = max(1.0, min(block, shape.oh) / rows)
        copying = {"block": float(cost.copying[i])}
        least = min(team_times(counts, float(shared[i] + cost.waiting[i]), copying).values())
        found.append(least + float(cost.busy[i] + cost.paging[i] - shared[i]))
    return np.array(found)

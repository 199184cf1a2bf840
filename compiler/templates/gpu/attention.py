"""Attention on a GPU in one kernel: the tile of a block, and the schedule of `te.ops.attention`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import prod
from typing import Protocol, TypeVar

from ...codegen.cuda.architectures import GRID_LIMITS
from ...codegen.cuda.machine import GpuTarget
from ...ir.kernels import WARP
from ...ir.stmt import Copy, Program
from ...ir.visit import path_to
from ...schedule import Schedule
from ...te.blocks import ceil_div
from ...te.ops.attention import attention
from ...te.ops.attention_sizes import Attention
from ...te.ops.attention_tile import VECTOR, Tile, shared_buffers
from . import bind_by_name
from .multiprocessor import power_of_two
from .tile import aligned

MOST_ROWS = 64
"""Largest number of rows of a block with default knobs. Each row of K and V that a block loads to shared memory is used
for all rows of the block.
"""
MOST_COLUMNS = 256
"""Largest number of columns of Q, K and V. With more columns, tiles in shared memory become so small that separate
kernels for the two products are faster. An estimate.
"""
MOST_THREADS = 256
"""Largest number of threads of a block with default knobs."""
OWN = 4
"""A thread computes, with default knobs, the scores of at most this many rows and this many keys. The thread then holds
4 vectors of Q and 4 vectors of K, of 4 elements each, which give 64 multiply-adds.
"""


def program_of(target: GpuTarget, sizes: Attention, tile: Tile) -> Program:
    """The tensor expression of attention of `sizes`, with the loops over blocks and threads that `tile` determines."""
    return attention(sizes, tile, shuffles=target.has("shuffles"))


def fits(target: GpuTarget, sizes: Attention) -> bool:
    """Whether this kernel can compute an attention: Q, K and V have at most `MOST_COLUMNS` columns; the grid is within
    its limits; and a block has enough shared memory for a tile. The tile must have at least a warp of threads or, if
    the largest tile has fewer threads, as many as the largest tile.
    """
    *rest, heads = sizes.batch or (1,)
    if max(sizes.depth, sizes.columns) > MOST_COLUMNS or max(heads, prod(rest)) > GRID_LIMITS["y"]:
        return False
    tile, wanted = choose_tile(target, sizes), next(_tiles(target, sizes))
    return tile is not None and tile.threads >= min(WARP, wanted.threads)


class RowTile(Protocol):
    """The interface that both kinds of attention tiles share: tiles for CUDA cores and tiles for tensor cores."""

    @property
    def block_rows(self) -> int:
        """Number of rows of the output that a block computes."""
        ...


T = TypeVar("T", bound=RowTile)


def first_fitting(
    target: GpuTarget, sizes: Attention, tiles: Iterable[T], shared: Callable[[T], int], reserved: int = 0
) -> T | None:
    """The first of `tiles` that fits the shared memory of a block; None if none does. If there are more blocks than
    multiprocessors, a tile so small that a multiprocessor holds two blocks is preferred. `shared`: bytes of shared
    memory of a tile; `reserved`: bytes that CUDA reserves in each block, in addition.
    """
    whole = target.shared_bytes_per_block
    half = min(whole, target.shared_bytes_per_multiprocessor // 2 - reserved)
    fitting: T | None = None
    for tile in tiles:
        size = shared(tile)
        blocks = prod(sizes.batch) * ceil_div(sizes.rows, tile.block_rows)
        if size <= (whole if blocks <= target.multiprocessors else half):
            return tile
        if size <= whole:
            fitting = fitting or tile
    return fitting


def choose_tile(target: GpuTarget, sizes: Attention) -> Tile | None:
    """The default tile; None if no tile fits the shared memory of a block."""
    shuffles = target.has("shuffles")
    return first_fitting(
        target,
        sizes,
        _tiles(target, sizes),
        lambda tile: shared_buffers(sizes, tile, shuffles=shuffles).bytes(tile.stages),
    )


def _tiles(target: GpuTarget, sizes: Attention) -> Iterator[Tile]:
    """The tiles among which `choose_tile` chooses, the largest first; smaller tiles need less shared memory."""
    lanes = WARP if sizes.rows == 1 else WARP // 2
    while lanes > WARP // 4 and sizes.keys <= lanes // 2:
        lanes //= 2
    rows = min(MOST_ROWS, power_of_two(sizes.rows))
    matrices = prod(sizes.batch)
    while rows > 16 and matrices * ceil_div(sizes.rows, rows) < target.multiprocessors:
        rows //= 2
    own_rows = min(OWN, rows)
    tile = Tile(
        splits=1,
        row_threads=rows // own_rows,
        lanes=lanes,
        rows=own_rows,
        # A single row uses each key once: more threads load more of them at the same time.
        keys=1 if rows == 1 else max(1, min(OWN, sizes.keys // lanes)),
        wide=_wide(sizes, lanes),
    )
    most = min(MOST_THREADS, target.threads_per_block)
    while 2 * tile.threads <= most and tile.step_keys < sizes.keys and tile.row_threads < 8:
        tile = replace(tile, splits=2 * tile.splits)
    while True:
        if tile.threads <= most:
            ahead = target.has("asynchronous copies") and tile.step_keys < sizes.keys
            yield replace(tile, stages=2 if ahead else 1)
        if tile.keys > 2:
            tile = replace(tile, keys=tile.keys // 2)
        elif tile.splits > 1:
            tile = replace(tile, splits=tile.splits // 2)
        elif tile.keys > 1:
            tile = replace(tile, keys=tile.keys // 2)
        elif tile.row_threads > 1:
            tile = replace(tile, row_threads=tile.row_threads // 2)
        elif tile.rows > 1:
            tile = replace(tile, rows=tile.rows // 2)
        elif tile.lanes > WARP // 4:
            tile = replace(tile, lanes=tile.lanes // 2, wide=_wide(sizes, tile.lanes // 2))
        else:
            return


def _wide(sizes: Attention, lanes: int) -> int:
    """Number of adjacent columns of the result that a thread computes as a vector (`Tile.wide`), if `lanes` threads
    share a row of the result.
    """
    wide = VECTOR
    while wide > 1 and lanes * wide >= 2 * sizes.columns:
        wide //= 2
    return wide


def schedule(target: GpuTarget, program: Program, tile: Tile) -> Schedule:
    """Schedules a program of `te.ops.attention` that was built with the same `tile`."""
    s = bind_by_name.schedule(target, program)
    axes = (("thread.z", tile.splits), ("thread.y", tile.row_threads), ("thread.x", tile.lanes))
    for name in ("q", "k", "v"):
        copy = path_to(s.program, name)[-1]
        if isinstance(copy, Copy) and any(e.value != 1 for e in copy.destination.extents):  # type: ignore[union-attr]
            s.share_copy(name, axes, aligned(copy, VECTOR))
    if tile.stages > 1:
        s.pipeline("step", tile.stages)
    return s

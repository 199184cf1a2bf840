"""Matrix products on a CPU: register tiles over weights packed in panels.

A panel of W (one tile's columns, the whole depth) stays in the second-level cache for all tiles of a block of rows, and
so do the rows of X of that block. Each tile sums over the whole depth in registers, so that the epilogue runs on
registers as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...ir.types import DType
from ...schedule import Schedule
from .loops import parallel_loop, peel_ragged
from .partial_sums import part_size, sum_in_parts
from .register_tile import MAXIMUM_ROWS, ask_early, choose_tile, waits_for_weights, written_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A register tile is `rows` x `vectors` vectors; `row_block` rows, a multiple of `rows`, share a panel of weights.

    `stage`: a block's rows of X are copied first, in pieces of one vector, so that the rows of a tile are adjacent in
    memory. Even if all rows map to the same cache sets, staging was 1% to 11% slower (9 sizes on a Zen 4).
    `column_block`: columns of a block, a multiple of a tile's columns (None: all). `blocks`, `tiles`: the outer one of
    the loops over blocks, and over a block's tiles. `unroll`: unrolled steps of the sum, a divisor of the depth.
    `part`: terms of a partial sum, a multiple of `unroll` (None: `partial_sums.part_size`). `lanes`: lanes of a vector
    (None: all). `inner`: innermost loop of a step.
    """

    rows: int
    vectors: int
    row_block: int
    stage: bool
    column_block: int | None = None
    blocks: Literal["rows", "columns"] = "rows"
    tiles: Literal["columns", "rows"] = "columns"
    unroll: int = 1
    part: int | None = None
    lanes: int | None = None
    inner: Literal["columns", "rows"] = "columns"


def choose_knobs(target: CpuTarget, rows: int, depth: int, columns: int) -> Knobs:
    """Default knobs for any size, from the sizes of registers and caches alone."""
    tile_rows, vectors = matrix_tile(target, rows, columns, depth, DType.FLOAT32)
    row_bytes = depth * DType.FLOAT32.bits // 8
    return Knobs(
        rows=tile_rows,
        vectors=vectors,
        row_block=row_block(target, rows, tile_rows, row_bytes),
        stage=False,
        unroll=written_steps(target, depth),
    )


def matrix_tile(target: CpuTarget, rows: int, columns: int, depth: int, dtype: DType) -> tuple[int, int]:
    """Rows and vectors of the cheapest register tile of a `rows` x `columns` result whose sums, of type `dtype`, have
    `depth` products.
    """
    sizes = (1, rows, -(-columns // target.lanes(dtype)))
    return choose_tile(target, sizes, depth, (1, MAXIMUM_ROWS, target.vector_registers))[1:]


def row_block(target: CpuTarget, rows: int, tile_rows: int, row_bytes: int) -> int:
    """Number of rows that share a panel of weights: as many as fill twice the second-level cache.

    The panel stays in that cache. Rows may be read again from the next cache level for each panel, because an element
    is used for all columns of a tile, so that their traffic is low. Reloading a panel for few rows would stall.
    """
    tiles = max(1, target.cache_bytes[1] * 2 // (row_bytes * tile_rows))
    return tile_rows * min(tiles, -(-rows // tile_rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The names of a product's loops: blocks of rows, tiles of columns and of rows, `i` and `j` inside a tile.

    `column_block`: the loop over blocks of columns, if any. `nest`: all loops outside of a tile, outermost first.
    """

    block: str
    columns: str
    rows: str
    i: str
    j: str
    column_block: str | None
    nest: tuple[str, ...]


def product_sizes(program: Program) -> tuple[int, int, int]:
    """Rows, depth and columns of the product X W = Y."""
    shapes = {b.name: b.shape for b in program.parameters}
    rows, depth = shapes["X"]
    return rows, depth, shapes["Y"][1]


def cut_tiles(s: Schedule, knobs: Knobs, width: int) -> Tiles:
    """Cuts Y into register tiles of `knobs.rows` x `width`, with the sums (statement "dense") of each in registers."""
    block, i = s.split("i", knobs.row_block)
    row_tile, i = s.split(i, knobs.rows)
    column_block, j = (None, "j") if knobs.column_block is None else s.split("j", knobs.column_block)
    column_tile, j = s.split(j, width)
    blocks = (block,) if column_block is None else (block, column_block)
    tiles = (column_tile, row_tile) if knobs.tiles == "columns" else (row_tile, column_tile)
    nest = (*(blocks if knobs.blocks == "rows" else reversed(blocks)), *tiles)
    s.reorder(*nest, i, j)
    s.compute_at("dense", tiles[1])
    s.set_scope("sum", "register")
    return Tiles(
        block=block, columns=column_tile, rows=row_tile, i=i, j=j, column_block=column_block, nest=nest
    )


def schedule(
    target: CpuTarget, program: Program, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.product` scheduled with `knobs` (default: `choose_knobs`); W is packed, see `schedule.pack`.

    `parallel`: tiles run on the threads of the kernel's pool."""
    rows, depth, columns = product_sizes(program)
    if knobs is None:
        knobs = choose_knobs(target, rows, depth, columns)
    lanes = knobs.lanes or target.lanes(DType.FLOAT32)
    width = lanes * knobs.vectors
    s = Schedule(program)
    tiles = cut_tiles(s, knobs, width)
    if knobs.stage:
        copy = s.cache_read("X", tiles.block, "workspace")
        s.expand_copy(copy)
        s.split(f"{copy}.1", lanes)
        s.vectorize(f"{copy}.1.1")
        s.pack(copy, ((1, lanes),), (1, 0, 2))
    j_vector, lane = s.split(tiles.j, lanes)
    sum_vector, sum_lane = s.split("dense.j", lanes)
    for loop in (tiles.i, j_vector):
        s.unroll(loop)
    s.vectorize(lane)
    terms: tuple[str, ...] = ("dense.k",)
    part = part_size(depth) if knobs.part is None else knobs.part
    part = None if part is None else max(1, part // knobs.unroll)
    steps = depth // knobs.unroll
    if knobs.unroll > 1:
        terms = s.split("dense.k", knobs.unroll)
        s.unroll(terms[1])
    # If a part has all steps of the sum, there are no partial sums.
    part = part if part is not None and part < steps else None
    around = ("dense.i", sum_vector) if knobs.inner == "columns" else (sum_vector, "dense.i")
    for suffix in sum_in_parts(s, "dense", "sum", terms, (*around, sum_lane), part):
        s.unroll(f"dense.i{suffix}")
        s.unroll(f"{sum_vector}{suffix}")
        s.vectorize(f"{sum_lane}{suffix}")
    s.pack("W", ((1, width),), (1, 0, 2))
    if parallel:
        counts = {
            tiles.block: rows / knobs.row_block,
            tiles.columns: min(columns, knobs.column_block or columns) / width,
            tiles.rows: min(rows, knobs.row_block) / knobs.rows,
        }
        if tiles.column_block is not None and knobs.column_block is not None:
            counts[tiles.column_block] = columns / knobs.column_block
        counts = {name: counts[name] for name in tiles.nest}
        parallel_loop(s, counts, rows * depth * columns / (2 * lanes))
    peel_ragged(s, *tiles.nest)
    # Weights that are read once are contiguous as stored, and need no prefetches.
    if rows > knobs.rows and waits_for_weights(
        target,
        panel=4 * depth * min(width, columns),
        weights=4 * depth * columns,
        cycles=rows * depth * columns / (2 * lanes),
    ):
        ask_early(s, "dense.k", "W")
    return s

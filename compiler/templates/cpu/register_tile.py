"""Register tiles of sums: cycles of a step, whether a tile fits into the registers, and the cheapest tile for a matrix
of sums.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from ...codegen.cpu.machine import CpuTarget

LATENCY_SUMS = 8
"""Sums in flight that keep the multipliers busy: latency 4 cycles times two units (Zen, Golden Cove)."""
ELEMENT_COST, VECTOR_COST, NEAR_VECTOR_COST = 0.5, 2.0, 0.5
"""Times of three loads, in units of the time of a multiplication: an element of a row from the first-level cache; a
vector of a column from the second-level cache; and a vector of a column from the first-level cache. Loads overlap with
multiplications, except for the share `LOAD_SHARE`.
"""
LOAD_SHARE = 0.1
MAXIMUM_ROWS = 10
"""Largest number of rows of a matrix in a tile: each row is a memory stream, and the rows may fall into one set of the
first-level cache, which has few lines.
"""
MOST_ROWS, MOST_POSITIONS, MOST_VECTORS = 6, 16, 8
"""Largest number of rows, output positions and blocks of filters in a tile of a convolution. Tiles of more positions
with few filters wait for their loads (28 positions of one block of filters are 20% slower than 16).
"""
STEPS = 4
"""Default number of unrolled steps of a sum: 3 to 10% faster than no unrolling (20 convolutions and products whose
weights stay in the caches of a Golden Cove), and equally fast with prefetches.
"""
WIDE = 256
"""Least width of vectors, in bits, at which x86 multiplies with an operand in memory (a vector or a broadcast element),
so that loads take few registers.
"""
TILE_OVERHEAD = 12.0
"""Time to initialize and store a tile, for each row, in vector multiplications."""

Number = int | np.ndarray


def fits(target: CpuTarget, rows: Number, vectors: Number) -> np.ndarray:
    """Whether the sums, one vector of each column and one broadcast element fit into the registers: a bool for each
    tile of `rows` rows and `vectors` vectors.

    In a step, the loop over rows must be outside of the loop over columns: otherwise the elements of all rows need
    registers at once. Without fused multiply-add, products need a register, too.
    """
    steps = vectors + (1 if target.fused_multiply_add else 2)
    return np.asarray(rows * vectors + steps <= target.vector_registers)


def step_cycles(rows: Number, vectors: Number, vector_cost: float | np.ndarray = VECTOR_COST) -> np.ndarray:
    """Time to add a term to `rows` x `vectors` sums, in vector multiplications; `vector_cost`: time of a load."""
    loads = ELEMENT_COST * rows + vector_cost * vectors
    return np.maximum(np.maximum(rows * vectors, loads), LATENCY_SUMS) + LOAD_SHARE * loads


def tile_cycles(
    sizes: tuple[int, int, int],
    tile: tuple[Number, Number, Number],
    depth: float | np.ndarray,
    vector_cost: float | np.ndarray = VECTOR_COST,
    split: int = 1,
) -> np.ndarray:
    """Estimated time, in vector multiplications, of a matrix of sums in tiles (smaller tiles at its ends); float64.

    `sizes`, `tile`: (rows, columns, blocks of filters) of matrix and tile. `depth`: terms of a sum. `split`: vectors of
    a block. `vector_cost`: time to load a vector.
    """
    cost = np.zeros(np.broadcast_shapes(*(np.shape(t) for t in tile)))
    parts = [((t, size // t), (size % t, 1)) for size, t in zip(sizes, tile, strict=True)]
    for (height, n), (width, m), (blocks, k) in product(*parts):
        positions = height * width
        each = step_cycles(positions, blocks * split, vector_cost) * depth + TILE_OVERHEAD * positions
        cost = cost + np.where(positions * blocks > 0, n * m * k * each, 0.0)
    return cost


def choose_tile(
    target: CpuTarget,
    sizes: tuple[int, int, int],
    depth: int,
    most: tuple[int, int, int],
    shares: tuple[np.ndarray, np.ndarray] | None = None,
    vector_cost: float = VECTOR_COST,
) -> tuple[int, int, int]:
    """The rows, columns and blocks of filters of the tile with the least `tile_cycles` (given `vector_cost`); of
    equally cheap tiles the largest.

    `sizes`: rows, columns and blocks of filters of the whole output. `depth`: products of a sum. `most`: largest rows,
    pixels (rows * columns) and blocks of filters of a tile. `shares`: two arrays, for rows and for columns. Entry i is
    the fraction of products that tiles of i + 1 rows (columns) compute, as they skip products of pads (None: all).
    """
    limits = (min(sizes[0], most[0]), min(sizes[1], target.vector_registers), min(sizes[2], most[2]))
    grid = np.meshgrid(*(np.arange(1, limit + 1) for limit in limits), indexing="ij")
    rows, columns, vectors = (axis.ravel() for axis in grid)
    kept = (rows * columns <= most[1]) & fits(target, rows * columns, vectors)
    rows, columns, vectors = rows[kept], columns[kept], vectors[kept]
    share = 1.0 if shares is None else shares[0][rows - 1] * shares[1][columns - 1]
    cost = tile_cycles(sizes, (rows, columns, vectors), depth * share, vector_cost)
    best = int(np.lexsort((rows, vectors, -rows * columns * vectors, cost))[0])
    return int(rows[best]), int(columns[best]), int(vectors[best])


def choose_positions(
    target: CpuTarget,
    sizes: tuple[int, int, int],
    depth: int,
    shares: tuple[np.ndarray, np.ndarray] | None = None,
    vector_cost: float = VECTOR_COST,
    most_vectors: int = MOST_VECTORS,
) -> tuple[int, int, int]:
    """`choose_tile` for tiles of at most MOST_ROWS rows, MOST_POSITIONS pixels and `most_vectors` blocks of filters.
    `sizes`: rows, columns and blocks of the output. `depth`: products of a sum. Other arguments: see `choose_tile`.
    """
    return choose_tile(target, sizes, depth, (MOST_ROWS, MOST_POSITIONS, most_vectors), shares, vector_cost)


def row_block(target: CpuTarget, rows: int, tile_rows: int, row_bytes: int) -> int:
    """How many of a product's `rows` (`row_bytes` each) share a panel of packed weights that stays in the second-level
    cache: whole tiles (`tile_rows` rows each) that take at most twice that cache, but at least one tile. Reading rows
    again for each panel costs little, as a tile uses an element for all its columns.
    """
    tiles = max(1, target.cache_bytes[1] * 2 // (row_bytes * tile_rows))
    return tile_rows * min(tiles, -(-rows // tile_rows))


def most_steps(target: CpuTarget) -> int:
    """Largest number of unrolled steps of a sum: 1 with vectors of 128 bits (SSE, NEON), where the loads of several
    steps would spill sums; else `STEPS`.
    """
    return STEPS if target.vector_bits >= WIDE else 1


def written_steps(target: CpuTarget, depth: int) -> int:
    """Number of unrolled steps for a sum of `depth` terms: the greatest divisor of `depth` up to `most_steps`."""
    return max(steps for steps in range(1, most_steps(target) + 1) if depth % steps == 0)

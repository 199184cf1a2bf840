"""Register tiles: cycles of a step, tiles that fit into the registers, the cheapest tile for a box of sums; unrolled
steps of a sum; prefetches of weights, where they pay.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import For
from ...ir.visit import loops, walk
from ...schedule import Schedule
from .conv2d_knobs import REMOTE_BYTES_CYCLE

LATENCY_SUMS = 8
"""Sums in flight that keep the multipliers busy: latency 4 cycles times two units (Zen, Golden Cove)."""
ELEMENT_COST, VECTOR_COST = 0.5, 2.0
"""Cycles to load an element of a row (first-level cache) and a vector of a column (second-level cache), in units of a
multiplication. Loads overlap with multiplications, except for the share LOAD_SHARE.
"""
LOAD_SHARE = 0.1
MAXIMUM_ROWS = 10
"""Most rows of a matrix in a tile: each row is a memory stream, and a set of the first-level cache has few lines."""
TILE_OVERHEAD = 12.0
"""Cycles to initialize and store a tile, for each row."""

Number = int | np.ndarray


def fits(target: CpuTarget, rows: Number, vectors: Number) -> np.ndarray:
    """Whether the sums, one vector of each column and one broadcast element fit into the registers: bool.

    The loop over rows must be outside of the loop over columns in a step: otherwise the elements of all rows need
    registers at once. Without fused multiply-add, products need a register, too.
    """
    steps = vectors + (1 if target.fused_multiply_add else 2)
    return np.asarray(rows * vectors + steps <= target.vector_registers)


def step_cycles(rows: Number, vectors: Number, vector_cost: float | np.ndarray = VECTOR_COST) -> np.ndarray:
    """Cycles of one step of the innermost loop on tiles; `vector_cost`: cycles to load a vector of a column."""
    loads = ELEMENT_COST * rows + vector_cost * vectors
    return np.maximum(np.maximum(rows * vectors, loads), LATENCY_SUMS) + LOAD_SHARE * loads


def tile_cycles(
    sizes: tuple[int, int, int],
    tile: tuple[Number, Number, Number],
    depth: float | np.ndarray,
    vector_cost: float | np.ndarray = VECTOR_COST,
    split: int = 1,
) -> np.ndarray:
    """Time of a box of sums cut into tiles, with smaller tiles at its ends, in units of a vector multiplication:
    float64.

    `sizes`, `tile`: rows, columns and blocks of filters. `split`: vectors of a block. `depth`: products of a sum.
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
    """The rows, columns and blocks of filters of the tile with the least `tile_cycles`; of equally cheap tiles the
    largest.

    `most`: largest numbers of rows, positions and blocks of filters. `shares`: shares of products that are computed in
    tiles of 1, 2, ... rows, and of 1, 2, ... columns (None: all).
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


def row_block(target: CpuTarget, rows: int, tile_rows: int, row_bytes: int) -> int:
    """Number of rows that share a panel of weights: as many as fill twice the second-level cache.

    The panel stays in that cache. Rows may be read again from the next cache level for each panel, because an element
    is used for all columns of a tile, so that their traffic is low. Reloading a panel for few rows would stall.
    """
    tiles = max(1, target.cache_bytes[1] * 2 // (row_bytes * tile_rows))
    return tile_rows * min(tiles, -(-rows // tile_rows))


WAITING_SHARE = 0.05
"""Least time of waiting for weights, as a share of the arithmetic, at which prefetches pay for their instructions."""
PREFETCH_BYTES = 4096
"""Distance of prefetches: some hundred cycles of a tile's steps."""
STEPS = 4
"""Unrolled steps of a sum: 3 to 10% faster than one (20 convolutions and products on a Golden Cove whose weights stay
in the caches), and equally fast with prefetches."""

WIDE = 256
"""Vector bits from which on x86 multiplies with an operand in memory, broadcast or not: loads take few registers."""


def waits_for_weights(target: CpuTarget, *, panel: float, weights: float, cycles: float) -> bool:
    """Whether prefetching weights pays; `panel`, `weights`: bytes of a panel and of all weights; `cycles`: cycles of
    the arithmetic.

    It pays for a panel, or part of one, that exceeds the first-level cache and is reloaded for each tile (3 to 10%
    faster on a Zen 5, also from the second-level cache; 5 to 25% on a Golden Cove), and for a smaller panel from beyond
    the second-level cache that few positions use.
    """
    if panel > target.cache_bytes[0]:
        return True
    far = weights > target.cache_bytes[1] * 0.75
    return far and weights / REMOTE_BYTES_CYCLE > WAITING_SHARE * cycles


def most_steps(target: CpuTarget) -> int:
    """Most unrolled steps of a sum: STEPS, or one with vectors of 128 bits (SSE, NEON), where the loads of several
    steps would spill sums.
    """
    return STEPS if target.vector_bits >= WIDE else 1


def written_steps(target: CpuTarget, depth: int) -> int:
    """The greatest divisor of `depth` up to `most_steps`."""
    return max(steps for steps in range(1, most_steps(target) + 1) if depth % steps == 0)


def ask_early(s: Schedule, loop: str, buffer: str) -> None:
    """Adds prefetches of `buffer` to the innermost loops that splits, parts and peeling made from the reduction loop
    `loop`.
    """
    made = [node for node in loops(s.program) if node.name == loop or node.name.startswith(f"{loop}.")]
    names = {node.name for node in made}
    for node in made:
        if not any(isinstance(inner, For) and inner.name in names for inner in walk(node.body)):
            s.prefetch(node.name, buffer, PREFETCH_BYTES)

"""The size of a register tile: how many rows and vectors of columns one innermost kernel sums up at a time."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.types import DType
from ...target.cpu.machine import CpuTarget

LATENCY_SUMS = 8
"""Sums in flight that keep the multipliers busy: latency 4 cycles times two units (Zen, Golden Cove)."""
ELEMENT_COST, VECTOR_COST = 0.5, 2.0
"""Cycles of loading an element of a row (first-level cache) and a vector of a column (second-level cache), where a
multiplication takes one; they run beside one another, but for the share LOAD_SHARE."""
LOAD_SHARE = 0.1
MAXIMUM_ROWS = 10
"""Rows of a matrix in a tile: each is a stream of its own, for which the first-level cache has few lines a set."""
TILE_OVERHEAD = 12.0
"""Steps' worth of starting and storing a tile, in cycles a row of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterTile:
    """`rows` x `vectors` accumulators."""

    rows: int
    vectors: int


def fits(target: CpuTarget, rows: int, vectors: int) -> bool:
    """Whether the sums, one vector of each column and one broadcast element fit into the registers.

    A step must go through the rows and, for each, through the columns: the other way round the elements of all rows are
    held at once. Without fused multiplication products need a register, too.
    """
    steps = vectors + (1 if target.fused_multiply_add else 2)
    return rows * vectors + steps <= target.vector_registers


def step_cycles(rows: int, vectors: int, vector_cost: float = VECTOR_COST) -> float:
    """Cycles of one step of the innermost loop on a tile; `vector_cost`: of loading a vector of a column."""
    loads = ELEMENT_COST * rows + vector_cost * vectors
    return max(rows * vectors, loads, LATENCY_SUMS) + LOAD_SHARE * loads


def choose_tile(target: CpuTarget, rows: int, columns: int, depth: int, dtype: DType) -> RegisterTile:
    """The tile with the least estimated time for `rows` x `columns` sums of `depth` products each."""
    vectors = -(-columns // target.lanes(dtype))
    best: tuple[float, int, int] | None = None
    for v in range(1, min(vectors, target.vector_registers) + 1):
        for r in range(1, min(rows, MAXIMUM_ROWS) + 1):
            if not fits(target, r, v):
                break
            cost = 0.0
            for height, n in ((r, rows // r), (rows % r, 1)):
                for width, m in ((v, vectors // v), (vectors % v, 1)):
                    if height and width:
                        cost += n * m * (step_cycles(height, width) * depth + TILE_OVERHEAD * height)
            key = (cost, -r * v, v)
            if best is None or key < best:
                best = key
    assert best is not None
    return RegisterTile(rows=-best[1] // best[2], vectors=best[2])

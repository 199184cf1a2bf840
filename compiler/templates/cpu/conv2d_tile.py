"""Chooses the register tile with the least arithmetic for a convolution on a CPU, and the block of rows with the least
cost for that tile.
"""

from __future__ import annotations

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ..columns import Columns
from .conv2d_cost import Shape, cycles
from .register_tile import VECTOR_COST, choose_tile

MOST_ROWS, MOST_POSITIONS, MOST_VECTORS = 6, 16, 8
"""Largest number of rows, output pixels and blocks of filters of a tile. Tiles of more pixels with few filters wait for
their loads (28 pixels of one block of filters are 20% slower than 16).
"""


def choose_positions(
    target: CpuTarget,
    sizes: tuple[int, int, int],
    depth: int,
    shape: Shape | None = None,
    vector_cost: float = VECTOR_COST,
    most_vectors: int = MOST_VECTORS,
) -> tuple[int, int, int]:
    """Rows, columns and blocks of filters of the cheapest tile.

    `sizes`: rows, columns and blocks of filters of the whole output. `depth`: products of a sum. `shape`: given for a
    convolution that may skip taps (positions in the window) that read only pads.
    """
    shares = None
    if shape is not None and shape.few_taps:
        rows, columns = shape.taps
        shares = (
            np.array([rows.live(n, sizes[0]) for n in range(1, min(sizes[0], MOST_ROWS) + 1)]),
            np.array(
                [columns.live(n, sizes[1]) for n in range(1, min(sizes[1], target.vector_registers) + 1)]
            ),
        )
    most = (MOST_ROWS, MOST_POSITIONS, most_vectors)
    return choose_tile(target, sizes, depth, most, shares, vector_cost)


def choose_row_block(target: CpuTarget, shape: Shape, tile: tuple[int, int, int]) -> int:
    """The number of output rows in a block with the least cost on one thread; `tile`: rows, columns and blocks of
    filters.
    """
    sizes = np.arange(tile[0], shape.oh + tile[0], tile[0])
    cost = cycles(target, shape, points(shape, tile, sizes, np.full_like(sizes, shape.ow)))
    return int(sizes[int(np.argmin(cost.waiting + cost.copying))])


def points(
    shape: Shape,
    tile: tuple[int, int, int],
    row_blocks: np.ndarray,
    column_blocks: np.ndarray,
    *,
    part: int | None = None,
    strips: int = 0,
) -> Columns:
    """A table of points (settings of the knobs) with one tile, blocks of `row_blocks` by `column_blocks` output pixels,
    and defaults for all other knobs.
    """
    values = dict(zip(("rows", "columns", "vectors"), tile, strict=True))
    values |= {"panels": 0, "tiles": 0, "copy": 0, "lanes": shape.co, "strips": strips}
    values["part"] = shape.default_terms if part is None else part
    fixed = {name: np.full(len(row_blocks), value, np.int64) for name, value in values.items()}
    return {**fixed, "row_block": row_blocks, "column_block": column_blocks}

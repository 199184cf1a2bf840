"""A made-up space for tests of searches: a tiled matrix product on a machine with one buffer and two engines.

The cost is a formula, so that the cost of every point is known, but knobs interact: tile sizes determine traffic, use
of the buffer, overlap of load and compute, and ragged edges; the loop order determines reuse. Every program has a
pseudo-random deviation that no feature shows.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from vdla.compiler.templates.columns import Columns
from vdla.compiler.templates.space import Axis, CostEstimates, Space

ORDERS = tuple(permutations(range(3)))


def sizes(extent: int) -> tuple[int, ...]:
    return tuple(sorted({-(-extent // k) for k in range(1, extent + 1)}))


def matrix_space(rows: int = 48, columns: int = 48, depth: int = 96, capacity: int = 768) -> Space:
    """The space of a product of these sizes, with a buffer of `capacity` elements. By default it has 770,640 points, of
    which a third are legal and 8 are within 2% of the best.
    """
    extents = {"rows": rows, "columns": columns, "depth": depth}
    axes = (
        *(Axis(name=name, values=sizes(extent)) for name, extent in extents.items()),
        Axis(name="order", values=tuple(range(len(ORDERS)))),
        Axis(name="threads", values=(1, 2)),
        Axis(name="unroll", values=(1, 2, 4, 8, 16)),
        Axis(name="split", values=(1, 2, 3, 4)),
    )
    floor = max(rows * columns * depth / 16, (rows * depth + depth * columns + rows * columns) / 4)

    def cost(columns: Columns) -> CostEstimates:
        return _cost(extents, capacity, floor, axes, columns)

    return Space(template="matrix", axes=axes, cost=cost, floor=floor, slack=3.0)


def cost(space: Space, points: np.ndarray) -> np.ndarray:
    """Cost in made-up cycles of each of `points` [n, axes]: float64 [n]."""
    columns = space.columns(points)
    estimates = space.cost(columns)
    q, effective = estimates.quantities, estimates.effective
    # Unrolling saves steps, but code that is too long misses; the best length depends on the tile.
    body = effective["unroll"] * np.minimum(columns["depth"], 16)
    steps = q["compute"] * (1 + 0.6 / effective["unroll"]) * np.where(body > 64, 1.15, 1.0)
    loads = q["traffic"] / 4 + q["transfers"] * 12
    hidden = effective["threads"] == 2
    total = np.where(hidden, np.maximum(steps, loads) + 0.2 * np.minimum(steps, loads), steps + loads)
    rows = np.stack([effective[axis.name] for axis in space.axes], axis=1).astype(np.uint64)
    noise = rows @ np.array([2654435761, 40503, 2246822519, 3266489917, 668265263, 374761393, 97], np.uint64)
    return total * (1 + 0.03 * ((noise * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) / (1 << 24))


def _cost(
    extents: dict[str, int], capacity: int, floor: float, axes: tuple[Axis, ...], columns: Columns
) -> CostEstimates:
    tile = {name: columns[name] for name in extents}
    count = {name: -(-extents[name] // tile[name]) for name in extents}
    a, b, c = tile["rows"] * tile["depth"], tile["depth"] * tile["columns"], tile["rows"] * tile["columns"]
    ones = np.ones(len(a), dtype=np.int64)
    order = columns["order"]
    innermost = np.array([order[-1] for order in ORDERS])[order]
    steps = count["rows"] * count["columns"] * count["depth"]
    # An operand that the innermost loop does not touch is loaded once for all its iterations.
    a_loads = steps // np.where(innermost == 1, count["columns"], ones)
    b_loads = steps // np.where(innermost == 0, count["rows"], ones)
    c_moves = steps // np.where(innermost == 2, count["depth"], ones)
    several = steps > 1
    threads = np.where(several, columns["threads"], 1)
    split = np.where(threads == 2, columns["split"], 1)
    held = (a + b) * threads + c + split * 64
    traffic = a_loads * a + b_loads * b + c_moves * c
    compute = steps * a * -(-tile["columns"] // 16)
    transfers = (a_loads + b_loads + c_moves) / np.array([0, 1.0, 1.3, 1.5, 1.4])[split]
    bound = np.maximum(compute, traffic / 4)
    effective = dict(columns)
    effective["threads"], effective["split"] = threads, split
    # What is unrolled beyond the tile's depth is not there.
    effective["unroll"] = np.minimum(columns["unroll"], 1 << np.log2(tile["depth"]).astype(np.int64))
    effective["order"] = np.where(several, order, 0)
    return CostEstimates(
        limits={"the buffer": held <= capacity},
        bound=bound,
        quantities={
            "compute": compute.astype(np.float64),
            "traffic": traffic.astype(np.float64),
            "transfers": transfers,
            "held": held.astype(np.float64),
        },
        effective=effective,
    )

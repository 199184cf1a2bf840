"""Steps of an LSTM on a CPU: register tiles of all four gates of some vectors of cells, which then update those cells.

R is packed in panels of one tile's cells; all rows of the batch pass over a panel while it is in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.stmt import Program
from ...ir.types import DType
from ...schedule import Schedule
from ...target.cpu.machine import CpuTarget
from ...te.blocks import ceil_div
from .borders import peel_ragged
from .register_tile import LATENCY_SUMS, MAXIMUM_ROWS, fits, tile_cycles
from .vectors import GRAIN, vectorize_loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A tile is `rows` of the batch x `vectors` vectors of cells, four gates each."""

    rows: int
    vectors: int


def choose_knobs(target: CpuTarget, program: Program) -> Knobs:
    """Defaults for any size."""
    _, _, batch, hidden = next(p.shape for p in program.parameters if p.name == "Y")
    columns = ceil_div(hidden, target.lanes(DType.FLOAT32))
    sizes = (1, batch, columns)
    grid = np.meshgrid(
        np.arange(1, min(columns, LATENCY_SUMS // 4) + 1),
        np.arange(1, min(batch, MAXIMUM_ROWS) + 1),
        indexing="ij",
    )
    vectors, rows = (axis.ravel() for axis in grid)
    kept = fits(target, rows, 4 * vectors) | ((rows == 1) & (vectors == 1))
    cost = tile_cycles(sizes, (1, rows, vectors), hidden, split=4)
    best = int(np.argmin(np.where(kept, cost, np.inf)))
    return Knobs(rows=int(rows[best]), vectors=int(vectors[best]))


def schedule(
    target: CpuTarget, program: Program, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.lstm_steps` for any size; R is packed, see `schedule.pack`.

    `parallel`: the tiles of a step run on the threads of the kernel's pool."""
    knobs = knobs or choose_knobs(target, program)
    _, count, batch, hidden = next(p.shape for p in program.parameters if p.name == "Y")
    lanes = target.lanes(DType.FLOAT32)
    width = lanes * knobs.vectors
    s = Schedule(program)
    for d in range(count):
        cells, j = s.split(f"j.{d}", width)
        rows, n = s.split(f"n.{d}", knobs.rows)
        s.reorder(cells, rows, n, j)
        product = f"product.{d}"
        s.compute_at(product, rows)
        s.set_scope(f"sum.{d}", "register")
        vector, lane = s.split(j, lanes)
        sum_vector, sum_lane = s.split(f"{product}.j", lanes)
        s.reorder(f"{product}.k", f"{product}.n", f"{product}.q", sum_vector, sum_lane)
        for loop in (n, vector, f"{product}.n", f"{product}.q", sum_vector):
            s.unroll(loop)
        s.vectorize(lane)
        s.vectorize(sum_lane)
        s.decompose_reduction(product, f"{product}.k")
        if parallel and hidden > width and batch * hidden * hidden >= GRAIN:
            s.parallel(cells)
        for copy in ("start.h", "start.c", "carry", "end.h", "end.c"):
            vectorize_loop(s, target, f"{copy}.{d}.j", hidden)
    s.pack("R", ((3, width),), (0, 3, 1, 2, 4))
    for d in range(count):
        peel_ragged(s, f"j.{d}.0", f"n.{d}.0")
    return s

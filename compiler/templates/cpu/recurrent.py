"""Steps of recurrent layers on a CPU: register tiles of the gates of several vectors of cells, then the cells' update.

The weight R is packed in panels, each with the weights of one tile's cells; all samples of the batch use a panel while
it is in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...ir.types import DType
from ...schedule import Schedule
from ...te.blocks import ceil_div
from .loops import GRAIN, VECTORS, peel_ragged
from .register_tile import LATENCY_SUMS, MAXIMUM_ROWS, fits, tile_cycles

RESERVED_REGISTERS = 2
"""Number of vector registers that are kept free during the products, for constants of the activation functions. If
fewer are free, the compiler moves sums to memory.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of a recurrent layer: a tile is `rows` samples of the batch x `vectors` vectors of cells, with all gates
    that its stage (part of a time step) computes.
    """

    rows: int
    vectors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of a time step whose gates are computed together.

    Statement "product.`label`" sums products with the parameter `weight` [directions, hidden, gates, hidden] into the
    buffer `sum.label` [batch, gates, hidden]; loop n.`label` runs over the batch, j.`label` over the hidden cells.
    """

    label: str
    weight: str
    gates: int


def choose_knobs(target: CpuTarget, batch: int, hidden: int, gates: int) -> Knobs:
    """Default tile for `batch` samples and `hidden` cells if a stage computes `gates` gates of each cell."""
    columns = ceil_div(hidden, target.lanes(DType.FLOAT32))
    sizes = (1, batch, columns)
    grid = np.meshgrid(
        np.arange(1, min(columns, LATENCY_SUMS // gates) + 1),
        np.arange(1, min(batch, MAXIMUM_ROWS) + 1),
        indexing="ij",
    )
    vectors, rows = (axis.ravel() for axis in grid)
    others = replace(target, vector_registers=target.vector_registers - RESERVED_REGISTERS)
    kept = fits(others, rows, gates * vectors) | ((rows == 1) & (vectors == 1))
    cost = tile_cycles(sizes, (1, rows, vectors), hidden, split=gates)
    best = int(np.argmin(np.where(kept, cost, np.inf)))
    return Knobs(rows=int(rows[best]), vectors=int(vectors[best]))


def schedule(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """Schedules `te.ops.recurrent.recurrent_steps` for any size; weights are packed ahead into tiles (`schedule.pack`).

    `parallel`: the tiles of a stage run on the threads of the kernel's pool.
    """
    shapes = {p.name: p.shape for p in program.parameters}
    directions, gates = range(shapes["R"][0]), shapes["R"][2]
    stages: list[Stage] = []
    for d in directions:
        if "RN" in shapes:
            stages.append(Stage(label=f"reset.{d}", weight="R", gates=gates))
            stages.append(Stage(label=str(d), weight="RN", gates=1))
        else:
            stages.append(Stage(label=str(d), weight="R", gates=gates))
    # An LSTM has cells besides its states.
    states = "hc" if "C0" in shapes else "h"
    moves = [*(f"start.{state}" for state in states), "carry", *(f"end.{state}" for state in states)]
    copies = [f"{move}.{d}" for d in directions for move in moves]
    _, _, batch, hidden = shapes["Y"]
    lanes = target.lanes(DType.FLOAT32)
    s = Schedule(program)
    widths: dict[str, int] = {}
    for stage in stages:
        chosen = choose_knobs(target, batch, hidden, stage.gates)
        width = widths[stage.weight] = lanes * chosen.vectors
        cells, j = s.split(f"j.{stage.label}", width)
        rows, n = s.split(f"n.{stage.label}", chosen.rows)
        s.reorder(cells, rows, n, j)
        product = f"product.{stage.label}"
        s.compute_at(product, rows)
        s.set_scope(f"sum.{stage.label}", "register")
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
    for copy in copies:
        _vectorize_loop(s, target, f"{copy}.j", hidden)
    for weight, width in widths.items():
        s.pack(weight, ((3, width),), (0, 3, 1, 2, 4))
    for stage in stages:
        peel_ragged(s, f"j.{stage.label}.0", f"n.{stage.label}.0")
    return s


def _vectorize_loop(s: Schedule, target: CpuTarget, loop: str, size: int) -> None:
    """Vectorizes a contiguous loop of `size` iterations, by up to `VECTORS` vectors at once, and peels the
    remainder.
    """
    lanes = target.lanes(DType.FLOAT32)
    outer, inner = s.split(loop, lanes * max(1, min(VECTORS, size // lanes)))
    s.vectorize(inner)
    peel_ragged(s, outer)

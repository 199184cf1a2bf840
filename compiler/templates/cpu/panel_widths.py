"""Lets products with different numbers of rows share packed weights, in networks compiled for many input lengths.

A product's weights are packed in panels as wide as a tile, and the best tile depends on the number of rows. If the
weights are already packed in panels for another number of rows, the product uses a tile of the same width, provided
that this tile is nearly as fast as the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ..columns import Values
from .register_tile import MAXIMUM_ROWS, fits, tile_cycles
from .sketch.default import default_values
from .sketches import sketches_of
from .workload import CpuWorkload, SketchCpu

SLOWER = 1.04
"""Largest estimated slowdown (a factor) that a product accepts in order to use a panel width that other products
already use.
"""
LEAST_SUMS = 8
"""Least number of vectors of sums in a tile: enough to hide a multiplication's latency (4 cycles) on two units. With
fewer, products of a single row took 1.7 times as long, which the estimate does not model.
"""
Panels = dict[tuple[int, int], list[int]]
"""For each size (depth, columns) of a matrix of weights, the widths of the panels into which weights of this size are
packed. Widths are in vectors, in order of first use.
"""


@dataclass(frozen=True, slots=True)
class PanelWidths:
    """Chooses knobs of products on `target` so that their packed weights (panels) have a width in `held`; adds a new
    width to `held` if none of its widths is fast enough.
    """

    target: CpuTarget
    held: Panels

    def choose(self, workload: CpuWorkload) -> Values | None:
        """The knobs of a product whose panel width is in `held`; None if the template's own choice should be used."""
        if not isinstance(workload, SketchCpu) or workload.operator != "dense":
            return None
        given = sketches_of(self.target, workload)
        own, summed = default_values(given), given.main
        assert summed is not None
        columns = len(summed.axles) - 1
        lanes = given.lanes(summed.bits)
        depth, size = summed.terms[0].size, summed.axles[columns].size
        values = {axis.name: axis.values for axis in given.axes}
        # Without a loop over rows there is one row.
        rows = np.array(values["tile.0"] if columns else (1,))
        sizes = (1, summed.axles[0].size if columns else 1, -(-size // lanes))
        mine = (own["tile.0"] if columns else 1, -(-own[f"tile.{columns}"] // lanes))
        known = self.held.setdefault((depth, size), [])
        most = SLOWER * float(tile_cycles(sizes, (1, *mine), depth))
        best, point = inf, own
        for vectors in known:
            width = min(vectors * lanes, size)
            cost = tile_cycles(sizes, (1, rows, np.full_like(rows, vectors)), depth)
            kept = fits(self.target, rows, vectors) & (rows <= MAXIMUM_ROWS)
            kept &= rows * vectors >= min(LEAST_SUMS, mine[0] * mine[1])
            cost = np.where(kept, cost, inf)
            if cost.min() < best and width in values[f"tile.{columns}"]:
                best = float(cost.min())
                tile = {"tile.0": int(rows[int(np.argmin(cost))])} if columns else {}
                point = {**own, **tile, f"tile.{columns}": width}
        if mine[1] in known or best > most:
            if mine[1] not in known:
                known.append(mine[1])
            return None
        return point

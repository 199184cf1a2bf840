"""Panels of weights that products with different numbers of rows share, for networks compiled for many lengths.

A product's weights are packed in panels as wide as a tile, and the best tile depends on the number of rows. Among tiles
that are nearly as fast, one is chosen whose panel width the weights are already packed in, for another length.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ..columns import Columns, Values, one_point
from ..space import Space
from .dense_space import default_values, space
from .workload import CpuWorkload, DenseCpu

SLOWER = 1.04
"""Largest estimated slowdown of a product that uses existing panels."""
LEAST_SUMS = 8
"""Least vectors of sums of a tile that hide a multiplication's latency (4 cycles) on two units: with fewer, a single
row took 1.7 times as long, which the estimate does not model.
"""
Panels = dict[tuple[int, int], list[int]]
"""Panel widths in vectors, by (depth, columns) of the weights, in order of first use."""


@dataclass(frozen=True, slots=True)
class PanelWidths:
    """Chooses knobs of products on `target` with panel widths in `held`, and adds a width to it if none is fast
    enough.
    """

    target: CpuTarget
    held: Panels

    def choose(self, workload: CpuWorkload) -> Values | None:
        """The knobs of a product with a width in `held`; None for the template's own choice."""
        if not isinstance(workload, DenseCpu):
            return None
        program = workload.program()
        points, own = space(self.target, program), default_values(self.target, program)
        known = self.held.setdefault((workload.depth, workload.columns), [])
        most = SLOWER * _cost(points, own)
        found = min((_with_panels(points, own, vectors) for vectors in known), default=(inf, own), key=_first)
        if own["vectors"] in known or found[0] > most:
            if own["vectors"] not in known:
                known.append(own["vectors"])
            return None
        return found[1]


def _first(found: tuple[float, Values]) -> float:
    return found[0]


def _cost(points: Space, values: Values) -> float:
    return _costs(points, one_point(values))[0]


def _costs(points: Space, columns: Columns) -> list[float]:
    account = points.account(columns)
    legal = points.allowed(account)
    return np.where(legal, account.quantities["estimated cycles"], inf).tolist()


def _with_panels(points: Space, own: Values, vectors: int) -> tuple[float, dict[str, int]]:
    """The least estimated cost with panels of `vectors` vectors, and its point: the template's default except for a
    tile's rows and vectors.
    """
    axes = {axis.name: axis.values for axis in points.axes}
    if vectors not in axes["vectors"]:
        return inf, dict(own)
    rows = np.array(axes["rows"], np.int64)
    columns = {name: np.full_like(rows, value) for name, value in own.items()}
    costs = np.array(_costs(points, {**columns, "rows": rows, "vectors": np.full_like(rows, vectors)}))
    costs[rows * vectors < min(LEAST_SUMS, own["rows"] * own["vectors"])] = inf
    best = int(np.argmin(costs))
    return float(costs[best]), {**own, "rows": int(rows[best]), "vectors": vectors}

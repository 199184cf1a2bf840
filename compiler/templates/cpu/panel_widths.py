"""Panels of weights that products of different rows share: one network compiled for many lengths holds them once.

A product's weights are packed in panels of a tile's columns, and the tile that suits a product depends on its rows. Of
tiles that are nearly as fast, one with panels that another length has already is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from ...codegen.cpu.machine import CpuTarget
from ..space import Columns, Space, Values, one_point
from .dense_space import default_values, space
from .workload import CpuWorkload, DenseCpu

SLOWER = 1.04
"""How much longer a product may take by its estimate for panels that are there."""
LEAST_SUMS = 8
"""Vectors of sums of a tile that hide the latency of a multiplication, 4 cycles of two units: with fewer a single row
took 1.7 times as long, which the estimate does not know."""
Panels = dict[tuple[int, int], list[int]]
"""Vectors of panels by depth and columns of the weights, in the order in which they came up."""


@dataclass(frozen=True, slots=True)
class PanelWidths:
    """Knobs of products on `target` for panels that are `held`, which grow where none of them serves."""

    target: CpuTarget
    held: Panels

    def choose(self, workload: CpuWorkload) -> Values | None:
        """The knobs of a product; None where the template's own choice counts."""
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
    """The least estimate with panels of so many vectors, and its point: the template's but for the rows of a tile."""
    axes = {axis.name: axis.values for axis in points.axes}
    if vectors not in axes["vectors"]:
        return inf, dict(own)
    rows = np.array(axes["rows"], np.int64)
    columns = {name: np.full_like(rows, value) for name, value in own.items()}
    costs = np.array(_costs(points, {**columns, "rows": rows, "vectors": np.full_like(rows, vectors)}))
    costs[rows * vectors < min(LEAST_SUMS, own["rows"] * own["vectors"])] = inf
    best = int(np.argmin(costs))
    return float(costs[best]), {**own, "rows": int(rows[best]), "vectors": vectors}

"""Computes Pareto fronts of designs and their hypervolume; every objective is minimized here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def pareto(values: Values) -> NDArray[np.bool_]:
    """Mask, bool [n], of the rows of `values` [n, objectives] that no other row dominates. A row dominates another if
    it is nowhere larger and somewhere smaller.
    """
    best = np.ones(len(values), bool)
    for row in range(len(values)):
        if best[row]:
            others = values[best]
            dominated = (others >= values[row]).all(axis=1) & (others > values[row]).any(axis=1)
            best[np.flatnonzero(best)[dominated]] = False
    return best


def hypervolume(values: Values, reference: Sequence[float]) -> float:
    """The volume that a set of points [n, objectives] dominates, up to the corner `reference` [objectives]; only points
    below `reference` in every objective count.

    Computed by slices along the last objective (Fleischer's definition; exact for any number of objectives).
    """
    corner = np.asarray(reference, float)
    inside = values[(values < corner).all(axis=1)]
    if not len(inside):
        return 0.0
    if inside.shape[1] > 2:
        inside = inside[pareto(inside)]
    if inside.shape[1] == 1:
        return float(corner[0] - inside.min())
    if inside.shape[1] == 2:
        # On the front the second objective falls as the first rises.
        inside = inside[np.lexsort(inside.T[::-1])]
        ends = np.append(inside[1:, 0], corner[0])
        return float(((ends - inside[:, 0]) * (corner[1] - np.minimum.accumulate(inside[:, 1]))).sum())
    order = np.argsort(inside[:, -1], kind="stable")
    inside = inside[order]
    ends = np.append(inside[1:, -1], corner[-1])
    return float(
        sum(
            (end - row[-1]) * hypervolume(inside[: index + 1, :-1], corner[:-1].tolist())
            for index, (row, end) in enumerate(zip(inside, ends, strict=True))
            if end > row[-1]
        )
    )

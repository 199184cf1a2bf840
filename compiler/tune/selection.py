"""Choosing a batch from what a model finds promising: good points that are not all alike."""

from __future__ import annotations

import numpy as np

SHORTLIST = 8
"""How many points are considered for each that is chosen."""


def select_diverse(points: np.ndarray, scores: np.ndarray, count: int, diversity: float) -> np.ndarray:
    """Indices [min(count, n)] of `points` int64 [n, axes]: greedily, for score and for values not chosen yet.

    As AutoTVM (Chen et al., NeurIPS 2018, section 3.3): a batch's merit is the sum of its scores plus `diversity` times
    the number of different values that its points have, over all axes. Here scores are in standard deviations of the
    shortlist, and a point all of whose values are new counts `diversity`. The first chosen is the best.
    """
    order = np.argsort(-scores, kind="stable")[: SHORTLIST * count]
    shortlist, merit = points[order], scores[order]
    if not len(order):
        return order
    merit = merit / (float(np.std(merit)) or 1.0)
    chosen: list[int] = []
    new = np.ones(shortlist.shape, dtype=bool)
    for _ in range(min(count, len(order))):
        # The first is the best whatever is new about it, as everything is.
        value = merit + diversity * new.mean(axis=1)
        value[chosen] = -np.inf
        best = int(np.argmax(value))
        chosen.append(best)
        new &= shortlist != shortlist[best]
    return order[np.array(chosen, dtype=np.int64)]

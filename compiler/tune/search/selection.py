"""Selection of a batch from a model's best points: high scores, different from each other and from measured points."""

from __future__ import annotations

import numpy as np

SHORTLIST = 512
"""Number of best-scored points among which a batch is selected."""
FAR = 2.0
"""Limit of the distance between two points. A distance is the sum of the differences along the axes, each at most 1,
which is a factor of two; so the limit is reached if two axes differ by a factor of two or more.
"""


def select_diverse(
    places: np.ndarray, scores: np.ndarray, measured: np.ndarray, count: int, diversity: float
) -> np.ndarray:
    """Indices [min(count, n)] of points at `places`, float64 [n, axes], chosen one by one for score and distance.

    The distance is to the nearest point already chosen or at `measured` [m, axes]. Places are base-2 logarithms of the
    axes' values; the distance is the sum over axes of their differences, each at most 1, limited to FAR and divided by
    FAR. A distance of 1 is worth `diversity` standard deviations of the best points' scores. (AutoTVM, Chen et al.,
    NeurIPS 2018, section 3.3, counts different values instead; but a point near a measured one costs about the same,
    independent of the model's prediction.)
    """
    order = np.argsort(-scores, kind="stable")[:SHORTLIST]
    if not len(order):
        return order
    places, merit = places[order], scores[order]
    merit = merit / (float(np.std(merit)) or 1.0)
    distance = np.ones(len(order))
    for place in measured:
        distance = np.minimum(distance, _distances(places, place))
    chosen: list[int] = []
    for _ in range(min(count, len(order))):
        value = merit + diversity * distance
        value[chosen] = -np.inf
        chosen.append(int(np.argmax(value)))
        distance = np.minimum(distance, _distances(places, places[chosen[-1]]))
    return order[np.array(chosen, dtype=np.int64)]


def _distances(places: np.ndarray, place: np.ndarray) -> np.ndarray:
    return np.minimum(FAR, np.minimum(1.0, np.abs(places - place)).sum(axis=1)) / FAR

"""Selection of a batch from a model's best points: high scores, different from each other and from measured points."""

from __future__ import annotations

import numpy as np

SHORTLIST = 512
"""Number of best-scored points among which a batch is selected."""
FAR = 2.0
"""Limit of the distance between two points. A distance adds up the differences along the axes, as base-2 logarithms of
the knob values. Each difference is limited to 1 (a factor of two). Two points thus reach the limit if two of their
knobs differ by a factor of two or more.
"""


def select_diverse(
    places: np.ndarray, scores: np.ndarray, measured: np.ndarray, count: int, diversity: float
) -> np.ndarray:
    """Chooses `count` (or all, if there are fewer) of the `SHORTLIST` best-scored candidates, so that they score well
    and differ from each other. Returns their indices.

    `places`: the candidates as points, float64 [n, axes], in base-2 logarithms of the knob values. `scores`: predicted
    merit of each candidate. `measured`: points that were measured before, [m, axes], also in logarithms. `diversity`:
    weight of the distance against the score.

    Candidates are chosen one by one: each time the candidate with the largest sum of score and `diversity` x distance.
    Scores are divided by their standard deviation. The distance of a candidate is its distance from the nearest point
    that is already chosen or measured, from 0 (the same point) to 1. For two points, the differences along the axes,
    each limited to 1, are added up; the sum is limited to FAR and divided by FAR.

    AutoTVM (Chen et al., NeurIPS 2018, section 3.3) instead counts how many different knob values a selection has.
    Distances suit better, because points near a measured one take about the same time, whatever the model predicts.
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

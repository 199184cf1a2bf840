"""Expected growth of a Pareto front's hypervolume by a new design whose objectives are only predicted.

The region that no member of the front dominates is divided into boxes (by slices along the last objective). With
independent normal predictions, the expected volume that a design dominates in a box is a product over the objectives
(Emmerich, Deutz and Klinkenberg, CEC 2011). Every objective is minimized.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .front import pareto

Floats = NDArray[np.float64]
MOST_FRONT = {1: 1, 2: 1000, 3: 100}
"""Largest number of members of a Pareto front, by number of objectives; a larger front is thinned out evenly along its
first objective. The limit bounds the number of boxes into which the undominated region is divided: about the number
of members to the power of (objectives - 1).
"""
_FRONT_OF_MANY = 16
_CHUNK = 2_000_000
"""Approximate largest number of elements of the arrays that `expected_growth` allocates at a time."""


def free_boxes(front: Floats, reference: Sequence[float]) -> tuple[Floats, Floats]:
    """Divides the region below `reference` that `front` [n, objectives] does not dominate into boxes; returns their
    lower and their upper corners, each [boxes, objectives].

    Lower corners may be -inf. A front of more than `MOST_FRONT` members is thinned out first.
    """
    corner = np.asarray(reference, float)
    inside = front[(front < corner).all(axis=1)]
    inside = inside[pareto(inside)] if len(inside) else inside
    inside = np.unique(inside, axis=0)
    most = MOST_FRONT.get(len(corner), _FRONT_OF_MANY)
    if len(inside) > most and len(corner) > 1:
        inside = inside[np.linspace(0, len(inside) - 1, most).round().astype(int)]
    boxes = np.array(_boxes(inside, corner), float).reshape(-1, 2, len(corner))
    return boxes[:, 0], boxes[:, 1]


def _boxes(front: Floats, corner: Floats) -> list[tuple[list[float], list[float]]]:
    if len(corner) == 1:
        return [([-np.inf], [min([corner[0], *front[:, 0]])])]
    ordered = front[np.argsort(front[:, -1], kind="stable")]
    edges = [-np.inf, *ordered[:, -1], corner[-1]]
    found: list[tuple[list[float], list[float]]] = []
    stairs, begin, known = front[:0, :-1], -np.inf, _boxes(front[:0, :-1], corner[:-1])
    for number, (low, high) in enumerate(pairwise(edges)):
        if number:
            point = ordered[number - 1, :-1]
            if not (stairs <= point).all(axis=1).any():
                # The point dominates more of the region above `low`: write the boxes up to `low`, then begin new ones.
                found += [([*b, begin], [*t, low]) for b, t in known if low > begin]
                stairs = np.vstack([stairs[~(stairs >= point).all(axis=1)], point])
                begin, known = low, _boxes(stairs, corner[:-1])
        if number == len(ordered):
            found += [([*b, begin], [*t, high]) for b, t in known if high > begin]
    return found


def expected_growth(means: Floats, deviations: Floats, boxes: tuple[Floats, Floats]) -> Floats:
    """Expected volume, float64 [n], that each of n designs dominates inside the boxes (`free_boxes`). `means` and
    `deviations` are [n, objectives]; the deviation of a known objective is 0.
    """
    lower, upper = boxes
    found = np.empty(len(means))
    step = max(1, _CHUNK // max(1, len(lower)))
    for start in range(0, len(means), step):
        part = slice(start, start + step)
        volume = np.ones((len(means[part]), len(lower)))
        for objective in range(means.shape[1]):
            edges, places = np.unique(
                np.concatenate([lower[:, objective], upper[:, objective]]), return_inverse=True
            )
            below = _below(edges, means[part, objective, None], deviations[part, objective, None])
            volume *= below[:, places[len(lower) :]] - below[:, places[: len(lower)]]
        found[part] = volume.sum(axis=1)
    return found


def _below(edges: Floats, mean: Floats, deviation: Floats) -> Floats:
    """E[max(0, edge - Y)] for each of `edges`, [n, edges], where Y is normally distributed with `mean` and `deviation`;
    0 for an edge of -inf.
    """
    distance = np.where(np.isfinite(edges), edges, 0.0) - mean
    scaled = distance / np.maximum(deviation, 1e-12)
    density = np.exp(-0.5 * np.minimum(scaled**2, 1e3)) / np.sqrt(2 * np.pi)
    value = np.where(deviation > 0, distance * ndtr(scaled) + deviation * density, np.maximum(distance, 0))
    return np.where(np.isfinite(edges), value, 0.0)

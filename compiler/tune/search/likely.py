"""Lists the points of a space that its template expects to be fastest, best first, without a trained model.

A template chooses its default among few candidates: tiles have balanced sizes, and all buffers have the same number of
copies. A beam search begins at the best of these candidates and extends through the whole space, one axis at a time. It
uses only the template's estimate; it needs no lowering and no random numbers.
"""

from __future__ import annotations

import numpy as np

from ...templates.columns import ESTIMATE
from ...templates.space import Space
from ...templates.template import candidate_values, grid_costs
from .moves import neighbours
from .point_features import GUESS, examine, program_numbers
from .selection import select_diverse

SEEDS = 8
"""A template gives groups of candidates, from which it chooses its default. The beam search starts from this number of
points of each group.
"""
BEAM = 24
"""Number of points whose neighbours are examined in a round."""
ROUNDS = 4
"""Rounds of the beam search. More rounds change the list little, because a good point is a few steps away from a
candidate.
"""
LONGER = 8
"""`likely_points` examines LONGER times as many points with low estimates as it returns. Among them it selects points
that differ from one another.
"""
LEAST = 64
"""Least number of points with low estimates that `likely_points` examines. Among them it selects points that differ
from one another.
"""
FORBIDDEN_PENALTY = 1e15
"""Penalty that is added to the estimated cost of a point that a search may not try. It is larger than any cost in
cycles or seconds.
"""
DIVERSITY = 0.3
"""Weight, in `select_diverse`, of the distance between selected points. It is above 0 because similar points have
similar costs, so that measuring several of them teaches little.
"""


def likely_points(space: Space, count: int) -> np.ndarray:
    """Up to `count` legal points [n, axes] of different programs, the most promising first.

    Their estimates are low, and they differ from one another. Returns fewer points only if the beam search found no
    more.
    """
    points = _seeds(space)
    costs, programs = _costs(space, points)
    grown = np.empty(0, np.uint64)
    for _ in range(ROUNDS):
        best = _best(costs, programs, BEAM)
        fresh = best[~np.isin(programs[best], grown)]
        if not len(fresh):
            break
        grown = np.concatenate([grown, programs[fresh]])
        around = neighbours(space, points[fresh])
        more, numbers = _costs(space, around)
        points = np.concatenate([points, around])
        costs, programs = np.concatenate([costs, more]), np.concatenate([programs, numbers])
    best = _best(costs, programs, max(LONGER * count, LEAST))
    found = examine(space, points[best]).legal_ones()
    nothing = found.places[:0]
    return found.points[select_diverse(found.places, -found.features[:, GUESS], nothing, count, DIVERSITY)]


def _seeds(space: Space) -> np.ndarray:
    """Starting points [n, axes] of the beam search. From each group of the space's candidates these are the `SEEDS`
    legal points of least estimated cost. The point whose axes all have their first value is added.
    """
    found = [np.zeros((1, len(space.axes)), np.int64)]
    for group in space.candidates:
        choices = candidate_values(space, group)
        costs, _ = grid_costs(space, choices)
        best = np.argsort(costs, kind="stable")[:SEEDS]
        places = np.unravel_index(best[np.isfinite(costs[best])], [len(values) for values in choices])
        found.append(
            np.stack(
                [
                    np.searchsorted(axis.values, np.array(values)[place])
                    for axis, values, place in zip(space.axes, choices, places, strict=True)
                ],
                axis=1,
            )
        )
    return np.unique(np.concatenate(found), axis=0)


def _costs(space: Space, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Estimated costs of points (infinite for illegal points), and the numbers that identify their programs.

    A penalty of `FORBIDDEN_PENALTY` is added for points that a search may not try (`Space.allowed`). The search for low
    estimates still visits them, because it may reach better points through them.
    """
    estimates = space.cost(space.columns(points))
    fits = np.logical_and.reduce(list(estimates.limits.values()))
    costs = estimates.quantities.get(ESTIMATE, estimates.bound)
    costs = np.where(space.allowed(estimates), costs, costs + FORBIDDEN_PENALTY)
    return np.where(fits, costs, np.inf), program_numbers(space, estimates)


def _best(costs: np.ndarray, programs: np.ndarray, count: int) -> np.ndarray:
    """Indices of the `count` least finite costs, one for each program, the least first."""
    order = np.argsort(costs, kind="stable")
    order = order[np.isfinite(costs[order])]
    _, first = np.unique(programs[order], return_index=True)
    return order[np.sort(first)][:count]

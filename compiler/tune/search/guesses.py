"""Proposes points to which the template's own cost estimate gives low costs. A search begins with some random points.
Until a cost model is trained, all further points are chosen in this way; afterwards a share of each batch.

Trees trained on few points are often wrong, and far off, while the template's estimate is never far off. The share that
follows the estimate alone ensures that the first measured points cannot exclude a good region.
"""

from __future__ import annotations

import numpy as np

from ...templates.space import Space
from .history import History
from .novelty import distinct_new, random_new
from .point_features import GUESS, Candidates, examine, join
from .selection import select_diverse
from .walks import Evolution, walk_starts

RANDOM = 2
"""Number of random trials at the start of a search: with fewer there would be nothing to compare."""
SHARE = 0.125
"""Share of a batch that is chosen by the template's cost estimate once there is a trained model."""
STARTS = 1024
"""Number of starting points of the walk that looks for points with low cost estimates. It is large, since there may be
no path of legal points from a start to a good point.
"""
DIVERSITY = 1.0
"""The weight of the distance between selected points in `select_diverse`, in comparison with the weight of their
scores.
"""


def first_points(
    space: Space, history: History, measured: Candidates, generator: np.random.Generator, count: int
) -> np.ndarray:
    """The next `count` points [count, axes] of a search without a trained model. The first RANDOM trials of a search
    are random points; the template gives low cost estimates to the others. `measured`: the points of `history`.

    Without an estimate all points are random. Returns fewer only if there are no more new points.
    """
    random = max(0, RANDOM - len(history)) if measured.estimated else count
    drawn = examine(space, random_new(space, generator, min(random, count), measured.programs))
    known = join([measured, drawn])
    guessed = best_guesses(space, history, known, generator, count - len(drawn))
    taken = join([known, guessed]).programs
    rest = random_new(space, generator, count - len(drawn) - len(guessed), taken)
    return np.concatenate([drawn.points, guessed.points, rest])


def guessed_count(measured: Candidates, history: History, generator: np.random.Generator, count: int) -> int:
    """Number of points in a batch of `count` that are chosen by the template's cost estimate although there is a
    trained model. This is `SHARE` of the batch, rounded up or down at random; before the first trial it is half of the
    batch; it is 0 if the template has no estimate. `measured`: the points of `history`.
    """
    if not measured.estimated:
        return 0
    # A model trained only on other workloads determines half of the batch.
    return count // 2 if len(history) == 0 else int(SHARE * count + generator.random())


def best_guesses(
    space: Space,
    history: History,
    known: Candidates,
    generator: np.random.Generator,
    count: int,
    candidates: Candidates | None = None,
) -> Candidates:
    """Up to `count` new points with low cost estimates of the template. They differ from each other and from the points
    `known`.

    Before there are measurements, or without `candidates`, a walk guided by the estimate finds the points, from
    `STARTS` starts. Otherwise the points are chosen from `candidates`, the points that a walk guided by the cost model
    has visited.
    """
    if count == 0:
        return known.take(slice(0))
    if candidates is None or len(history) == 0:
        starts = walk_starts(space, history, generator, STARTS)
        candidates = Evolution().visit(space, _merit, starts, generator)
    candidates = distinct_new(candidates, known.programs)
    chosen = select_diverse(candidates.places, _merit(candidates.features), known.places, count, DIVERSITY)
    return candidates.take(chosen)


def with_guesses(
    space: Space,
    history: History,
    measured: Candidates,
    chosen: Candidates,
    candidates: Candidates,
    generator: np.random.Generator,
    guesses: int,
    count: int,
) -> np.ndarray:
    """A batch of `count` points [count, axes]: points `chosen` by the model, `guesses` points with low cost estimates
    of the template, and random ones.

    Returns fewer only if there are no more new points. `measured`: the points of `history`. `candidates`: all points
    that the walk guided by the model visited.
    """
    known = join([measured, chosen])
    guessed = best_guesses(space, history, known, generator, guesses, candidates)
    taken = join([known, guessed]).programs
    rest = random_new(space, generator, count - len(chosen) - len(guessed), taken)
    if len(history) == 0:
        # The model knows only other workloads: estimate and model choose alternately.
        return np.concatenate([in_turns(guessed.points, chosen.points), rest])
    return np.concatenate([chosen.points, guessed.points, rest])


def in_turns(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Points of `first` [n, axes] and `second` [m, axes] in alternation; then the rest of the longer one."""
    ranks = np.concatenate([2 * np.arange(len(first)), 2 * np.arange(len(second)) + 1])
    return np.concatenate([first, second])[np.argsort(ranks, kind="stable")]


def _merit(features: np.ndarray) -> np.ndarray:
    return -features[:, GUESS]

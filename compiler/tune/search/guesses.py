"""Proposals before a model has learned, and beside one: points that their template expects to be good.

Trees that were trained on few points are sure of much that is wrong. The template's estimate is never far off, so that
a share of every batch follows it alone: no good region is missed because of the first points that were measured.
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
"""Trials of a search that are random: with fewer there is nothing to compare."""
SHARE = 0.125
"""Of the points of a batch, those that follow the estimate though there is a model."""
STARTS = 1024
"""Points at which the walk starts, many, since good points may lie far from any path of legal ones."""
DIVERSITY = 1.0
"""See `select_diverse`."""


def first_points(
    space: Space, history: History, measured: Candidates, generator: np.random.Generator, count: int
) -> np.ndarray:
    """`count` points [count, axes] to begin with: RANDOM ones, then what the estimate expects to be good.

    Without an estimate all are random. Fewer only where there are no more new ones.
    """
    random = max(0, RANDOM - len(history)) if measured.estimated else count
    drawn = examine(space, random_new(space, generator, min(random, count), measured.programs))
    known = join([measured, drawn])
    guessed = best_guesses(space, history, known, generator, count - len(drawn))
    taken = join([known, guessed]).programs
    rest = random_new(space, generator, count - len(drawn) - len(guessed), taken)
    return np.concatenate([drawn.points, guessed.points, rest])


def guessed_count(measured: Candidates, history: History, generator: np.random.Generator, count: int) -> int:
    """How many of a batch of `count` points follow the estimate beside a model; none where there is no estimate."""
    if not measured.estimated:
        return 0
    # A model that was only taught decides on half.
    return count // 2 if len(history) == 0 else int(SHARE * count + generator.random())


def best_guesses(
    space: Space,
    history: History,
    known: Candidates,
    generator: np.random.Generator,
    count: int,
    found: Candidates | None = None,
) -> Candidates:
    """Up to `count` new points with low estimates, not all alike nor like those `known`.

    They are of `found`, what a model's walk came by, once something has been measured; before, a wide walk finds them.
    """
    if count == 0:
        return known.take(slice(0))
    if found is None or len(history) == 0:
        starts = walk_starts(space, history, generator, STARTS)
        found = Evolution().visit(space, _merit, starts, generator)
    found = distinct_new(found, known.programs)
    return found.take(select_diverse(found.places, _merit(found.features), known.places, count, DIVERSITY))


def with_guesses(
    space: Space,
    history: History,
    measured: Candidates,
    chosen: Candidates,
    found: Candidates,
    generator: np.random.Generator,
    guesses: int,
    count: int,
) -> np.ndarray:
    """A batch of `count` points [count, axes]: those that a model has `chosen`, `guesses` ones, and random ones.

    Fewer only where there are no more. `found` is what the model's walk came by.
    """
    known = join([measured, chosen])
    guessed = best_guesses(space, history, known, generator, guesses, found)
    taken = join([known, guessed]).programs
    rest = random_new(space, generator, count - len(chosen) - len(guessed), taken)
    if len(history) == 0:
        # What was good elsewhere need not be good here: the estimate and the model in turns.
        return np.concatenate([in_turns(guessed.points, chosen.points), rest])
    return np.concatenate([chosen.points, guessed.points, rest])


def in_turns(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Points of [n, axes] and [m, axes], one of the first, one of the second, and so on; then what is left of one."""
    ranks = np.concatenate([2 * np.arange(len(first)), 2 * np.arange(len(second)) + 1])
    return np.concatenate([first, second])[np.argsort(ranks, kind="stable")]


def _merit(features: np.ndarray) -> np.ndarray:
    return -features[:, GUESS]

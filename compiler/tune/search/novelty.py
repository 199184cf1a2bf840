"""Filters proposals: legal points, one for each program, none measured before, until the space is exhausted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...templates.space import Space
from .point_features import Candidates, examine

SAMPLES = 16
"""Number of times that legal points are sampled in search of new programs before the whole space is enumerated."""
CHUNK = 1 << 14
"""Number of points examined at a time when a space is enumerated or, after the first samples, sampled again."""
MOST_POINTS = 1 << 22
"""A space of at most this many points is enumerated if the first `SAMPLES` samples have too few new programs. A larger
space counts as exhausted after `SAMPLES` further samples of `CHUNK` points.
"""


def distinct_new(candidates: Candidates, taken: np.ndarray) -> Candidates:
    """The legal points among `candidates`, in order: only the first point of each program, and none of the programs
    `taken`, uint64 [m].
    """
    _, first = np.unique(candidates.programs, return_index=True)
    keep = np.zeros(len(candidates), dtype=bool)
    keep[first] = True
    return candidates.take(keep & candidates.legal & ~np.isin(candidates.programs, taken))


def random_new(space: Space, generator: np.random.Generator, count: int, taken: np.ndarray) -> np.ndarray:
    """`count` random legal points [count, axes] of distinct programs, none of which is in `taken`, uint64 [m].

    Returns fewer points only if the space has no more or, in a space of more than `MOST_POINTS` points, if samples
    found no more. Raises EmptySpaceError if no point is legal.
    """
    found = [np.empty((0, len(space.axes)), np.int64)]
    missing = count
    source = _ever_more_points(space, generator, count)
    while missing > 0 and (points := next(source, None)) is not None:
        fresh = distinct_new(examine(space, points), taken).take(slice(missing))
        found.append(fresh.points)
        taken = np.concatenate([taken, fresh.programs])
        missing -= len(fresh)
    return np.concatenate(found)


def flat_points(space: Space, indices: np.ndarray) -> np.ndarray:
    """Converts numbers of points to points, int64 [n, axes]. All points of the space are numbered with the last axis
    varying fastest. `indices`: the numbers, as int64, or as Python integers if the space has more points than int64 can
    count.
    """
    digits = []
    for axis in reversed(space.axes):
        indices, digit = indices // len(axis.values), indices % len(axis.values)
        digits.append(digit.astype(np.int64))
    return np.stack(digits[::-1], axis=1)


def _ever_more_points(space: Space, generator: np.random.Generator, count: int) -> Iterator[np.ndarray]:
    """Yields `SAMPLES` samples of 2 * `count` (at least 16) legal points, then every point of the space in random
    order. If the space is too large for that, yields `SAMPLES` samples of `CHUNK` points instead.
    """
    for _ in range(SAMPLES):
        yield space.sample(generator, max(2 * count, 16))
    if space.size > MOST_POINTS:
        for _ in range(SAMPLES):
            yield space.sample(generator, CHUNK)
        return
    order = generator.permutation(space.size)
    for begin in range(0, space.size, CHUNK):
        yield flat_points(space, order[begin : begin + CHUNK])

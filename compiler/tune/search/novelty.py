"""Filters proposals: keeps legal points with programs that are new, one point for each program. The supply ends only
when the space is exhausted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...templates.space import Space
from .point_features import Candidates, examine

SAMPLES = 16
"""Number of times that legal points are sampled in search of new programs. Only if this fails, the whole space is
enumerated.
"""
CHUNK = 1 << 14
"""Number of points that are examined at a time when a space is enumerated, or when it is sampled again after the first
samples.
"""
MOST_POINTS = 1 << 22
"""The first `SAMPLES` samples may have too few new programs. A space of at most MOST_POINTS points is then enumerated.
A larger space is sampled again, `SAMPLES` times with `CHUNK` points, and then counts as exhausted.
"""


def distinct_new(candidates: Candidates, taken: np.ndarray) -> Candidates:
    """The legal points among `candidates`, in order. Of several points with one program only the first is kept; points
    whose programs are in `taken`, uint64 [m], are left out.
    """
    _, first = np.unique(candidates.programs, return_index=True)
    keep = np.zeros(len(candidates), dtype=bool)
    keep[first] = True
    return candidates.take(keep & candidates.legal & ~np.isin(candidates.programs, taken))


def random_new(space: Space, generator: np.random.Generator, count: int, taken: np.ndarray) -> np.ndarray:
    """`count` random legal points [count, axes] of distinct programs, none of which is in `taken`, uint64 [m].

    Returns fewer points only if the space has no more. A space of more than `MOST_POINTS` points counts as exhausted if
    samples find no more. Raises EmptySpaceError if no point is legal.
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
    varying fastest. `indices`: the numbers, as int64; if the space has more points than int64 can count, as Python
    integers.
    """
    digits = []
    for axis in reversed(space.axes):
        indices, digit = indices // len(axis.values), indices % len(axis.values)
        digits.append(digit.astype(np.int64))
    return np.stack(digits[::-1], axis=1)


def _ever_more_points(space: Space, generator: np.random.Generator, count: int) -> Iterator[np.ndarray]:
    """Yields `SAMPLES` samples of legal points, each of 2 * `count` points (at least 16). Then yields every point of
    the space in random order; if the space is too large for that, yields `SAMPLES` samples of `CHUNK` points instead.
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

"""Number of distinct programs in a template's space of schedules: counted if feasible, else bounded from below by a
sample.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from vdla.compiler.templates.space import Space
from vdla.compiler.tune.search.point_features import program_numbers

CHUNK = 1 << 16
"""Number of points (candidate schedules) of the space that are examined at a time."""
MOST_COUNTED = 1 << 27
"""Size of the largest space whose programs are counted; counting it takes two minutes."""


def count_programs(space: Space) -> int:
    """Number of distinct programs of all legal points (candidate schedules) of a space. Raises ValueError for a space
    of more than MOST_COUNTED points.
    """
    if space.size > MOST_COUNTED:
        raise ValueError(f"{space.template}: {space.size} points are too many to count")
    found = np.empty(0, np.uint64)
    for start in range(0, space.size, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, space.size))
        found = np.union1d(found, _programs(space, space.numbered(numbers)))
    return len(found)


def least_programs(space: Space, rng: np.random.Generator, samples: int) -> int:
    """Lower bound, at 95% confidence, on the number of distinct programs of the legal points (candidate schedules) of a
    space, from `samples` random points.

    If there are N programs, two random legal points have equal programs with a probability of at least 1 / N. So c
    equal pairs among n (n - 1) / 2 imply N of at least n (n - 1) / 2c, with equality if all programs are equally
    frequent.
    """
    drawn = [
        _programs(space, space.draw(rng, min(CHUNK, samples - start))) for start in range(0, samples, CHUNK)
    ]
    programs = np.concatenate(drawn)
    _, counts = np.unique(programs, return_counts=True)
    equal = int((counts * (counts - 1) // 2).sum())
    # Upper limit of the expected pairs: 3 if none was seen; else two standard deviations more.
    pairs = len(programs) * (len(programs) - 1) // 2
    return int(pairs / (equal + 2 * sqrt(equal) + 3))


def _programs(space: Space, points: np.ndarray) -> np.ndarray:
    """Numbers, uint64, that identify the programs of the legal ones among `points` (candidate schedules): equal numbers
    mean equal programs (`point_features.program_numbers`).
    """
    estimates = space.cost(space.columns(points))
    return program_numbers(space, estimates)[space.allowed(estimates)]

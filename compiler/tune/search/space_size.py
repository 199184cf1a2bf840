"""How many distinct programs a space holds: counted where that is feasible, else bounded from below by a sample."""

from __future__ import annotations

from math import sqrt

import numpy as np

from ...templates.space import Space
from .point_features import program_numbers

CHUNK = 1 << 16
"""Points that are looked at together."""
MOST_COUNTED = 1 << 27
"""Points of a space that is counted: two minutes."""


def count_programs(space: Space) -> int:
    """The distinct programs of all legal points. ValueError for a space of more than MOST_COUNTED points."""
    if space.size > MOST_COUNTED:
        raise ValueError(f"{space.template}: {space.size} points are too many to count")
    found = np.empty(0, np.uint64)
    for start in range(0, space.size, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, space.size))
        found = np.union1d(found, _programs(space, space.numbered(numbers)))
    return len(found)


def least_programs(space: Space, rng: np.random.Generator, samples: int) -> int:
    """A number below that of the legal points' distinct programs, at 95% confidence, from `samples` random points.

    Two of n legal points are one program with a probability of 1 / N at least if there are N programs, so that c equal
    pairs among n (n - 1) / 2 speak for no fewer than n (n - 1) / 2c: as many as if all programs were equally frequent.
    """
    drawn = [
        _programs(space, space.draw(rng, min(CHUNK, samples - start))) for start in range(0, samples, CHUNK)
    ]
    programs = np.concatenate(drawn)
    _, counts = np.unique(programs, return_counts=True)
    equal = int((counts * (counts - 1) // 2).sum())
    # Of none seen three may be expected; more are within two standard deviations.
    pairs = len(programs) * (len(programs) - 1) // 2
    return int(pairs / (equal + 2 * sqrt(equal) + 3))


def _programs(space: Space, points: np.ndarray) -> np.ndarray:
    """A number for the program of each legal one of `points`: uint64, see `features.program_numbers`."""
    account = space.account(space.columns(points))
    return program_numbers(space, account)[space.allowed(account)]

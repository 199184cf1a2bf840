"""Baselines without learning: random search and grid search."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from ...templates.space import Space
from .history import History
from .novelty import distinct_new, flat_points, random_new
from .point_features import examine

GOLDEN = (5**0.5 - 1) / 2
GRID_CHUNK = 1 << 10

LOOK_BACK = 256
"""A grid search looks for points that were left out among this number of last trials. It is larger than the number of
trials that can be in progress at a time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSearch:
    """A strategy that proposes legal points drawn uniformly."""

    def propose(
        self, space: Space, history: History, generator: np.random.Generator, count: int
    ) -> np.ndarray:
        """Up to `count` random legal points [n, axes] whose programs are not in the history; fewer only if the space is
        exhausted. Raises EmptySpaceError if no point is legal.
        """
        return random_new(space, generator, count, examine(space, history.points).programs)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSearch:
    """A strategy that proposes all points in one fixed order; every beginning of this order covers the space evenly.

    Points are numbered, with the last axis varying fastest. The numbers of successive points differ by the golden
    section of the number of all points, so that every new point falls into the largest remaining gap.
    """

    def propose(
        self, space: Space, history: History, generator: np.random.Generator, count: int
    ) -> np.ndarray:
        """The next `count` legal points [n, axes] in the grid's order whose programs are not in the history; fewer only
        if the space is exhausted. `generator` is not used.
        """
        size = space.size
        step = next(n for n in range(max(1, int(GOLDEN * size)), 2 * size + 1) if gcd(n, size) == 1)
        taken = examine(space, history.points).programs
        position = self._position(space, history, step)
        found = [np.empty((0, len(space.axes)), np.int64)]
        while position < size and count > 0:
            chunk = range(position, min(position + GRID_CHUNK, size))
            numbers = np.array([k * step % size for k in chunk], dtype=object if size > 1 << 62 else np.int64)
            fresh = distinct_new(examine(space, flat_points(space, numbers)), taken).take(slice(count))
            found.append(fresh.points)
            taken = np.concatenate([taken, fresh.programs])
            count -= len(fresh)
            position += GRID_CHUNK
        return np.concatenate(found)

    @staticmethod
    def _position(space: Space, history: History, step: int) -> int:
        """The position in the visiting order at which the search continues. It is the position of the trial that is
        `LOOK_BACK` trials before the end of the history, because later batches may have left out points after it.
        `step`: difference of the numbers of two points visited in succession, modulo the size of the space.
        """
        if len(history) <= LOOK_BACK:
            return 0
        number = 0
        for index, axis in zip(history.points[-LOOK_BACK], space.axes, strict=True):
            number = number * len(axis.values) + int(index)
        return number * pow(step, -1, space.size) % space.size

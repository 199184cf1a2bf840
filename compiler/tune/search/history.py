"""History of a search: measured points and their costs, in the order of the trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...templates.space import Space


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class History:
    """The points measured so far, int64 [n, axes], in order of measurement; `costs`, float64 [n]: cycles or seconds,
    inf for a failed trial.
    """

    points: np.ndarray
    costs: np.ndarray

    @staticmethod
    def empty(space: Space) -> History:
        """A history without trials, for points with the axes of `space`."""
        return History(points=np.empty((0, len(space.axes)), np.int64), costs=np.empty(0))

    def __len__(self) -> int:
        return len(self.costs)

    def with_trials(self, points: np.ndarray, costs: np.ndarray) -> History:
        """A new history: this one, followed by further trials with `points` [m, axes] and `costs` [m]."""
        return History(
            points=np.concatenate([self.points, points]), costs=np.concatenate([self.costs, costs])
        )

    @property
    def best(self) -> float:
        """The least cost so far; inf without trials."""
        return float(self.costs.min(initial=np.inf))


class Strategy(Protocol):
    """Proposes the next points from the history alone, so that a resumed search continues as if it had not stopped."""

    def propose(
        self, space: Space, history: History, generator: np.random.Generator, count: int
    ) -> np.ndarray:
        """Up to `count` legal points [n, axes] to measure next. No point of the history has the same program.

        Returns fewer only if the space is exhausted.
        """
        ...

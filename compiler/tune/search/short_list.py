"""The second stage of a search with a model: the few candidates that it likes best are lowered, and ranked once more.

A space's account tells of thousands of points what can be told without lowering them, and walks need thousands. Of what
they find some times as many candidates as are to be measured are lowered, which costs a fraction of a trial; a second
model ranks these by the account's features and by those that are read from their programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from ...templates.space import Space
from ..program_features.program import Read
from .cost_model import THOROUGH, CostModel, Samples
from .point_features import Candidates

LESSONS = 256
"""The best trials of a history that the second model learns from at most: after a restart all have to be lowered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortList:
    """How programs are read and ranked: `times` as many candidates are lowered as are to be measured.

    `prior` are records of other workloads of the template, with features as of `joined`.
    """

    read: Read
    times: float = 2.0
    model: CostModel = THOROUGH
    prior: Sequence[Samples] = ()

    def length(self, count: int) -> int:
        """How many candidates are lowered where `count` are to be measured."""
        return ceil(self.times * count)

    def lessons(self, space: Space, measured: Candidates, costs: np.ndarray) -> list[Samples]:
        """What the second model learns from: `prior`, and of n `measured` points with `costs` [n] the best.

        Nothing is read of them while fewer than two have run.
        """
        if np.isfinite(costs).sum() < 2:
            return list(self.prior)
        best = np.sort(np.argsort(costs, kind="stable")[:LESSONS])
        return [
            *self.prior,
            Samples(features=joined(space, measured.take(best), self.read), costs=costs[best]),
        ]


def joined(space: Space, candidates: Candidates, read: Read) -> np.ndarray:
    """The account's features of n candidates and behind them those of their programs: float64 [n, names].

    The latter are NaN where a candidate cannot be lowered, which trees take for a value of its own.
    """
    if not len(candidates):
        return candidates.features
    programs = np.stack([read(space.values(point)) for point in candidates.points])
    return np.concatenate([candidates.features, programs], axis=1)

"""The second stage of a search with a cost model: the candidates with the best scores are lowered and ranked again.

In the first stage, the search scores thousands of candidates by features that are computed without lowering
(`Space.cost`). In the second stage, it lowers the best of these candidates, a few times as many as it will measure.
Lowering a candidate takes a fraction of the time of a measurement. A second model then ranks the lowered candidates by
the features of the first stage and by features of their programs.
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

MOST_SAMPLES = 256
"""The model that ranks lowered candidates is trained on at most this number of trials of a history, the best ones.
After a restart all of them must be lowered again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortList:
    """Settings of the second stage of a search, which lowers the best-scored candidates and ranks them by features of
    their programs.

    `read`: returns program features. `times`: number of lowered candidates, as a multiple of the number to be measured.
    `prior`: samples of other workloads of the template, with features from `joined`.
    """

    read: Read
    times: float = 2.0
    model: CostModel = THOROUGH
    prior: Sequence[Samples] = ()

    def length(self, count: int) -> int:
        """Number of candidates to lower if `count` are to be measured: `times` as many, rounded up."""
        return ceil(self.times * count)

    def training_samples(self, space: Space, measured: Candidates, costs: np.ndarray) -> list[Samples]:
        """Training samples of the model that ranks lowered candidates: the samples in `prior`, and the best of the
        `measured` points of this search. `costs`: cost of each measured point.

        While fewer than two trials have succeeded, the result is `prior` alone.
        """
        if np.isfinite(costs).sum() < 2:
            return list(self.prior)
        best = np.sort(np.argsort(costs, kind="stable")[:MOST_SAMPLES])
        return [
            *self.prior,
            Samples(features=joined(space, measured.take(best), self.read), costs=costs[best]),
        ]


def joined(space: Space, candidates: Candidates, read: Read) -> np.ndarray:
    """The features of n candidates, float64 [n, names]. First come the features that the space gives, then the features
    of each candidate's program. The function `read` computes program features from the candidate's knob values.

    Program features are NaN if a candidate cannot be lowered. Decision trees treat NaN as a value of its own.
    """
    if not len(candidates):
        return candidates.features
    programs = np.stack([read(space.values(point)) for point in candidates.points])
    return np.concatenate([candidates.features, programs], axis=1)

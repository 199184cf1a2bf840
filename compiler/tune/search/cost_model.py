"""The learned cost model: gradient-boosted trees (xgboost) that rank points from their features.

The model is trained again on the whole history before every batch, so that a search has no other state; training takes
milliseconds. Records of other workloads of the template may be added, each workload as a separate group. Points are
ranked only within a group, because costs of different workloads are not comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.util.errors import UserError

from .point_features import GUESS

if TYPE_CHECKING:
    import xgboost

FAILURE_STEP = 1.0
"""The training label of a failed trial is this much below the label of the worst successful trial. Labels are base-2
logarithms of costs.
"""


class MissingTunerError(UserError):
    """Raised if the extra `tune` is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """Measured points of one workload: `features` float64 [n, f] from `point_features.point_features`, `costs` float64
    [n].
    """

    features: np.ndarray
    costs: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Parameters of training, named as in xgboost.

    `pairs`: in each round, every sample is ranked against this number of other samples, drawn at random. `columns`:
    share of the features, drawn at random, from which each split of a tree is chosen. `lean`: weight of an initial
    score, which needs no training: it rises by `lean` for every halving of the template's estimate of a point's cost.
    The trees correct this score.
    """

    objective: str = "rank:pairwise"
    lean: float = 2.0
    rounds: int = 40
    max_depth: int = 4
    learning_rate: float = 0.3
    max_bin: int = 64
    pairs: int = 1
    columns: float = 1.0

    def fit(self, groups: Sequence[Samples], seed: int) -> Ranking:
        """Trains trees on `groups`, one group of samples for each workload; all have the same features.

        Equal arguments give equal trees. Raises MissingTunerError if xgboost is not installed.
        """
        library = load_xgboost()
        features = np.concatenate([group.features for group in groups])
        data = library.DMatrix(
            features,
            label=np.concatenate([merits(group.costs) for group in groups]),
            base_margin=-self.lean * features[:, GUESS],
            nthread=1,
        )
        parameters: dict[str, Any] = {
            "objective": self.objective,
            "tree_method": "hist",
            "max_depth": self.max_depth,
            "eta": self.learning_rate,
            "max_bin": self.max_bin,
            "colsample_bynode": self.columns,
            "nthread": 1,
            "seed": seed,
        }
        if self.objective.startswith("rank:"):
            data.set_group([len(group.costs) for group in groups])
            # Pairs from the whole group: the best must be separated from all others, not only from the next
            # best.
            parameters |= {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": self.pairs}
        return Ranking(trees=library.train(parameters, data, self.rounds), lean=self.lean)


THOROUGH = CostModel(rounds=100, learning_rate=0.1, pairs=64, columns=0.3)
"""Parameters for a more thorough training, which takes two to three times as long as with the defaults. Predictions are
better if the initial score is poor (benchmarks/cost_model.py).
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranking:
    """A trained model: trees, and the weight `lean` of the initial score that the trees correct. The initial score is
    made from the template's estimate of a point's cost, without training.
    """

    trees: xgboost.Booster
    lean: float

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Scores, float64 [n], of `features` [n, f]: higher is cheaper; only order and differences are meaningful."""
        if not len(features):
            return np.empty(0)
        corrections = self.trees.inplace_predict(features, predict_type="margin")
        return np.asarray(corrections, dtype=np.float64) - self.lean * features[:, GUESS]


def merits(costs: np.ndarray) -> np.ndarray:
    """Training labels for `costs` [n] of one workload: negated base-2 logarithms, 0 for the least cost.

    Failed trials (inf) are `FAILURE_STEP` below the worst successful trial; all labels are 0 if every trial failed.
    """
    ran = np.isfinite(costs)
    if not ran.any():
        return np.zeros(len(costs))
    logarithms = np.log2(np.where(ran, costs, costs[ran].max()))
    return logarithms.min() - logarithms - FAILURE_STEP * ~ran


def load_xgboost() -> Any:
    """The module xgboost. Raises MissingTunerError, in one line, if it is not installed."""
    try:
        import xgboost
    except ModuleNotFoundError as error:
        if error.name != "xgboost":
            raise
        raise MissingTunerError(
            'the learned cost model needs xgboost, which is not installed: pip install "vdla[tune]"'
        ) from None
    return xgboost

"""Learned models of a figure as a function of the machine, with an uncertainty: gradient-boosted trees on the residuals
of a linear model.

The figure's logarithm is predicted by a ridge regression on quantities of the machine (`quantities.py`), corrected by
an ensemble of trees (XGBoost). For each fold of the data, trees are trained without that fold; their errors on the fold
estimate the model's error, and the interval is wide enough for the share `INSIDE` of these errors. Equal data give
equal models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.tune.search.cost_model import load_xgboost

if TYPE_CHECKING:
    import xgboost

Floats = NDArray[np.float64]
FOLDS = 8
ROUNDS = 120
TREES = {
    "max_depth": 4,
    "eta": 0.1,
    "subsample": 0.8,
    "colsample_bynode": 0.5,
    "min_child_weight": 1,
    "tree_method": "hist",
    "nthread": 1,
}
RIDGE = 0.1
INSIDE = 0.9
"""The share of values that an interval should contain."""
NORMAL = 1.6449
"""Distance from the mean, in standard deviations, within which the share `INSIDE` of a normal distribution lies."""
FEWEST = 4
"""Least number of evaluated machines from which a model is trained."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surrogate:
    """A trained model that predicts the base-2 logarithm of one figure (latency, energy ...) of a machine.

    `shift` and `scale` standardize the features of the linear model. `line` has the coefficients of the linear model
    (means over the folds), the constant first. `trees` has one ensemble of trees for each fold; the mean of their
    predictions is added to the prediction of the linear model. `error` is the standard deviation of the model's error,
    estimated on the left-out machines.
    """

    shift: Floats
    scale: Floats
    line: Floats
    trees: Sequence[xgboost.Booster]
    error: float

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Predicts the figure's base-2 logarithm for n machines; returns means [n] and standard deviations [n].
        `features` is [n, number of features].
        """
        straight = _design((features - self.shift) / self.scale) @ self.line
        corrections = np.array([tree.inplace_predict(features) for tree in self.trees], float)
        spread = corrections.std(axis=0) if len(self.trees) else np.zeros(len(features))
        return straight + corrections.mean(axis=0), np.hypot(spread, self.error)


def fit(features: Floats, values: Floats, seed: int) -> Surrogate:
    """Trains a model on n machines: from their `features` [n, number of features] it predicts their `values` [n],
    usually base-2 logarithms of a figure. `seed` decides the folds and the random choices of the trees. Raises
    MissingTunerError without xgboost.
    """
    library = load_xgboost()
    shift, scale = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-9)
    order = np.random.default_rng(seed).permutation(len(values))
    folds = min(FOLDS, len(values))
    trees, errors = [], np.empty(len(values))
    lines = []
    for fold in range(folds):
        left_out = order[fold::folds]
        kept = np.setdiff1d(order, left_out)
        line = _line((features[kept] - shift) / scale, values[kept])
        residual = values[kept] - _design((features[kept] - shift) / scale) @ line
        tree = _grow(library, features[kept], residual, seed + fold)
        missed = values[left_out] - _design((features[left_out] - shift) / scale) @ line
        errors[left_out] = missed - np.asarray(tree.inplace_predict(features[left_out]), float)
        trees.append(tree)
        lines.append(line)
    wide = float(np.quantile(np.abs(errors), INSIDE, method="higher")) / NORMAL
    return Surrogate(
        shift=shift, scale=scale, line=np.mean(lines, axis=0), trees=trees, error=max(wide, 1e-6)
    )


def _design(scaled: Floats) -> Floats:
    return np.hstack([np.ones((len(scaled), 1)), scaled])


def _line(scaled: Floats, values: Floats) -> Floats:
    design = _design(scaled)
    penalty = RIDGE * np.eye(design.shape[1])
    penalty[0, 0] = 0.0
    return np.asarray(np.linalg.solve(design.T @ design + penalty, design.T @ values), np.float64)


def _grow(library: Any, features: Floats, residual: Floats, seed: int) -> xgboost.Booster:
    data = library.DMatrix(features, label=residual, nthread=1)
    return library.train({**TREES, "seed": seed}, data, ROUNDS)

"""XGBoost on the residuals of the structured model of area and clock, as a baseline for that model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.codesign.technology.cell_features import features_of
from vdla.compiler.tune.search.cost_model import load_xgboost

from .area_rows import Synthesized

_TREES: dict[str, Any] = {
    "max_depth": 2,
    "eta": 0.1,
    "subsample": 0.8,
    "tree_method": "hist",
    "nthread": 1,
    "seed": 21,
}
_ROUNDS = 60


def left_out_with_trees(
    rows: Sequence[Synthesized], logic: Sequence[float], path: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Ratios of measured to predicted logic area, and of measured to predicted longest path, if trees correct the
    residuals of the structured model.

    `logic`, `path`: the structured model's ratios for `rows`. The trees for a machine are trained on the other
    machines' ratios.
    """
    table = np.log2(1 + np.array([list(features_of(row.config).values()) for row in rows]))
    return _corrected(table, np.log(logic)), _corrected(table, np.log(path))


def _corrected(table: NDArray[np.float64], residuals: NDArray[np.float64]) -> list[float]:
    library = load_xgboost()
    found: list[float] = []
    for place, residual in enumerate(residuals):
        kept = np.arange(len(residuals)) != place
        data = library.DMatrix(table[kept], residuals[kept])
        trees = library.train({**_TREES, "base_score": 0.0}, data, _ROUNDS)
        found.append(float(np.exp(residual - trees.inplace_predict(table[place : place + 1])[0])))
    return found

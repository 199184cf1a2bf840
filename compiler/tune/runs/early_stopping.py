"""Early stopping: the test for a search that no longer improves."""

from __future__ import annotations

import numpy as np

from ..search.history import History


def has_stalled(history: History, patience: int, improvement: float = 0.001) -> bool:
    """Whether the last `patience` trials together lowered the best cost by less than the relative amount `improvement`.

    False if `history` has no more than `patience` trials, or if all its trials have failed.
    """
    if len(history) <= patience:
        return False
    before = float(np.min(history.costs[: len(history) - patience]))
    return bool(np.isfinite(history.best) and history.best > (1 - improvement) * before)

"""The outcome of measuring one candidate."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`cost` is in cycles or seconds, inf for a candidate that failed, and then `error` says why.

    `seconds` of thread CPU time went into the trial, compilation included.
    """

    cost: float
    error: str | None = None
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether the candidate has no cost."""
        return not math.isfinite(self.cost)

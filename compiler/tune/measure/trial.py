"""The outcome of measuring one candidate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

WRONG = "wrong results"
"""Prefix of the error of a candidate that computes wrong results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of one trial.

    `cost`: cycles or seconds; inf for a candidate that failed, with the reason in `error`. `seconds`: thread CPU time
    of the trial. `compile_seconds`: the part of this time from knobs to code, if the task measures it.
    `overhead_seconds`: other CPU time of the process since its last trial, in which it waited for this trial. Before
    the first trial it includes the start and the loading of the task. `figures`: further measurements of the trial, as
    JSON values.
    """

    cost: float
    error: str | None = None
    seconds: float = 0.0
    compile_seconds: float = 0.0
    overhead_seconds: float = 0.0
    figures: Mapping[str, Any] | None = None

    @property
    def failed(self) -> bool:
        """Whether the trial failed, so that it has no finite cost."""
        return not math.isfinite(self.cost)

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON values: a cost of inf is null."""
        found: dict[str, Any] = {
            "cost": None if self.failed else self.cost,
            "error": self.error,
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "overhead_seconds": self.overhead_seconds,
        }
        return found if self.figures is None else found | {"figures": dict(self.figures)}


def result_from_dict(value: Mapping[str, Any]) -> Result:
    """The outcome that a JSON object made by `Result.to_dict` describes."""
    cost = math.inf if value["cost"] is None else float(value["cost"])
    parts = {name: float(value[name]) for name in ("seconds", "compile_seconds", "overhead_seconds")}
    return Result(cost=cost, error=value["error"], figures=value.get("figures"), **parts)


def results_obstacle(result: np.ndarray, reference: np.ndarray, tolerance: float) -> str | None:
    """The reason why `result` is wrong. None if it is right: each element differs from `reference` by at most
    `tolerance` times the greatest finite magnitude in `reference`, and NaN and infinite elements are equal.
    """
    finite = np.isfinite(reference)
    if not np.array_equal(np.where(finite, 0, result), np.where(finite, 0, reference), equal_nan=True):
        return f"{WRONG}: NaN or infinite values at other indices than in the reference"
    limit = tolerance * max(float(np.abs(reference[finite]).max(initial=0.0)), 1e-30)
    error = np.abs(result - reference)[finite].max(initial=0.0)
    return None if error <= limit else f"{WRONG}: off by {error:.3g}, more than {limit:.3g}"

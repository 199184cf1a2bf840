"""Reads comparisons of the tuner's searches that benchmarks have stored (`benchmarks/results/tuning_*.json`).

A document has `runs`, each with its layer, strategy, transfer (whether its model had learned from other layers), seed,
number of trials, and curve: the improvements [[trial, cost], ...], trials counted from 1. If costs are seconds, the
document also has, for each layer, the time of another library (`peer_seconds`) and the number of operations (`flops`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.util.errors import UserError
from vdla.util.user_files import read_whole

NEAR = 1.02
"""A run of a search counts as done when its cost is at most this multiple of the layer's best known cost, unless the
file of results states another number.
"""


class StudyError(UserError):
    """Raised for a file that contains no comparison of the tuner's searches (study); the message names the file and the
    error.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, of `trials` trials, of the search `strategy` for schedules of one layer. `transfer`: whether its cost
    model had learned from other layers. (trial, cost) in `curve` means that the least cost became `cost` with this
    trial, counted from 1.
    """

    layer: str
    strategy: str
    transfer: bool
    seed: int
    trials: int
    curve: tuple[tuple[int, float], ...]

    @property
    def best(self) -> float:
        """The least cost of all trials of the run; inf if none succeeded."""
        return self.curve[-1][1] if self.curve else np.inf

    def best_so_far(self, trials: int) -> NDArray[np.float64]:
        """Least cost found up to each trial, float64 [min(trials, self.trials)]; inf before the first success."""
        best = np.full(self.trials, np.inf)
        for trial, cost in self.curve:
            best[trial - 1 :] = cost
        return best[:trials]

    def trials_until(self, cost: float) -> int | None:
        """Number of the first trial (from 1) with a cost of `cost` or less; None if there is none."""
        return next((trial for trial, found in self.curve if found <= cost), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A comparison of searches for schedules: the runs of several searches on several layers. All costs of a layer have
    the same unit.

    `config` names the accelerator's configuration, if any. `near`: see `NEAR`. If costs are seconds, `peer_seconds` has
    the time of another library and `flops` the number of operations, both by layer.
    """

    runs: tuple[Run, ...]
    config: str | None = None
    near: float = NEAR
    peer_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    flops: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers, in the order of their first runs."""
        return tuple(dict.fromkeys(run.layer for run in self.runs))

    def only(self, layers: Collection[str]) -> Study:
        """The comparison restricted to some layers, in the order of the runs."""
        return replace(self, runs=tuple(run for run in self.runs if run.layer in layers))

    def of(self, layer: str, strategy: str, transfer: bool = False) -> tuple[Run, ...]:
        """The runs of the search `strategy` on one layer, one for each seed; `transfer`: runs whose cost model had
        learned from other layers.
        """
        wanted = (layer, strategy, transfer)
        return tuple(run for run in self.runs if (run.layer, run.strategy, run.transfer) == wanted)

    def best_known(self, layer: str) -> float:
        """The least cost of a layer in any run of any search; inf if no run succeeded."""
        return min((run.best for run in self.runs if run.layer == layer), default=np.inf)

    def needed(self, layer: str, strategy: str, transfer: bool = False) -> list[int | None]:
        """For each run of the search (arguments as for `of`), the number of trials until its cost is within `near`
        times the layer's best known cost; None if the run never gets there.
        """
        enough = self.near * self.best_known(layer)
        return [run.trials_until(enough) for run in self.of(layer, strategy, transfer)]

    def counted(self, layer: str, strategy: str, transfer: bool = False) -> list[int]:
        """For each run of the search, the number of trials until its cost is within `near` times the layer's best known
        cost. For a run that never gets there, the number of all its trials, which is a lower bound.
        """
        runs, needed = self.of(layer, strategy, transfer), self.needed(layer, strategy, transfer)
        return [run.trials if trial is None else trial for run, trial in zip(runs, needed, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spread:
    """Least, median and largest value, over several runs of a search, of the best cost found so far; float64 [trials]
    each, for the trials that all runs made.
    """

    low: NDArray[np.float64]
    median: NDArray[np.float64]
    high: NDArray[np.float64]


def spread(runs: Sequence[Run]) -> Spread:
    """Least, median and largest value, over the runs, of the best cost found up to each trial. Raises ValueError
    without runs.
    """
    trials = min(run.trials for run in runs)
    costs = np.array([run.best_so_far(trials) for run in runs])
    return Spread(low=costs.min(axis=0), median=np.median(costs, axis=0), high=costs.max(axis=0))


def read_study(path: Path, command: str) -> Study:
    """The comparison of searches in the file `path`, which the command `command` writes. Raises StudyError, and
    FileError if the file cannot be read.
    """
    if not path.exists():
        raise StudyError(f"{path.name} does not exist yet; write it with: {command}")
    try:
        document = json.loads(read_whole(path, "study"))
        return study_of(document)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise StudyError(
            f"{path.name} is not a study ({type(error).__name__}: {error}); write it anew: {command}"
        ) from None


def study_of(document: Mapping[str, Any]) -> Study:
    """The comparison of searches in a JSON document. Raises KeyError, TypeError or ValueError for other documents."""
    runs = tuple(_run(item) for item in document["runs"])
    return Study(
        runs=runs,
        config=document.get("config"),
        near=float(document.get("near", NEAR)),
        peer_seconds={name: float(value) for name, value in document.get("peer_seconds", {}).items()},
        flops={name: float(value) for name, value in document.get("flops", {}).items()},
    )


def _run(item: Mapping[str, Any]) -> Run:
    run = Run(
        layer=str(item["layer"]),
        strategy=str(item["strategy"]),
        transfer=bool(item.get("transfer", False)),
        seed=int(item["seed"]),
        trials=int(item["trials"]),
        curve=tuple((int(trial), float(cost)) for trial, cost in item["curve"]),
    )
    trials = [0, *(trial for trial, _ in run.curve), run.trials + 1]
    costs = [np.inf, *(cost for _, cost in run.curve), 0.0]
    # Costs may be rounded, so an improvement may be invisible.
    if not (np.all(np.diff(trials) > 0) and np.all(np.array(costs[:-1]) >= costs[1:])):
        raise ValueError(
            f"the curve of layer {run.layer}, strategy {run.strategy}, seed {run.seed} must have increasing numbers of "
            "trials and costs that do not increase"
        )
    return run

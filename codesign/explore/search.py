"""Which points of a space to evaluate next: strategies that name batches of points, the same for the same seed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

from vdla.util.errors import UserError

from .space import Point, Space

Told = tuple[Point, tuple[float, ...] | None, float]
"""A point, its objectives to minimize (None: it is no machine, or cannot run a network), and by how much it breaks the
constraints."""
MOST_TRIES = 200
"""Times that a strategy is asked for each point that it has not named before."""


class Strategy(Protocol):
    """Names points, and hears what became of them."""

    def ask(self, count: int) -> list[Point]:
        """Points to evaluate, at most `count`, none twice in a study; none where the space has no more."""
        ...

    def tell(self, results: Sequence[Told]) -> None:
        """What became of the points asked for last, in their order."""
        ...


class Exhaustive:
    """All points, in order."""

    def __init__(self, space: Space, objectives: int, seed: int) -> None:
        self._points = space.points()

    def ask(self, count: int) -> list[Point]:
        """See `Strategy`."""
        return [point for _, point in zip(range(count), self._points, strict=False)]

    def tell(self, results: Sequence[Told]) -> None:
        """Nothing follows."""


class RandomSearch:
    """Points at random, none twice."""

    def __init__(self, space: Space, objectives: int, seed: int) -> None:
        self._space, self._random, self._seen = space, Random(seed), set[Point]()

    def ask(self, count: int) -> list[Point]:
        """See `Strategy`."""
        found: list[Point] = []
        while len(found) < count and len(self._seen) < self._space.size:
            point = self._space.point(self._random.randrange(self._space.size))
            if point not in self._seen:
                self._seen.add(point)
                found.append(point)
        return found

    def tell(self, results: Sequence[Told]) -> None:
        """Nothing follows."""


class OptunaSearch:
    """A sampler of Optuna: NSGA-II or TPE. Each axis is a number, the place of a value in the space's order."""

    def __init__(self, space: Space, objectives: int, seed: int, *, sampler: str) -> None:
        try:
            import optuna
        except ImportError:
            raise UserError(f"the strategy {sampler} needs Optuna: pip install 'vdla[explore]'") from None
        self._optuna, self._space, self._seen = optuna, space, set[Point]()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        samplers: Mapping[str, Any] = {
            "nsga2": optuna.samplers.NSGAIISampler,
            "tpe": optuna.samplers.TPESampler,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Constraints and batches are called experimental.
            chosen = samplers[sampler](seed=seed, constraints_func=_broken)
        self._study = optuna.create_study(
            sampler=chosen, directions=[optuna.study.StudyDirection.MINIMIZE] * objectives
        )
        self._known: dict[Point, Told] = {}
        self._open: list[Any] = []

    def ask(self, count: int) -> list[Point]:
        """See `Strategy`. Points that come again are answered here, with what became of them the first time."""
        found: list[Point] = []
        for _ in range(MOST_TRIES * count):
            if len(found) == count or len(self._seen) == self._space.size:
                break
            trial = self._study.ask()
            point = tuple(trial.suggest_int(axis.name, 0, len(axis.values) - 1) for axis in self._space.axes)
            if point not in self._seen:
                self._seen.add(point)
                self._open.append(trial)
                found.append(point)
            elif point in self._known:
                self._answer(trial, self._known[point])
            else:
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        return found

    def tell(self, results: Sequence[Told]) -> None:
        """See `Strategy`."""
        for trial, result in zip(self._open, results, strict=True):
            self._known[result[0]] = result
            self._answer(trial, result)
        self._open.clear()

    def _answer(self, trial: Any, result: Told) -> None:
        _, values, broken = result
        if values is None:
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            return
        trial.set_user_attr("broken", broken)
        self._study.tell(trial, values)


def _broken(trial: Any) -> Sequence[float]:
    return (trial.user_attrs.get("broken", 0.0),)


def _optuna(sampler: str) -> Callable[[Space, int, int], Strategy]:
    return lambda space, objectives, seed: OptunaSearch(space, objectives, seed, sampler=sampler)


STRATEGIES: Mapping[str, Callable[[Space, int, int], Strategy]] = {
    "exhaustive": Exhaustive,
    "random": RandomSearch,
    "nsga2": _optuna("nsga2"),
    "tpe": _optuna("tpe"),
}
"""Strategies by name: made of a space, a number of objectives and a seed."""


def strategy_of(name: str, space: Space, objectives: int, seed: int) -> Strategy:
    """The strategy of a name. UserError for others."""
    if name not in STRATEGIES:
        raise UserError(f'no strategy is called "{name}"; there are {", ".join(STRATEGIES)}')
    return STRATEGIES[name](space, objectives, seed)

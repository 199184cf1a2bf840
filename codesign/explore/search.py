"""Search strategies. Each proposes batches of points of a space of machines, which are then evaluated; equal seeds give
equal points.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from random import Random
from typing import Any, Protocol

from vdla.util.errors import UserError

from .problem import Observation, Problem, first_points
from .space import Point

MOST_TRIES = {"nsga2": 200, "tpe": 5}
"""Largest number of calls of a sampler per point of a batch, by name of the sampler. A call may return a point that was
proposed before; then the sampler is called again. If the calls of a batch are used up, random new points fill the
batch. TPE gets few calls, because each takes ten times as long as a call of NSGA-II and later calls take even longer.
"""


class Strategy(Protocol):
    """A search strategy: proposes points of a space of machines and takes their results. If `learns` is False, the
    points do not depend on results, so that several batches may be evaluated at a time.
    """

    learns: bool

    def ask(self, count: int) -> list[Point]:
        """At most `count` points of the space to evaluate, none twice in a search; empty if the space has no more."""
        ...

    def tell(self, results: Sequence[Observation]) -> None:
        """Takes the results of the points (machines) that `ask` returned last, in the order of these points."""
        ...


class Exhaustive:
    """A strategy that proposes all points of the space, in order."""

    learns = False

    def __init__(self, problem: Problem) -> None:
        self._points = problem.space.points()

    def ask(self, count: int) -> list[Point]:
        """The next points, at most `count`, in the space's order."""
        return [point for _, point in zip(range(count), self._points, strict=False)]

    def tell(self, results: Sequence[Observation]) -> None:
        """Ignores the results, because the points do not depend on them."""


class RandomSearch:
    """A strategy that proposes random points of the space of machines, none of them twice."""

    learns = False

    def __init__(self, problem: Problem) -> None:
        self._space, self._random, self._seen = problem.space, Random(problem.seed), set[Point]()

    def ask(self, count: int) -> list[Point]:
        """At most `count` random points that were not returned before."""
        found: list[Point] = []
        while len(found) < count and len(self._seen) < self._space.size:
            point = self._space.point(self._random.randrange(self._space.size))
            if point not in self._seen:
                self._seen.add(point)
                found.append(point)
        return found

    def tell(self, results: Sequence[Observation]) -> None:
        """Ignores the results, because the points do not depend on them."""


class OptunaSearch:
    """A strategy that uses a sampler of Optuna, NSGA-II or TPE, with Optuna's default settings. It begins with
    `first_points`; the sampler sees each axis as an integer, the index of a value in the space's order. If the sampler
    proposes only points that it proposed before, random points replace them.
    """

    learns = True

    def __init__(self, problem: Problem, *, sampler: str) -> None:
        try:
            import optuna
        except ImportError:
            raise UserError(f"the strategy {sampler} needs Optuna: pip install 'vdla[explore]'") from None
        self._optuna, self._space, self._seen = optuna, problem.space, set[Point]()
        self._tries, self._random = MOST_TRIES[sampler], Random(problem.seed)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        samplers: Mapping[str, Any] = {
            "nsga2": optuna.samplers.NSGAIISampler,
            "tpe": optuna.samplers.TPESampler,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna warns that constraints and batches are experimental.
            # Optuna's seeds have 32 bits.
            chosen = samplers[sampler](seed=problem.seed % 2**32, constraints_func=_broken)
        self._study = optuna.create_study(
            sampler=chosen, directions=[optuna.study.StudyDirection.MINIMIZE] * len(problem.objectives)
        )
        for point in first_points(problem):
            self._enqueue(point)
        self._known: dict[Point, Observation] = {}
        self._open: list[Any] = []

    def ask(self, count: int) -> list[Point]:
        """At most `count` points to evaluate, none twice. If the sampler proposes a known point again, the sampler gets
        the known result, and the point is not returned.
        """
        found: list[Point] = []
        tries = 0
        while len(found) < count and len(self._seen) < self._space.size:
            tries += 1
            if tries > self._tries * count:
                self._enqueue(self._fresh())
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

    def _enqueue(self, point: Point) -> None:
        """Makes Optuna's sampler propose `point` next."""
        self._study.enqueue_trial({a.name: i for a, i in zip(self._space.axes, point, strict=True)})

    def _fresh(self) -> Point:
        while True:
            point = self._space.point(self._random.randrange(self._space.size))
            if point not in self._seen:
                return point

    def tell(self, results: Sequence[Observation]) -> None:
        """Passes the results of the points that `ask` returned last to Optuna's sampler."""
        for trial, result in zip(self._open, results, strict=True):
            self._known[result.point] = result
            self._answer(trial, result)
        self._open.clear()

    def _answer(self, trial: Any, result: Observation) -> None:
        if result.objectives is None:
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            return
        trial.set_user_attr("broken", result.excess)
        self._study.tell(trial, result.objectives)


def _broken(trial: Any) -> Sequence[float]:
    return (trial.user_attrs.get("broken", 0.0),)


def _optuna(sampler: str) -> Callable[[Problem], Strategy]:
    return lambda problem: OptunaSearch(problem, sampler=sampler)


def _model(problem: Problem) -> Strategy:
    # Only search for the package: its import takes longer than most designs, and the first batches need no model.
    if find_spec("xgboost") is None:
        raise UserError(
            "the strategy model needs xgboost: pip install 'vdla[explore]', or give --strategy random"
        )
    from .model_search import ModelSearch

    return ModelSearch(problem)


STRATEGIES: Mapping[str, Callable[[Problem], Strategy]] = {
    "model": _model,
    "exhaustive": Exhaustive,
    "random": RandomSearch,
    "nsga2": _optuna("nsga2"),
    "tpe": _optuna("tpe"),
}
"""Functions that make a search strategy for a problem, by name of the strategy."""


def strategy_of(name: str, problem: Problem) -> Strategy:
    """The strategy called `name`. Raises UserError for an unknown name, and if a package that the strategy needs is not
    installed.
    """
    if name not in STRATEGIES:
        raise UserError(f'no strategy is called "{name}"; there are {", ".join(STRATEGIES)}')
    return STRATEGIES[name](problem)

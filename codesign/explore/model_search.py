"""A search led by learned models: it evaluates the machines (accelerator configurations) that are expected to extend
the Pareto front most.

Surrogates (`surrogate.py`) predict the objectives of machines that were not evaluated, from quantities computed from
the machine; objectives that follow from the machine exactly, such as its area, are computed. A batch is filled one
machine after the other: the next one has the largest expected growth of the front's hypervolume (of logarithms of the
objectives), multiplied by the probability that the machine runs and meets the constraints. Machines already in the
batch count as members of the front, with their predicted objectives. Points that are no valid machine are never
proposed. Points that break a constraint known without evaluation are proposed only if the search finds no other points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from random import Random

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from vdla.isa.config import Config
from vdla.util.errors import UserError

from .evaluate import Figures, figures_of_machine
from .front import pareto
from .improvement import expected_growth, free_boxes
from .metrics import Metric
from .problem import FIRST, Observation, Problem
from .quantities import Layers, layers_of_networks, quantities
from .space import Point
from .surrogate import FEWEST, NORMAL, fit

Floats = NDArray[np.float64]
POOL = 4096
"""Largest number of points of the space from which the next batch of machines to evaluate is chosen: random points and
neighbours of the Pareto front. In a space with at most this many points, all points are considered.
"""
MOST_MISSED = 8192
"""Number of consecutive random points without a valid new machine after which the search assumes that the space has no
more machines.
"""
_OPTIMISM = 3.0
"""Number of standard deviations that are subtracted from a predicted objective to decide whether a design may be on the
Pareto front.
"""
_CHECKED = 32
"""When a machine is chosen for a batch, the expected growths of the hypervolume by the other candidates shrink. They
are recomputed for the best candidates only, this many at a time.
"""
_MARGIN = 0.1
"""Distance of the hypervolume's reference corner beyond the worst objective values, as a fraction of their range."""
_FLOOR = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A point of the search space that is a valid machine, with its features for the learned models, and the figures
    that are known without evaluation (area, clock).
    """

    point: Point
    machine: Config
    features: Floats
    known: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A predicted value of an objective (`predicted`) and the value found by evaluation (`found`), as base-2
    logarithms; `half` is half the width of the 90% interval.
    """

    metric: str
    predicted: float
    half: float
    found: float

    @property
    def inside(self) -> bool:
        """Whether the value found by evaluation is inside the predicted 90% interval."""
        return abs(self.found - self.predicted) <= self.half


class ModelSearch:
    """A strategy (`search.Strategy`) that proposes machines by surrogates (learned models of the objectives). The
    proposed points depend only on the seed and on the results passed to `tell`.
    """

    learns = True

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._random = Random(problem.seed)
        self._candidates: dict[Point, Candidate | None] = {}
        self._beyond: dict[Point, float] = {}
        self._named: set[Point] = set()
        self._observations: list[Observation] = []
        self._asked: list[tuple[Point, list[tuple[float, float]]]] = []
        self.guesses: list[Guess] = []
        """Predictions of the evaluated designs, made before their evaluation."""

    def ask(self, count: int) -> list[Point]:
        """At most `count` points of the space to evaluate, none twice in a search: at first random points, later the
        points that are expected to enlarge the Pareto front's hypervolume most.
        """
        trained = [seen for seen in self._observations if seen.objectives is not None]
        self._asked = []
        if len(self._observations) < FIRST or len(trained) < FEWEST:
            points = list(islice(self._fresh(), min(count, FIRST))) or self._nearest(min(count, FIRST))
        else:
            points = self._chosen(count)
        self._named.update(points)
        return points

    def tell(self, results: Sequence[Observation]) -> None:
        """Takes the results of the points (machines) that `ask` returned last, and records the errors of their
        predictions.
        """
        # A point that breaks a limit known in advance is no candidate, and no model is trained on it.
        self._observations += [seen for seen in results if self._candidate(seen.point) is not None]
        guessed = dict(self._asked)
        for seen in results:
            if seen.objectives is None or seen.point not in guessed:
                continue
            for metric, value, (predicted, half) in zip(
                self._problem.objectives, seen.objectives, guessed[seen.point], strict=True
            ):
                if not metric.from_machine:
                    found = float(_logarithm(np.array([value]), metric)[0])
                    self.guesses.append(
                        Guess(metric=metric.name, predicted=predicted, half=half, found=found)
                    )

    def _fresh(self) -> Iterator[Point]:
        """Yields random points of the space that were not proposed before and break no constraint known without
        evaluation; ends if no point is left, or after `MOST_MISSED` other points in a row.
        """
        space = self._problem.space
        seen, missed = set(self._named), 0
        while len(seen) < space.size and missed < MOST_MISSED:
            point = space.point(self._random.randrange(space.size))
            if point in seen:
                continue
            seen.add(point)
            missed += 1
            if self._candidate(point) is not None:
                missed = 0
                yield point

    def _nearest(self, count: int) -> list[Point]:
        """The points that come nearest to the limits, for a space in which every machine violates a constraint (such as
        a limit of area) that can be checked without evaluation. Returns at most `count` points. The point that exceeds
        the limit least comes first, so that the report can state the least excess. Returns nothing if the search has
        already proposed a point.
        """
        if self._named:
            return []
        return sorted(self._beyond, key=lambda point: (self._beyond[point], point))[:count]

    def _candidate(self, point: Point) -> Candidate | None:
        if point not in self._candidates:
            self._candidates[point] = self._look_at(point)
        return self._candidates[point]

    def _look_at(self, point: Point) -> Candidate | None:
        problem = self._problem
        try:
            machine = problem.space.machine(point)
        except UserError:
            return None
        known = figures_of_machine(machine, problem.components)
        beyond = [
            limit.excess(limit.metric.value(machine, known, problem.weights))
            for limit in problem.constraints
            if limit.metric.from_machine
        ]
        if max([0.0, *beyond]) > 0:
            self._beyond[point] = max(beyond)
            return None
        axes = [
            np.log2(1.0 + value) if isinstance(value, int) else float(index)
            for index, axis in zip(point, problem.space.axes, strict=True)
            for value in (axis.values[index],)
        ]
        features = np.array([*axes, *quantities(machine, self._layers)])
        return Candidate(point=point, machine=machine, features=features, known=known)

    @cached_property
    def _layers(self) -> Layers:
        return layers_of_networks(self._problem.networks)

    def _pool(self) -> list[Candidate]:
        space = self._problem.space
        if space.size <= POOL:
            points = list(space.points())
        else:
            drawn = (space.point(self._random.randrange(space.size)) for _ in range(POOL // 2))
            points = [*self._neighbours(), *drawn]
        found: dict[Point, Candidate] = {}
        for point in points:
            if point not in self._named and (candidate := self._candidate(point)) is not None:
                found[point] = candidate
        return list(found.values())

    def _neighbours(self) -> list[Point]:
        """Points of the space that differ from a point of the Pareto front by one step in one field, or in two fields,
        in seeded random order.
        """
        space, found = self._problem.space, list[Point]()
        seen = [item for item in self._observations if item.objectives is not None and item.excess <= 0]
        if not seen:
            return found
        best = pareto(np.array([item.objectives for item in seen]))
        sizes = [len(axis.values) for axis in space.axes]
        for item in (seen[i] for i in np.flatnonzero(best)):
            for axis, size in enumerate(sizes):
                for step in (-1, 1):
                    if 0 <= item.point[axis] + step < size:
                        one = (*item.point[:axis], item.point[axis] + step, *item.point[axis + 1 :])
                        found.append(one)
                        other = self._random.randrange(len(sizes))
                        two = one[other] + self._random.choice((-1, 1))
                        if other != axis and 0 <= two < sizes[other]:
                            found.append((*one[:other], two, *one[other + 1 :]))
        self._random.shuffle(found)
        return found[: POOL // 2]

    def _chosen(self, count: int) -> list[Point]:
        pool = self._pool()
        if len(pool) <= count:
            return [candidate.point for candidate in pool]
        problem = self._problem
        ran = [seen for seen in self._observations if seen.objectives is not None]
        predicted = [self._predict(pool, place, metric) for place, metric in enumerate(problem.objectives)]
        means = np.stack([mean for mean, _ in predicted], axis=1)
        deviations = np.stack([deviation for _, deviation in predicted], axis=1)
        chance = self._chance(pool)
        signed = np.array([seen.objectives for seen in ran])
        values = np.stack(
            [_logarithm(signed[:, place], m) for place, m in enumerate(problem.objectives)], axis=1
        )
        feasible = values[[seen.excess <= 0 for seen in ran]]
        worst, best = values.max(axis=0), values.min(axis=0)
        reference = worst + _MARGIN * np.maximum(worst - best, 0.01)
        front = feasible[pareto(feasible)] if len(feasible) else feasible
        # A candidate that is dominated even with an optimistic prediction cannot extend the front.
        hopeful = means - _OPTIMISM * deviations
        dominated = np.zeros(len(pool), bool)
        for member in front:
            dominated |= (member <= hopeful).all(axis=1)
        picked: list[int] = []
        open_ = np.flatnonzero(~dominated)
        boxes = free_boxes(front, reference.tolist())
        growth = np.zeros(len(pool))
        growth[open_] = expected_growth(means[open_], deviations[open_], boxes) * chance[open_]
        fresh = np.full(len(pool), True)
        while len(picked) < count:
            # A growth only shrinks as the front grows, so growths computed earlier are upper bounds.
            order = np.argsort(-growth, kind="stable")[:_CHECKED]
            if growth[order[0]] <= 0:
                break
            if not fresh[order[0]]:
                stale = order[~fresh[order] & (growth[order] > 0)]  # values of chosen candidates stay below 0
                growth[stale] = expected_growth(means[stale], deviations[stale], boxes) * chance[stale]
                fresh[stale] = True
                continue
            picked.append(int(order[0]))
            growth[order[0]] = -1.0
            front = np.vstack([front, means[order[0]]])
            boxes = free_boxes(front, reference.tolist())
            fresh[:] = False
        self._asked = [
            (
                pool[i].point,
                [
                    (float(mean), float(NORMAL * deviation))
                    for mean, deviation in zip(means[i], deviations[i], strict=True)
                ],
            )
            for i in picked
        ]
        points = [pool[i].point for i in picked]
        if len(points) < count:
            # No candidate is expected to improve the front: the rest of the batch goes to the least certain
            # predictions.
            left = [i for i in np.argsort(-deviations.sum(axis=1), kind="stable") if i not in set(picked)]
            points += [pool[i].point for i in left[: count - len(points)]]
        return points

    def _predict(self, pool: Sequence[Candidate], place: int, metric: Metric) -> tuple[Floats, Floats]:
        """Predicts, for each machine of `pool`, the base-2 logarithm of the objective `metric` (negated if the metric
        is maximized). Returns means and standard deviations. `place`: index of `metric` among the objectives.
        """
        problem = self._problem
        if metric.from_machine:
            values = [metric.value(item.machine, item.known, problem.weights) for item in pool]
            return _logarithm(metric.sign * np.array(values), metric), np.zeros(len(pool))
        ran = [seen for seen in self._observations if seen.objectives is not None]
        values = np.array([seen.objectives[place] for seen in ran if seen.objectives is not None])
        model = fit(self._features(ran), _logarithm(values, metric), problem.seed)
        return model.predict(np.stack([item.features for item in pool]))

    def _chance(self, pool: Sequence[Candidate]) -> Floats:
        """The probability, for each machine of `pool`, that it runs all networks and meets the constraints on metrics
        that need a run.
        """
        problem, chance = self._problem, np.ones(len(pool))
        tried = [seen for seen in self._observations if self._candidate(seen.point) is not None]
        ran = [seen for seen in tried if seen.objectives is not None]
        features = np.stack([item.features for item in pool])
        if len(tried) - len(ran) >= 2:
            success = np.array([float(seen.objectives is not None) for seen in tried])
            mean, _ = fit(self._features(tried), success, problem.seed).predict(features)
            chance *= np.clip(mean, 0.02, 1.0)
        for number, limit in enumerate(problem.constraints):
            if not limit.metric.from_machine:
                values = np.log2(np.maximum([seen.limited[number] for seen in ran], _FLOOR))
                mean, deviation = fit(self._features(ran), values, problem.seed).predict(features)
                distance = (np.log2(max(limit.limit, _FLOOR)) - mean) / np.maximum(deviation, 1e-9)
                chance *= ndtr(distance if limit.upper else -distance)
        return chance

    def _features(self, seen: Sequence[Observation]) -> Floats:
        found = [self._candidate(item.point) for item in seen]
        return np.stack([item.features for item in found if item is not None])


def _logarithm(minimized: Floats, metric: Metric) -> Floats:
    """Base-2 logarithms of values of a metric. If the metric is maximized, the caller passes the negated values as
    `minimized`, and the logarithms are negated, too: the smallest is always the best.
    """
    return metric.sign * np.log2(np.maximum(np.abs(minimized), _FLOOR))

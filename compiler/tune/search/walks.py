"""Walks over a space, guided by a model's scores. A batch is later chosen among the points that a walk visits.

All points of a walk move at once. A score predicts how fast a point's program is; a higher score is better. `score` is
always called with the features of all n points of the walk, in order, so that it can use a different model for each
point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...templates.space import Space
from .history import History
from .moves import cross, mutate
from .point_features import Candidates, choose, examine, join

WALKS_EACH = 8
"""Number of walks that start at each random point."""
Score = Callable[[np.ndarray], np.ndarray]
"""A function from features, float64 [n, f], to scores, float64 [n]."""


def walk_starts(space: Space, history: History, generator: np.random.Generator, count: int) -> np.ndarray:
    """`count` starting points [count, axes]. Up to half of them are the best successfully measured points; the rest are
    random.

    Each random point occurs about `WALKS_EACH` times, because legal points may be rare and expensive to draw.
    """
    ranks = np.argsort(history.costs, kind="stable")
    best = history.points[ranks[np.isfinite(history.costs[ranks])][: count // 2]]
    random = space.sample(generator, max(1, (count - len(best)) // WALKS_EACH))
    return np.concatenate([best, np.resize(random, (count - len(best), random.shape[1]))])


class Walk(Protocol):
    """A search for points with high scores."""

    def visit(
        self, space: Space, score: Score, starts: np.ndarray, generator: np.random.Generator
    ) -> Candidates:
        """Returns legal points that are found from `starts`, int64 [n, axes]. They include the legal points among
        `starts`; points may be repeated.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Annealing:
    """Parallel simulated annealing. There are as many chains as starts, and each chain moves on one axis at a time.

    The temperature falls linearly from `temperature` to 0; its unit is the standard deviation of the starts' scores.
    """

    steps: int = 24
    temperature: float = 0.5

    def visit(
        self, space: Space, score: Score, starts: np.ndarray, generator: np.random.Generator
    ) -> Candidates:
        """Runs one annealing chain from each point in `starts`, and returns all legal points that the chains tried,
        including the legal ones among `starts`.

        `starts`: knob settings as int64 [n, axes]. `score`: predicts the merit of points from their features; larger is
        better. `generator`: source of random moves.
        """
        current = examine(space, starts)
        value = score(current.features)
        scale = float(np.std(value)) or 1.0
        seen = [current.legal_ones()]
        for step in range(self.steps):
            temperature = self.temperature * scale * (1 - step / self.steps)
            moved = examine(space, mutate(space, current.points, generator))
            merit = score(moved.features)
            chance = np.exp(np.minimum(0.0, merit - value) / temperature)
            accepted = moved.legal & (generator.random(len(chance)) < chance)
            seen.append(moved.legal_ones())
            current = choose(accepted, moved, current)
            value = np.where(accepted, merit, value)
        return join(seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """Evolutionary search over `generations`; the size of the population is the number of start points.

    With probability `crossing`, a child is the crossover of two parents; otherwise it is a copy of one parent with
    another value on one axis. Parents of better rank are drawn more often. The next population consists of the best
    parents and children. No two of them have equal programs, as long as there are enough programs.
    """

    generations: int = 12
    crossing: float = 0.3

    def visit(
        self, space: Space, score: Score, starts: np.ndarray, generator: np.random.Generator
    ) -> Candidates:
        """The legal points of all generations from `starts` int64 [n, axes] on."""
        population = examine(space, starts)
        value = score(population.features)
        seen = [population.legal_ones()]
        count = len(starts)
        # Of n ranks, the first is drawn n times as often as the last.
        weights = np.arange(count, 0, -1, dtype=np.float64)
        weights /= weights.sum()
        for _ in range(self.generations):
            ranks = np.argsort(-value, kind="stable")
            mothers, fathers = ranks[generator.choice(count, size=(2, count), p=weights)]
            crossed = cross(population.points[mothers], population.points[fathers], generator)
            mutants = mutate(space, population.points[mothers], generator)
            crossing = generator.random(count) < self.crossing
            children = examine(space, np.where(crossing[:, None], crossed, mutants))
            merit = np.where(children.legal, score(children.features), -np.inf)
            seen.append(children.legal_ones())
            both = join([population, children])
            merits = np.concatenate([value, merit])
            kept = _best_distinct(both.programs, merits, count)
            population, value = both.take(kept), merits[kept]
        return join(seen)


def _best_distinct(programs: np.ndarray, merits: np.ndarray, count: int) -> np.ndarray:
    """Indices of the `count` largest of `merits` [n >= count]. Each is of a different program, as long as there are
    enough programs.
    """
    order = np.argsort(-merits, kind="stable")
    _, first = np.unique(programs[order], return_index=True)
    repeated = np.ones(len(order), dtype=bool)
    repeated[first] = False
    return order[np.argsort(repeated, kind="stable")][:count]

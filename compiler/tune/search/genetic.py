"""A genetic algorithm on measured costs, without a model, in the manner of AutoTVM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...templates.space import Space
from .history import History
from .moves import cross, mutate
from .novelty import distinct_new, random_new
from .point_features import examine

CHILDREN_A_POINT = 32
"""Number of children made for each requested point; most of them are illegal or known."""
MOST_ROUNDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneticSearch:
    """A strategy that proceeds in generations of `population` trials. The parents of a new generation are the trials of
    the last generation and the `elites` best trials of earlier generations.

    Parents are drawn with probabilities that fall linearly with rank. A child is the crossover of two parents; with
    probability `mutation`, the child's value on one axis is then changed. The number of trials determines the
    generation.
    """

    population: int = 32
    elites: int = 8
    mutation: float = 0.5

    def propose(
        self, space: Space, history: History, generator: np.random.Generator, count: int
    ) -> np.ndarray:
        """Up to `count` legal points [n, axes], none with a program that is in the history. The first `population`
        points are random. Later points are made from the last generation and the elites by crossover and mutation; if
        these give too few points, random points are added. Returns fewer only if the space is exhausted, as far as
        `random_new` can tell. Raises EmptySpaceError if no point is legal.
        """
        taken = examine(space, history.points).programs
        born = len(history) // self.population * self.population
        if not born:
            return random_new(space, generator, count, taken)
        parents = self._parents(history, born)
        # Of n ranks, the first is drawn n times as often as the last.
        weights = np.arange(len(parents), 0, -1, dtype=np.float64)
        weights /= weights.sum()
        found = [np.empty((0, len(space.axes)), np.int64)]
        missing = count
        for _ in range(MOST_ROUNDS):
            pairs = generator.choice(len(parents), size=(2, CHILDREN_A_POINT * count), p=weights)
            children = cross(parents[pairs[0]], parents[pairs[1]], generator)
            mutants = generator.random(len(children)) < self.mutation
            children = np.where(mutants[:, None], mutate(space, children, generator), children)
            fresh = distinct_new(examine(space, children), taken).take(slice(missing))
            found.append(fresh.points)
            taken = np.concatenate([taken, fresh.programs])
            missing -= len(fresh)
            if not missing:
                return np.concatenate(found)
        return np.concatenate([*found, random_new(space, generator, missing, taken)])

    def _parents(self, history: History, born: int) -> np.ndarray:
        """The points from which the next generation is bred, best first: the last complete generation, and the best
        points (elites) of all earlier generations. `born`: number of trials in all complete generations.
        """
        ranks = np.argsort(history.costs[:born], kind="stable")
        last = ranks[ranks >= born - self.population]
        elites = ranks[ranks < born - self.population][: self.elites]
        chosen = np.concatenate([last, elites])
        return history.points[chosen[np.argsort(history.costs[chosen], kind="stable")]]

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
    """A genetic search. Each `population` trials in a row are a generation. The parents of a new generation are the
    last generation and the `elites` best trials before that generation.

    Parents are drawn with probabilities that fall linearly with their rank. A child takes each axis's value from one of
    two parents; with probability `mutation` it also gets a new value on one axis.
    """

    population: int = 32
    elites: int = 8
    mutation: float = 0.5

    def propose(
        self, space: Space, history: History, generator: np.random.Generator, count: int
    ) -> np.ndarray:
        """Up to `count` legal points [n, axes], made from the best trials by crossover and mutation; none has a program
        that is in the history. Fewer only if the space is exhausted. Raises EmptySpaceError if no point is legal.
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
        """The last complete generation and the elites before it, the best first. `born`: number of trials in all
        complete generations.
        """
        ranks = np.argsort(history.costs[:born], kind="stable")
        last = ranks[ranks >= born - self.population]
        elites = ranks[ranks < born - self.population][: self.elites]
        chosen = np.concatenate([last, elites])
        return history.points[chosen[np.argsort(history.costs[chosen], kind="stable")]]

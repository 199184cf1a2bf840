"""The searches for schedules that benchmarks/tuning.py and tuning_cpu.py compare: the tuner's own search, variants
without one of its parts, and baselines.

The tuner's first points (candidate schedules) are those that the template's cost estimate ranks best; afterwards the
tuner learns a cost model from its measurements. To measure the gain of the learned model, the tuner is compared with
baselines that have the same first points. To measure the gain of the learned model over the estimate alone, the tuner
is compared with a search that only follows the estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.templates.space import Space
from vdla.compiler.tune.search.baselines import RandomSearch
from vdla.compiler.tune.search.cost_model import Samples
from vdla.compiler.tune.search.genetic import GeneticSearch
from vdla.compiler.tune.search.guesses import first_points
from vdla.compiler.tune.search.history import History, Strategy
from vdla.compiler.tune.search.model_search import evolutionary_search
from vdla.compiler.tune.search.point_features import examine

BATCH = 8
"""Number of points (candidate schedules) that a search proposes at a time. The first batch of a search "with first
points" has two random points and those that the template's cost estimate ranks best.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateSearch:
    """A strategy that proposes, after two random candidate schedules, those that the template's cost estimate ranks
    best, in batches; measured costs have no effect.
    """

    def propose(
        self, space: Space, history: History, generator: np.random.Generator, count: int
    ) -> np.ndarray:
        """Up to `count` legal candidates [n, axes] to measure next: random candidates until the history has two, then
        candidates with low estimates. No candidate has the same program as a candidate in `history`. Draws use
        `generator`. Raises EmptySpaceError if no candidate of the space is legal.
        """
        blind = replace(history, costs=np.full(len(history), np.inf))
        return first_points(space, blind, examine(space, history.points), generator, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterFirstPoints:
    """A strategy whose first batch has two random points and those that the template's cost estimate ranks best, like
    the first batch of the tuner's own search; the strategy `rest` proposes all later batches.
    """

    rest: Strategy

    def propose(
        self, space: Space, history: History, generator: np.random.Generator, count: int
    ) -> np.ndarray:
        """Up to `count` legal candidates [n, axes] to measure next. No candidate has the same program as a candidate in
        `history`. Draws use `generator`. Raises EmptySpaceError if no candidate of the space is legal.
        """
        if len(history) < BATCH:
            return first_points(space, history, examine(space, history.points), generator, count)
        return self.rest.propose(space, history, generator, count)


FULL = "evolution"
"""Name of the tuner's own search, the default of `vdla tune`."""


def _full(prior: Sequence[Samples]) -> Strategy:
    return evolutionary_search(prior)


def _without_estimate(prior: Sequence[Samples]) -> Strategy:
    return replace(evolutionary_search(prior), follow_estimate=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One of the searches that benchmarks/tuning.py compares: its label in tables, and a function `make` that creates
    it from samples of other layers (only searches with a learned model use the samples).
    """

    label: str
    make: Callable[[Sequence[Samples]], Strategy]


SEARCHES: Mapping[str, Compared] = {
    "random": Compared(label="random", make=lambda prior: RandomSearch()),
    "genetic": Compared(label="genetic", make=lambda prior: GeneticSearch()),
    "estimate": Compared(label="estimate only", make=lambda prior: EstimateSearch()),
    "random+first": Compared(
        label="random, same first points", make=lambda prior: AfterFirstPoints(rest=RandomSearch())
    ),
    "genetic+first": Compared(
        label="genetic, same first points", make=lambda prior: AfterFirstPoints(rest=GeneticSearch())
    ),
    "model-first": Compared(label="model without first points", make=_without_estimate),
    FULL: Compared(label="full", make=_full),
}
"""Searches by their names in results. "+first": the first batch has two random points and those that the template's
cost estimate ranks best. "model-first": the tuner's learned model with a random first batch; the estimate is only one
of its features.
"""

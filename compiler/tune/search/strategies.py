"""The search strategies by their names in the command line and in records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .baselines import GridSearch, RandomSearch
from .cost_model import CostModel, Samples
from .genetic import GeneticSearch
from .history import Strategy
from .model_search import ModelSearch, evolutionary_search
from .short_list import ShortList
from .thompson_search import ThompsonSearch

StrategyName = Literal["model", "evolution", "thompson", "genetic", "random", "grid"]


LEARNING: frozenset[StrategyName] = frozenset({"model", "evolution", "thompson"})
"""The strategies with a cost model, which need the extra `tune` and may learn from other workloads."""


def strategy_of(
    name: StrategyName,
    prior: Sequence[Samples] = (),
    short_list: ShortList | None = None,
    model: CostModel | None = None,
) -> Strategy:
    """The strategy called `name`.

    The other arguments are for strategies with a cost model; strategies without a model ignore them. `prior`: training
    samples of other workloads. `short_list`: if given, some candidates are lowered before the strategy chooses among
    them. `model`: training parameters of the cost model (None: default).
    """
    model = CostModel() if model is None else model
    match name:
        case "model":
            return ModelSearch(prior=prior, short_list=short_list, model=model)
        case "evolution":
            return evolutionary_search(prior, short_list, model)
        case "thompson":
            return ThompsonSearch(prior=prior, short_list=short_list, model=model)
        case "genetic":
            return GeneticSearch()
        case "random":
            return RandomSearch()
        case "grid":
            return GridSearch()

"""Options common to both kinds of `vdla tune`, and the callbacks of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from vdla.compiler.templates.space import Space
from vdla.compiler.tune.records.record import Record
from vdla.compiler.tune.runs.in_place import Move
from vdla.compiler.tune.runs.session import Trial
from vdla.compiler.tune.search.cost_model import THOROUGH, CostModel
from vdla.compiler.tune.search.strategies import LEARNING, StrategyName

RULES = frozenset({"sketch_cpu"})
"""Spaces that rules made: their features estimate no cost, so that features of programs and more training pay."""

FeatureSet = Literal["account", "program"]
"""Features of cost models: a space's own of points alone, or also those of the lowered programs of a short list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `vdla tune`: `trials` of workloads alone, `in_place` trials of nodes in their network.

    `features` None: the better ones for a space by `benchmarks/cost_model.py`.
    """

    trials: int
    in_place: int
    batch: int
    seed: int
    strategy: StrategyName
    patience: int | None = None
    features: FeatureSet | None = None

    def reads_programs(self, space: Space) -> bool:
        """Whether candidates of a space are lowered before they are chosen."""
        usual = "program" if space.template in RULES else "account"
        return self.strategy in LEARNING and (self.features or usual) == "program"

    def model(self, space: Space) -> CostModel:
        """The cost model that guides searches through a space, with its settings of training."""
        return THOROUGH if space.template in RULES else CostModel()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watchers:
    """Callbacks of a run: records to be written, trials alone, trials in their place, remarks for people.

    `resumed` gets the numbers of trials known from before an interruption.
    """

    write: Callable[[Record], None] = lambda _: None
    trial: Callable[[Trial], None] = lambda _: None
    move: Callable[[Move], None] = lambda _: None
    remark: Callable[[str], None] = lambda _: None
    resumed: Callable[[int], None] = lambda _: None

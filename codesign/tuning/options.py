"""Options common to both kinds of `vdla tune`, and the callbacks of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from vdla.compiler.records.record import Record
from vdla.compiler.templates.space import Space
from vdla.compiler.tune.runs.in_place import Move
from vdla.compiler.tune.runs.session import Trial
from vdla.compiler.tune.search.cost_model import THOROUGH, CostModel
from vdla.compiler.tune.search.strategies import LEARNING, StrategyName

RULES = frozenset({"sketch_cpu"})
"""Spaces made by rules, which have no cost estimate among their features.

For them, features of programs and longer training pay.
"""

FeatureSet = Literal["account", "program"]
"""Features of cost models: "account", only those that a space computes from points; "program", also those of the
lowered programs of a short list.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `vdla tune`: `trials` of workloads alone, `in_place` trials of nodes in their network.

    `features` None: those that are better for a space according to `benchmarks/cost_model.py`.
    """

    trials: int
    in_place: int
    batch: int
    seed: int
    strategy: StrategyName
    patience: int | None = None
    features: FeatureSet | None = None

    def reads_programs(self, space: Space) -> bool:
        """Whether candidates of a space are lowered before they are selected."""
        usual = "program" if space.template in RULES else "account"
        return self.strategy in LEARNING and (self.features or usual) == "program"

    def model(self, space: Space) -> CostModel:
        """The cost model that guides searches through a space, with its settings of training."""
        return THOROUGH if space.template in RULES else CostModel()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watchers:
    """Callbacks of a run: for records to write, trials of workloads alone, trials in place, and remarks to users.

    `resumed` gets the number of trials that are known from before an interruption.
    """

    write: Callable[[Record], None] = lambda _: None
    trial: Callable[[Trial], None] = lambda _: None
    move: Callable[[Move], None] = lambda _: None
    remark: Callable[[str], None] = lambda _: None
    resumed: Callable[[int], None] = lambda _: None

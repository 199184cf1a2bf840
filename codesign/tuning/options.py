"""Options and callbacks of a run of `vdla tune`, for all targets."""

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
"""Names of spaces that are made by rules: they have no cost estimate among their features.

For such spaces, features of programs and longer training of the cost model are worth their time.
"""

FeatureSet = Literal["account", "program"]
"""Features of cost models: "account", only those that a space computes from points; "program", also those of the
lowered programs of a short list.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `vdla tune`: `trials` of workloads alone, `in_place` trials of nodes in their network.

    With `features` None, the set that is better for the space according to `benchmarks/cost_model.py` is used.
    """

    trials: int
    in_place: int
    batch: int
    seed: int
    strategy: StrategyName
    patience: int | None = None
    features: FeatureSet | None = None

    def reads_programs(self, space: Space) -> bool:
        """Whether candidates of a space are lowered before they are selected, because the cost model uses features of
        programs.
        """
        usual = "program" if space.template in RULES else "account"
        return self.strategy in LEARNING and (self.features or usual) == "program"

    def model(self, space: Space) -> CostModel:
        """The cost model that guides searches in a space."""
        return THOROUGH if space.template in RULES else CostModel()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watchers:
    """Callbacks of a run: `write` gets records, `trial` trials of workloads alone, `move` trials inside the network,
    `remark` sentences for users.

    `resumed` gets the number of trials that were made before an interruption.
    """

    write: Callable[[Record], None] = lambda _: None
    trial: Callable[[Trial], None] = lambda _: None
    move: Callable[[Move], None] = lambda _: None
    remark: Callable[[str], None] = lambda _: None
    resumed: Callable[[int], None] = lambda _: None

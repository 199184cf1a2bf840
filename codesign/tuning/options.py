"""Options and callbacks of a run of `vdla tune`, for all targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from vdla.compiler.records.record import Record
from vdla.compiler.templates.space import Space
from vdla.compiler.tune.runs.in_place import Move
from vdla.compiler.tune.runs.session import Trial
from vdla.compiler.tune.search.cost_model import THOROUGH, CostModel
from vdla.compiler.tune.search.strategies import LEARNING, StrategyName
from vdla.util.errors import UserError

RULES = frozenset({"sketch_cpu"})
"""Names of schedule spaces that rules generate; all other spaces are written by hand as templates. Generated spaces
have no cost estimate that the cost model could use as a feature. For these spaces it is therefore worth the time to
compute features of lowered programs, and to train the cost model longer.
"""

RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "trials": (1, 10_000_000),
        "in_place": (0, 10_000_000),
        "batch": (1, 4096),
        "seed": (0, (1 << 63) - 1),
        "patience": (1, 10_000_000),
        "workers": (0, 1024),
        "timeout": (0.1, 86_400),
    }
)
"""The least and the greatest value of each number that users give to the tuner. `timeout` is in seconds, at
most a day.
"""

FeatureSet = Literal["account", "program"]
"""Features from which cost models learn. "account": features of a candidate's knobs, computed without lowering it;
"program": in addition, features of the lowered programs of a short list of candidates.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `vdla tune`. `trials`: number of trials in which workloads are measured alone. `in_place`: number of
    trials in which schedules of nodes are measured in the whole network. `batch`: number of trials of a workload that
    are chosen at a time. `patience`: number of trials without improvement after which a workload is done (None: no
    limit).

    With `features` None, the feature set ("account" or "program") that is better for the space according to
    `benchmarks/cost_model.py` is used.
    """

    trials: int
    in_place: int
    batch: int
    seed: int
    strategy: StrategyName
    patience: int | None = None
    features: FeatureSet | None = None

    def reads_programs(self, space: Space) -> bool:
        """Whether the cost model uses features of programs, so that candidates of the space are lowered before some are
        selected for trials.
        """
        usual = "program" if space.template in RULES else "account"
        return self.strategy in LEARNING and (self.features or usual) == "program"

    def model(self, space: Space) -> CostModel:
        """The cost model that guides searches in the schedule space `space`."""
        return THOROUGH if space.template in RULES else CostModel()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watchers:
    """Callbacks of a run of `vdla tune`. `trial` is called after each trial in which a workload was measured alone,
    `move` after each trial in which the whole network was measured. `write` is called with each record, and `remark`
    with sentences for users.

    `resumed` is called with the number of trials that were made before an interruption: once for workloads alone and,
    for a network on the accelerator, once for trials in the whole network.
    """

    write: Callable[[Record], None] = lambda _: None
    trial: Callable[[Trial], None] = lambda _: None
    move: Callable[[Move], None] = lambda _: None
    remark: Callable[[str], None] = lambda _: None
    resumed: Callable[[int], None] = lambda _: None


def check_numbers(**given: float | None) -> None:
    """Raises UserError if a number is outside of its range in `RANGES`. `given`: numbers by name; None is not checked,
    since it stands for a default.
    """
    for name, number in given.items():
        least, most = RANGES[name]
        if number is not None and not least <= number <= most:
            raise UserError(f"{name.replace('_', '-')} = {number}; give a number from {least:,} to {most:,}")

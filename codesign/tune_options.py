"""What both kinds of `vdla tune` are asked for, and who is told of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vdla.compiler.tune.records.record import Record
from vdla.compiler.tune.runs.in_place import Move
from vdla.compiler.tune.runs.session import Trial
from vdla.compiler.tune.search.strategies import StrategyName


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `vdla tune` was asked for: `trials` of workloads alone, `in_place` trials of nodes in their network."""

    trials: int
    in_place: int
    batch: int
    seed: int
    strategy: StrategyName
    patience: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watchers:
    """Who is told of a run as it goes: records to be kept, trials alone, trials in their place, remarks for people.

    `resumed` gets the numbers of trials that are known from before the run was interrupted.
    """

    write: Callable[[Record], None] = lambda _: None
    trial: Callable[[Trial], None] = lambda _: None
    move: Callable[[Move], None] = lambda _: None
    remark: Callable[[str], None] = lambda _: None
    resumed: Callable[[int], None] = lambda _: None

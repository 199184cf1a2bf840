"""Reading the features of points: what a search calls for the few candidates that it lowers before it measures."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ...ir.stmt import Program
from ...schedule import LegalityError
from ...templates.registry import Registry, TargetT, WorkloadT
from ...templates.space import Values
from ..measure.measure_vdla import NOT_LOWERED, AcceleratorTask, link_lowered, lower
from .machine import MACHINE_FEATURES, machine_features
from .program import FEATURES, Read, program_features

KEPT = 1 << 14
"""Points of which a reader keeps the features, some kilobytes each."""


def kept(read: Read) -> Read:
    """As `read`, reading each point once."""

    @lru_cache(maxsize=KEPT)
    def of(items: tuple[tuple[str, int], ...]) -> np.ndarray:
        return read(dict(items))

    return lambda values: of(tuple(values.items()))


def read_scheduled(schedule: Callable[[Values], Program]) -> Read:
    """`program_features` of what `schedule` makes of values. A LegalityError that it raises is a point without."""

    def read(values: Values) -> np.ndarray:
        try:
            return program_features(schedule(values))
        except LegalityError:
            return np.full(len(FEATURES), np.nan)

    return kept(read)


def read_points(registry: Registry[TargetT, WorkloadT], target: TargetT, workload: WorkloadT) -> Read:
    """`program_features` of a workload's points on a target with these templates."""
    program = workload.program()
    return read_scheduled(lambda values: registry.schedule(target, workload, values, program).program)


def read_vdla(task: AcceleratorTask) -> Read:
    """`program_features` of a workload's points on the accelerator, then `machine_features` of their instructions."""

    def read(values: Values) -> np.ndarray:
        try:
            lowered = lower(task, values)
            words = link_lowered(task, lowered).instructions
        except NOT_LOWERED:
            return np.full(len(FEATURES) + len(MACHINE_FEATURES), np.nan)
        return np.concatenate([program_features(lowered), machine_features(task.config, words)])

    return kept(read)

"""Readers: functions that return the program features of a point. A search lowers a few candidates before it measures,
and reads their features.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ...ir.stmt import Program
from ...schedule import LegalityError
from ...templates.columns import Values
from ...templates.registry import KernelT, Registry, TargetT
from ..measure.measure_vdla import NOT_LOWERED, AcceleratorTask, link_lowered, lower
from .machine import MACHINE_FEATURES, machine_features
from .program import FEATURES, Read, program_features

KEPT = 1 << 14
"""Largest number of points in a reader's cache; the features of a point take some kilobytes."""


def kept(read: Read) -> Read:
    """The reader `read` with a cache for the `KEPT` points that were used last."""

    @lru_cache(maxsize=KEPT)
    def of(items: tuple[tuple[str, int], ...]) -> np.ndarray:
        return read(dict(items))

    return lambda values: of(tuple(values.items()))


def read_scheduled(schedule: Callable[[Values], Program]) -> Read:
    """A function from the knob values of a point to the `program_features` of the program `schedule(values)`. All
    features are NaN if `schedule` raises LegalityError.
    """

    def read(values: Values) -> np.ndarray:
        try:
            return program_features(schedule(values))
        except LegalityError:
            return np.full(len(FEATURES), np.nan)

    return kept(read)


def read_points(registry: Registry[TargetT, KernelT], target: TargetT, workload: KernelT) -> Read:
    """A function from the knob values of a point to the `program_features` of `workload`, scheduled for `target` with
    these knobs. `registry` has the templates.
    """
    program = workload.program()
    return read_scheduled(lambda values: registry.schedule(target, workload, values, program).program)


def read_vdla(task: AcceleratorTask) -> Read:
    """A function from the knob values of a point to the features of a task's program on the accelerator: first its
    `program_features`, then its `machine_features`. All are NaN if the point cannot be lowered.
    """

    def read(values: Values) -> np.ndarray:
        try:
            lowered = lower(task, values)
            words = link_lowered(task, lowered).instructions
        except NOT_LOWERED:
            return np.full(len(FEATURES) + len(MACHINE_FEATURES), np.nan)
        return np.concatenate([program_features(lowered), machine_features(task.config, words)])

    return kept(read)

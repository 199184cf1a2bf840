"""The description of a formal proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .bench import Bench
from .faults import Fault, Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Properties of one component, proven together by k-induction.

    `component`: its name and parametrization. `build`: makes the bench from modules that a `Load` function imports.
    `depth`: the k of the induction. `search`: number of cycles within which all covers are reached and all seeded
    faults are found.
    """

    component: str
    build: Callable[[Load], Bench]
    depth: int
    search: int
    faults: tuple[Fault, ...]

"""What a proof is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .bench import Bench
from .faults import Fault, Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Properties of one component, proven together by k-induction.

    `component` says which, and in which parametrization. `build` makes the bench from modules that it gets by `Load`.
    `depth` is k; all covers are reached, and all counterexamples to faults end, within `search` cycles.
    """

    component: str
    build: Callable[[Load], Bench]
    depth: int
    search: int
    faults: tuple[Fault, ...]

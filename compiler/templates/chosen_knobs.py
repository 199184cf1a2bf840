"""Knobs that records choose for kernels when a network is compiled, and what becomes of those that come to nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..codegen.cpu import errors as cpu_errors
from ..codegen.cuda import errors as cuda_errors
from ..ir.verify import VerifyError
from ..schedule import LegalityError
from .space import Space, Values, knobs_obstacle

Workload = TypeVar("Workload")
Made = TypeVar("Made")

UNUSABLE = (
    LegalityError,
    VerifyError,
    cpu_errors.LoweringError,
    cuda_errors.LoweringError,
    cuda_errors.CompileError,
)
"""What is raised where a kernel cannot be scheduled, verified, lowered or compiled as its knobs say."""


def take_first(_: Sequence[Any]) -> int:
    """The first one: what is taken without records."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenKnobs(Generic[Workload]):
    """Knobs for workloads; `applied` and `ignored` list the workloads that had some, and why these were ignored.

    `choose` finds them, as in records of a tuner; None or empty ones are the template's own choice. `compare` decides
    which of the workloads that compute the same is the fastest, by its index. One object serves one compilation, whose
    caller reads the lists afterwards.
    """

    choose: Callable[[Workload], Values | None]
    compare: Callable[[Sequence[Workload]], int] = take_first
    applied: list[Workload] = field(default_factory=list)
    ignored: list[tuple[Workload, str]] = field(default_factory=list)

    def made(
        self, workload: Workload, space: Callable[[Workload], Space], make: Callable[[Values], Made]
    ) -> Made | None:
        """What `make` makes of the knobs chosen for a workload; None where there are none, or where they are ignored.

        That is where they are no legal point of its `space`, and where a point only looked legal: what comes of it
        cannot be compiled. The network runs then, if not as fast.
        """
        values = self.choose(workload)
        if not values:
            return None
        obstacle = knobs_obstacle(space(workload), values)
        if obstacle is None:
            try:
                result = make(values)
            except LegalityError as error:
                obstacle = error.reason
            except UNUSABLE as error:
                obstacle = str(error).splitlines()[0]
            else:
                self.applied.append(workload)
                return result
        self.ignored.append((workload, obstacle))
        return None

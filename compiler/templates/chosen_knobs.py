"""Supplies the kernels of a network with knobs from tuning records, and with default knobs if the recorded knobs are
illegal or fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..codegen.cpu import errors as cpu_errors
from ..codegen.cuda import errors as cuda_errors
from ..ir.verify import VerifyError
from ..schedule import LegalityError
from .columns import Values
from .space import Space, knobs_obstacle

Workload = TypeVar("Workload")
ResultT = TypeVar("ResultT")

UNUSABLE = (
    LegalityError,
    VerifyError,
    cpu_errors.LoweringError,
    cuda_errors.LoweringError,
    cuda_errors.CompileError,
)
"""Exceptions that mean that a kernel cannot be scheduled, verified, lowered or compiled with its knobs."""


def take_first(_: Sequence[Any]) -> int:
    """Returns index 0: the default of `ChosenKnobs.compare`, for compilations without tuning records."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenKnobs(Generic[Workload]):
    """Knobs chosen for the workloads of one compilation.

    `choose`: returns the knobs of a workload, for example from tuning records; if it returns None or an empty mapping,
    the template's default is used. `compare`: returns the index of the fastest of several workloads with equal results.
    The compilation fills two lists for its caller: `applied`, the workloads whose chosen knobs were used, and
    `ignored`, the workloads whose knobs were not used, each with the reason.
    """

    choose: Callable[[Workload], Values | None]
    compare: Callable[[Sequence[Workload]], int] = take_first
    applied: list[Workload] = field(default_factory=list)
    ignored: list[tuple[Workload, str]] = field(default_factory=list)

    def build(
        self, workload: Workload, space: Callable[[Workload], Space], make: Callable[[Values], ResultT]
    ) -> ResultT | None:
        """The result of `make` with the knobs chosen for a workload; None if no knobs are chosen or they are ignored.

        Knobs are ignored if they are no legal point of the `space`, or if the kernel fails to compile with them. The
        network then runs with default knobs, perhaps slower.
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

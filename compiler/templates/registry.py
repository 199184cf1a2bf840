"""A registry of templates for one kind of target; the tuner uses templates through this interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ..ir.stmt import Program
from ..schedule import Schedule
from .columns import Values
from .space import Space
from .template import NO_BOUNDS, Template


class Target(Protocol):
    """The interface of a target for tuning records. Implementations are dataclasses."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def described(self) -> dict[str, Any]:
        """The target as a JSON object: kind, name, and a digest of all properties that schedules depend on."""
        ...


TargetT = TypeVar("TargetT", bound=Target)


class Workload(Protocol):
    """A complete description of an operator, as data; equal workloads share tuning records."""

    @property
    def template(self) -> str:
        """The name of the template that schedules the workload."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The workload as a JSON object."""
        ...

    def __hash__(self) -> int: ...


class KernelWorkload(Workload, Protocol):
    """A workload that can build its tensor expression."""

    def program(self) -> Program:
        """The tensor expression of the workload."""
        ...


WorkloadT = TypeVar("WorkloadT", bound=Workload)
KernelT = TypeVar("KernelT", bound=KernelWorkload)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Templates(Generic[TargetT, WorkloadT]):
    """The templates of a kind of target.

    `named(name)`: the template with that name; raises KeyError for an unknown name. `read(object)`: the workload that a
    JSON object describes; raises WorkloadError for an invalid object.
    """

    named: Callable[[str], Template[TargetT, Any, Any]]
    read: Callable[[Mapping[str, Any]], WorkloadT]

    def space(self, target: TargetT, workload: WorkloadT) -> Space:
        """The knob space of the workload's template; costs are cycles on the accelerator, seconds elsewhere."""
        return self.named(workload.template).space(target, workload)

    def default(self, target: TargetT, workload: WorkloadT) -> dict[str, int]:
        """The knob values of the default point of the workload's template."""
        return self.named(workload.template).default(target, workload)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Registry(Templates[TargetT, KernelT]):
    """The templates of a kind of target by name, with a method that schedules the tensor expression of any workload."""

    def schedule(
        self,
        target: TargetT,
        workload: KernelT,
        values: Values | None = None,
        program: Program | None = None,
    ) -> Schedule:
        """`program` (None: the workload's own program) scheduled with the values of a point (setting of the knobs);
        None or no values: the template's default.

        `program` may be the workload's own program with more fused operators.
        """
        expression = workload.program() if program is None else program
        template = self.named(workload.template)
        return template.schedule(target, workload, expression, values or NO_BOUNDS)

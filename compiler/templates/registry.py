"""The templates of one kind of target, and what a tuner asks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ..ir.stmt import Program
from ..schedule import Schedule
from .space import Space, Values
from .template import NO_BOUNDS, Template


class Target(Protocol):
    """What kernels are scheduled for, as records know it."""

    @property
    def described(self) -> dict[str, Any]:
        """A JSON object: its kind, what names it, and a digest of all that schedules depend on."""
        ...


TargetT = TypeVar("TargetT", bound=Target)


class Workload(Protocol):
    """An operator described completely, as data; equal ones are one."""

    @property
    def template(self) -> str:
        """The name of the template that schedules it."""
        ...

    def program(self) -> Program:
        """What it computes."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The workload as a JSON object."""
        ...


WorkloadT = TypeVar("WorkloadT", bound=Workload)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Registry(Generic[TargetT, WorkloadT]):
    """The templates of a kind of target by name, as `template.table_of` lists them.

    `read` makes a workload of its JSON object; WorkloadError for an object that is none.
    """

    templates: Mapping[str, Template[TargetT, Any, Program]]
    read: Callable[[Mapping[str, Any]], WorkloadT]

    def space(self, target: TargetT, workload: WorkloadT) -> Space:
        """All settings of the knobs that the workload's template has; costs are seconds."""
        return self.templates[workload.template].space(target, workload)

    def default(self, target: TargetT, workload: WorkloadT) -> dict[str, int]:
        """The point of the template's own choice, see `Template.default`."""
        return self.templates[workload.template].default(target, workload)

    def schedule(
        self,
        target: TargetT,
        workload: WorkloadT,
        values: Values | None = None,
        program: Program | None = None,
    ) -> Schedule:
        """`program`, the workload's (None) or that with more fused to it, with the values of a point.

        None, or no values: the template's own choice.
        """
        expression = workload.program() if program is None else program
        template = self.templates[workload.template]
        return template.schedule(target, workload, expression, values or NO_BOUNDS)

"""Builds templates for GPUs from their parts: default knobs, a cost model of all knobs, and a schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from ...codegen.cuda.machine import GpuTarget
from ...ir.stmt import Program
from ...schedule import Schedule
from ..columns import Columns, Values
from ..space import Axis, CostEstimates, Space, space_of_axes
from ..template import Template
from .traffic import moved_bytes
from .workload import CudaTemplate, CudaWorkload

SizesT = TypeVar("SizesT")
KnobsT = TypeVar("KnobsT")
GpuTemplate: TypeAlias = Template[GpuTarget, CudaWorkload, Program]
"""The type of templates for GPUs: the expression that they schedule is always the workload's program, with all fused
operators.
"""
SLACK = 4.0
"""For products in tiles: the search leaves out each point (setting of the knobs) whose lower bound on cost is more than
`SLACK` times the least lower bound in the space. Lower bounds differ only by work on elements outside of the result.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tuned(Generic[SizesT, KnobsT]):
    """A template with knobs.

    `sizes`: returns the part of a workload on which knobs and costs depend. `axes`: the axes of the knobs' space.
    `cost`: the cost model of points (settings of the knobs), in seconds. `choose`: returns the default knobs.
    `knobs`: converts a point's values to knobs; `values`: converts knobs to a point's values. `schedule`: schedules the
    workload's expression with knobs.

    `floor_values`: values of some axes at which points have the smallest lower bound on their cost, for
    `space_of_axes`. Without `floor_values`, kernels are taken to have no reuse, and the lower bound of all costs is the
    time to move every parameter once.
    """

    name: CudaTemplate
    sizes: Callable[[CudaWorkload], SizesT]
    axes: Callable[[SizesT], tuple[Axis, ...]]
    cost: Callable[[GpuTarget, SizesT, Columns], CostEstimates]
    choose: Callable[[GpuTarget, SizesT], KnobsT]
    knobs: Callable[[SizesT, Values], KnobsT]
    values: Callable[[SizesT, KnobsT], dict[str, int]]
    schedule: Callable[[GpuTarget, CudaWorkload, KnobsT], Schedule]
    floor_values: Values | None = None

    def space(self, target: GpuTarget, workload: CudaWorkload) -> Space:
        """All settings of the knobs. For a template with `floor_values`, raises ValueError if no setting with these
        values is legal.
        """
        return self.space_of(target, self.sizes(workload), moved_bytes(workload.expression))

    def space_of(self, target: GpuTarget, sizes: SizesT, moved: int = 0) -> Space:
        """The search space of a workload with these `sizes`. `moved`: bytes of the workload's parameters, from which
        the space gets its lower bound on time.
        """
        axes, cost = self.axes(sizes), partial(self.cost, target, sizes)
        if self.floor_values is not None:
            return space_of_axes(self.name, axes, cost, SLACK, self.floor_values)
        # The bound counts only the bytes that every program moves, so it excludes no point.
        floor = moved / target.memory_bandwidth
        return Space(template=self.name, axes=axes, cost=cost, floor=floor, slack=1.0)

    def default(self, target: GpuTarget, workload: CudaWorkload) -> dict[str, int]:
        """The knob values of the template's default, as a point of the search space."""
        sizes = self.sizes(workload)
        return self.values(sizes, self.choose(target, sizes))

    def knobs_at(self, workload: CudaWorkload, values: Values) -> KnobsT:
        """Converts the values of a point of the search space (a setting of its axes) to knobs."""
        return self.knobs(self.sizes(workload), values)

    def scheduled(self, target: GpuTarget, workload: CudaWorkload, _: Program, values: Values) -> Schedule:
        """The workload's expression, scheduled with the knobs of a point of the search space or, without `values`, with
        the default knobs.
        """
        sizes = self.sizes(workload)
        knobs = self.knobs(sizes, values) if values else self.choose(target, sizes)
        return self.schedule(target, workload, knobs)

    @property
    def template(self) -> GpuTemplate:
        """This description as a `Template`, for the table of templates."""
        return Template(name=self.name, space=self.space, choice=self.default, schedule=self.scheduled)


def own_program(workload: CudaWorkload) -> Program:
    """Returns the workload's program. Templates whose costs depend on the whole program use this function as
    `Tuned.sizes`.
    """
    return workload.expression


def by_name(kind: Callable[..., KnobsT]) -> Callable[[Any, Values], KnobsT]:
    """Returns a function for `Tuned.knobs`, which converts the values of a point of the search space to knobs. `kind`:
    the dataclass of the knobs, whose fields have the names of the axes of the search space.
    """
    return lambda _, values: kind(**values)


def fields_of(axes: tuple[Axis, ...]) -> Callable[[Any, Any], dict[str, int]]:
    """Returns a function for the field `Tuned.values`: the function converts knobs to the values of a point of the
    search space. Each of `axes` must have the name of a field of the knobs.
    """
    return lambda _, knobs: {axis.name: int(getattr(knobs, axis.name)) for axis in axes}

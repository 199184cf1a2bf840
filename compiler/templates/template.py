"""The protocol of templates, on every target: the space of a workload's knobs with its cost model, and a schedule.

A template is a value. Each target has one explicit table of its templates (`table_of`); nothing registers itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np

from ..schedule import Schedule
from .space import AT_ONCE, ESTIMATE, EmptySpaceError, Space, Values

TargetT = TypeVar("TargetT")
WorkloadT = TypeVar("WorkloadT")
ExpressionT = TypeVar("ExpressionT")
TemplateT = TypeVar("TemplateT", bound="Template[Any, Any, Any]")

NO_BOUNDS: Values = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Template(Generic[TargetT, WorkloadT, ExpressionT]):
    """How one kind of operator is scheduled on one kind of target.

    `space(target, workload)` holds all settings of the knobs, the template's one cost model, and among all settings the
    few from which a default is taken (`Space.candidates`). `schedule(target, workload, expression, values)` is the
    workload's tensor expression scheduled with the values of a point. The expression may hold more than the workload
    says, such as constants or operators that were fused to it; none of that changes what a point means.
    """

    name: str
    space: Callable[[TargetT, WorkloadT], Space]
    schedule: Callable[[TargetT, WorkloadT, ExpressionT, Values], Schedule]

    def default(self, target: TargetT, workload: WorkloadT, most: Values = NO_BOUNDS) -> dict[str, int]:
        """The values of the candidate of least cost; those of axes in `most` are at most so large.

        Raises EmptySpaceError where no candidate keeps to the limits.
        """
        return cheapest(self.space(target, workload), most)


def table_of(*templates: TemplateT) -> Mapping[str, TemplateT]:
    """The templates of a target by name. ValueError for two of one name."""
    table = {template.name: template for template in templates}
    if len(table) < len(templates):
        names = [template.name for template in templates]
        raise ValueError(f"two templates are called {next(n for n in names if names.count(n) > 1)!r}")
    return MappingProxyType(table)


def cheapest(space: Space, most: Values = NO_BOUNDS) -> dict[str, int]:
    """The values of the point of least cost among a space's first candidates of which one is legal.

    Candidates come in groups, and a group counts only where no point of an earlier one keeps to the limits. The cost is
    the cost model's estimate; of equal costs the first counts. Limits of searches do not bind. `most` bounds the values
    of axes; a group without values that small is left out. Raises EmptySpaceError, with the limit that excluded the
    last points.
    """
    violated: str | None = None
    for group in space.candidates:
        choices = [
            [
                value
                for value in group.get(axis.name, axis.values)
                if value <= most.get(axis.name, axis.values[-1])
            ]
            for axis in space.axes
        ]
        if not all(choices):
            continue
        grids = np.meshgrid(*(np.array(values, dtype=np.int64) for values in choices), indexing="ij")
        columns = {axis.name: grid.ravel() for axis, grid in zip(space.axes, grids, strict=True)}
        found = _least(space, columns)
        if isinstance(found, dict):
            return found
        violated = found
    if violated is None:
        raise ValueError(f"{space.template}: no candidates for a default")
    raise EmptySpaceError(f"{space.template}: no setting of the knobs keeps to {violated}")


def _least(space: Space, columns: Mapping[str, np.ndarray]) -> dict[str, int] | str:
    """The values of the legal point of least cost; the limit that excludes the last of them where none is legal."""
    count = len(next(iter(columns.values())))
    least, best, violated = np.inf, -1, ""
    for begin in range(0, count, AT_ONCE):
        part = {name: column[begin : begin + AT_ONCE] for name, column in columns.items()}
        account = space.account(part)
        legal = np.ones(len(account.bound), dtype=bool)
        for name, kept in account.limits.items():
            if legal.any() and not (legal & kept).any():
                violated = name
            legal &= kept
        cost = np.where(legal, account.quantities[ESTIMATE], np.inf)
        if cost.min() < least:
            best = begin + int(cost.argmin())
            least = cost[best - begin]
    if best < 0:
        return violated
    return {name: int(column[best]) for name, column in columns.items()}

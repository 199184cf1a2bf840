"""The protocol of templates, on every target: the space of a workload's knobs with its cost model, and a schedule.

A template is a value. Each target has one explicit table of its templates (`table_of`); nothing registers itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np

from ..schedule import Schedule
from .columns import ESTIMATE, Columns, Values
from .space import AT_ONCE, EmptySpaceError, Space

TargetT = TypeVar("TargetT")
WorkloadT = TypeVar("WorkloadT")
ExpressionT = TypeVar("ExpressionT")
TemplateT = TypeVar("TemplateT", bound="Template[Any, Any, Any]")

NO_BOUNDS: Values = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Template(Generic[TargetT, WorkloadT, ExpressionT]):
    """A template: the schedule of one kind of operator on one kind of target, with its knobs and cost model.

    `space(target, workload)`: all settings of the knobs, the template's cost model, and the candidates for a default
    (`Space.candidates`). `schedule(target, workload, expression, values)`: the tensor expression scheduled with the
    values of a point. The expression may contain more than the workload, such as constants or fused operators, which do
    not change the meaning of a point.

    `choice(target, workload)` exists only if the default is not the candidate of least cost. It returns the values of
    the default point or, if the space lacks this point, of the nearest point of the space; empty if the space has no
    point. With empty `values`, `schedule` uses the point that `choice` returns.
    """

    name: str
    space: Callable[[TargetT, WorkloadT], Space]
    schedule: Callable[[TargetT, WorkloadT, ExpressionT, Values], Schedule]
    choice: Callable[[TargetT, WorkloadT], dict[str, int]] | None = None

    def default(self, target: TargetT, workload: WorkloadT, most: Values = NO_BOUNDS) -> dict[str, int]:
        """Knob values of the template's default point (setting of all knobs): its `choice`, or the candidate of least
        cost.

        `most`: largest values of axes, by name, that a candidate may have; a `choice` ignores them. Raises
        EmptySpaceError if no candidate is legal.
        """
        if self.choice is not None:
            return self.choice(target, workload)
        return cheapest(self.space(target, workload), most)

    def violated(self, target: TargetT, workload: WorkloadT) -> str | None:
        """The memory limit that a workload's smallest point (first knob values) violates on this target, or None."""
        try:
            return next(iter(self.space(target, workload).violated_capacities()), None)
        except EmptySpaceError as error:
            return error.limit

    def fits(self, target: TargetT, workload: WorkloadT) -> bool:
        """Whether the smallest point of a workload's space (first knob values) fits the target's memories."""
        return self.violated(target, workload) is None


def table_of(*templates: TemplateT) -> Mapping[str, TemplateT]:
    """The templates of a target by name. Raises ValueError if two templates have the same name."""
    table = {template.name: template for template in templates}
    if len(table) < len(templates):
        names = [template.name for template in templates]
        raise ValueError(f"two templates are called {next(n for n in names if names.count(n) > 1)!r}")
    return MappingProxyType(table)


def cheapest(space: Space, most: Values = NO_BOUNDS) -> dict[str, int]:
    """The values of the default point: the point of least cost in the first group of a space's candidates that has a
    legal point.

    Candidates come in groups; a group is used only if no point of an earlier group is legal. The cost is an estimate;
    among equal costs the last point is chosen, since values ascend and larger tiles may save more than the model knows.
    Search limits do not apply. `most`: largest values of axes; a group with only larger values of an axis is skipped.
    Raises EmptySpaceError with the limit that excluded the last points; ValueError if all groups are skipped.
    """
    violated: str | None = None
    for group in space.candidates:
        choices = candidate_values(space, group, most)
        if not all(choices):
            continue
        found = _least(space, choices)
        if isinstance(found, dict):
            return found
        violated = found
    if violated is None:
        raise ValueError(f"{space.template}: no candidates are given for the default settings")
    raise EmptySpaceError(space.template, violated)


def candidate_values(
    space: Space, group: Mapping[str, Sequence[int]], most: Values = NO_BOUNDS
) -> list[list[int]]:
    """Values of each axis in one group of a space's candidates. `most`: largest allowed values, by name of the axis."""
    return [list(_at_most(group.get(axis.name, axis.values), most.get(axis.name))) for axis in space.axes]


def _at_most(values: Sequence[int], bound: int | None) -> Sequence[int]:
    """The ascending `values` that are at most `bound` (None: all)."""
    return values if bound is None else values[: bisect_right(values, bound)]


def _least(space: Space, choices: Sequence[Sequence[int]]) -> dict[str, int] | str:
    """Values, by axis, of the cheapest legal point (setting of the knobs) among all combinations of `choices`
    (candidate values for each axis).

    If no point is legal: the name of the limit that excludes the last point.
    """
    costs, violated = grid_costs(space, choices)
    best = len(costs) - 1 - int(costs[::-1].argmin())
    if costs[best] == np.inf:
        return violated
    indices = np.unravel_index(best, [len(found) for found in choices])
    return {axis.name: found[int(k)] for axis, found, k in zip(space.axes, choices, indices, strict=True)}


def grid_costs(space: Space, choices: Sequence[Sequence[int]]) -> tuple[np.ndarray, str]:
    """Costs, float64 [number of points], of all combinations of `choices` (values for each axis), the last axis
    fastest; and the name of a limit.

    The cost of a point (setting of the knobs) that violates a limit is infinite; search limits do not apply. If all
    points are excluded, the second result names the limit that excluded the last of them, else it has no meaning.
    """
    values = [np.array(found, dtype=np.int64) for found in choices]
    names = [axis.name for axis in space.axes]
    if space.open_grids:
        return _open_costs(space, dict(zip(names, values, strict=True)))
    grids = [grid.ravel() for grid in np.meshgrid(*values, indexing="ij")]
    costs, violated = np.empty(prod(len(found) for found in values)), ""
    for begin in range(0, len(costs), AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        columns = {name: grid[some] for name, grid in zip(names, grids, strict=True)}
        costs[some], violated = _costs(space, columns)
    return costs, violated


def _open_costs(space: Space, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, str]:
    """The results of `grid_costs`: the costs of all combinations of `values` (an array for each axis), the last axis
    fastest; and the name of the limit that excluded the last point, or "".

    Columns broadcast against each other. The longest column lies along the last dimension, so that numpy's inner loops
    are long.
    """
    several = [name for name, column in values.items() if len(column) > 1]
    order = sorted(several, key=lambda name: len(values[name]))
    dimension = {name: k for k, name in enumerate(order)}
    sizes = np.ones((len(values), len(order)), dtype=np.int64)
    for row, (name, column) in enumerate(values.items()):
        if name in dimension:
            sizes[row, dimension[name]] = len(column)
    columns = {
        name: column.reshape(size)
        for (name, column), size in zip(values.items(), sizes.tolist(), strict=True)
    }
    costs, violated = _costs(space, columns)
    costs = np.broadcast_to(costs, [len(values[name]) for name in order])
    return costs.transpose([dimension[name] for name in several]).ravel(), violated


def _costs(space: Space, columns: Columns) -> tuple[np.ndarray, str]:
    """Costs of points (settings of the knobs), infinite for points that violate a limit. If all points are excluded,
    the second result names the limit that excluded the last of them, else it is empty.
    """
    estimates = space.cost(columns)
    legal, violated = np.ones((), dtype=bool), ""
    for name, kept in estimates.limits.items():
        before, legal = legal, legal & kept
        if before.any() and not legal.any():
            violated = name
    return np.where(legal, estimates.quantities[ESTIMATE], np.inf), violated

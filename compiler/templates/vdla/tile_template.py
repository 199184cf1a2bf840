"""Templates whose programs are written loop by loop for given tile sizes, instead of by schedule primitives: softmax
and normalization (`rows`), `attention`, and products with a normalization (`normed`). The knobs are tile sizes and
numbers of copies of buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from vdla.isa.config import Config

from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.post import PLAIN, Post
from ..columns import ESTIMATE, Columns, Values, one_point
from ..space import Axis, CostEstimates, Space
from .estimate import FITTED, Fitted
from .template import Details, Expression, VdlaTemplate, space_of, template_of
from .tile_space import balanced_sizes
from .workload import Workload

Build = Callable[[Values], Program]
"""A function that writes the program of an operator for the tile sizes of a point (setting of the knobs)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledExpression(Expression):
    """An operator whose program depends on tile sizes: `program` has the smallest tiles, and `build` writes the program
    for other tile sizes.
    """

    build: Build

    @staticmethod
    def of(config: Config, workload: Workload, build: Build, post: Post = PLAIN) -> TiledExpression:
        """The expression of an operator with this workload, whose programs `build` writes."""
        return TiledExpression(program=build(_smallest(space_of(config, workload))), post=post, build=build)


def tile_template(
    name: str,
    axes: Callable[[Config, Workload], tuple[Axis, ...]],
    cost: Callable[[Config, Workload, Columns, Fitted], CostEstimates],
    build: Callable[[Config, Workload, Post, str], Build],
    *,
    balanced: tuple[str, ...] = (),
    copies: Mapping[str, str] = MappingProxyType({}),
) -> VdlaTemplate:
    """A template whose schedule is the program written for the tile sizes of a point.

    `axes`: the knobs of a workload. `cost`: the cost model, whose limits are all memory limits. `build(config,
    workload, post, name)`: returns the function that writes the programs of a workload that is measured without a
    model; `post` and `name` are the programs' post-processing and name. `balanced`: axes whose only candidates for the
    default are the sizes ceil(extent / k). `copies`: maps each knob for a buffer's number of copies to the buffer's
    scratchpad.
    """

    def space(config: Config, workload: Workload) -> Space:
        of = axes(config, workload)

        def estimates(values: Columns) -> CostEstimates:
            return cost(config, workload, values, FITTED)

        smallest = {axis.name: np.array(axis.values[:1]) for axis in of}
        return Space(
            template=name,
            axes=of,
            cost=estimates,
            floor=1.0,
            slack=np.inf,
            capacities=frozenset(estimates(smallest).limits),
            candidates=(
                {axis.name: balanced_sizes(axis.values[-1]) for axis in of if axis.name in balanced},
            ),
        )

    def schedule(config: Config, workload: Workload, expression: Expression, values: Values) -> Schedule:
        if isinstance(expression, TiledExpression):
            return Schedule(expression.build(values))
        return Schedule(build(config, workload, expression.post, expression.program.name)(values))

    def express(config: Config, workload: Workload, details: Details, common: dict[str, Any]) -> Program:
        return build(config, workload, common["post"], common["name"])(_smallest(space(config, workload)))

    return VdlaTemplate(name=name, space=space, schedule=schedule, cost=cost, express=express, copies=copies)


def _smallest(space: Space) -> dict[str, int]:
    return {axis.name: axis.values[0] for axis in space.axes}


def estimated(config: Config, workload: Workload, quantity: str = ESTIMATE) -> float:
    """A quantity of a workload's cost model, by default the estimated cycles, at the default point (setting of the
    knobs) of the workload's template with at most two copies of each buffer.
    """
    template = template_of(workload)
    values = one_point(template.default_for(config, workload, 2))
    return float(template.cost(config, workload, values, FITTED).quantities[quantity][0])

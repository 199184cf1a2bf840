"""Transposed convolutions on a GPU. Outputs that use the same weights form a phase; one tiled product computes all
phases of equal sizes (see `te.ops.gemm_convolution`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...ir.expr import Const
from ...ir.stmt import Assign, For, Program
from ...ir.visit import loops, path_to, walk
from ...schedule import Schedule
from ..columns import Columns, Values
from ..space import CostEstimates, Space
from ..template import Template
from . import gemm
from .conv2d import problem_of
from .flat import bind_nest
from .gemm_cost import Problem, choose_tile
from .tile import Tile, tile_sum
from .tuned import GpuTemplate
from .workload import CudaWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of a transposed convolution: the tile of each matrix product, by the suffix in the names of the product's
    stages.
    """

    tiles: Mapping[str, Tile]


def choose_knobs(target: GpuTarget, program: Program) -> Knobs:
    """The knobs that `schedule` uses by default for `program`: a tile for each of its matrix products."""
    return Knobs(tiles={tag: choose_tile(target, problem_of(program, tag)) for tag in products(program)})


def schedule(target: GpuTarget, program: Program, knobs: Knobs | None = None) -> Schedule:
    """Schedules a transposed convolution, a program of `te.ops.gemm_convolution`, with `knobs` (default:
    `choose_knobs`).

    The parameters W, one for each product, are packed ahead into tiles (`schedule.pack`).
    """
    knobs = knobs or choose_knobs(target, program)
    s = Schedule(program)
    for tag, tile in knobs.tiles.items():
        tile_sum(s, tile, (f"W{tag}",), tag)
    for node in walk(program):
        if isinstance(node, Assign) and node.name.removeprefix("post") not in knobs.tiles:
            _schedule_without_taps(s, program, node.name)
    return s


def products(program: Program) -> list[str]:
    """The suffix of the stage names of each product in the program."""
    starts = [loop.name for loop in loops(program) if loop.name.startswith("gemm.k")]
    return [name.removeprefix("gemm.k") for name in starts]


def _schedule_without_taps(s: Schedule, program: Program, name: str) -> None:
    """Schedules the outputs that statement `name` computes, which have no taps: one thread for each output."""
    around = [node for node in path_to(program, name) if isinstance(node, For)]
    bind_nest(s, [(loop.name, int(loop.extent.value)) for loop in around if isinstance(loop.extent, Const)])


def _space(target: GpuTarget, workload: CudaWorkload) -> Space:
    """The space of tiles; all products use the same tile. Raises ValueError if no output reads an input element."""
    program = workload.expression
    parts = [gemm.TUNED.space_of(target, problem) for problem in _problems(program).values()]
    if not parts:
        raise ValueError(f"{program.name} multiplies nothing: no window reads an input element")
    cost, floor = partial(_cost, parts), sum(part.floor for part in parts)
    return replace(parts[0], template="conv_transpose_cuda", cost=cost, floor=floor)


def _default(target: GpuTarget, workload: CudaWorkload) -> dict[str, int]:
    """The default point of the search space: the default tile of the matrix product with the most work. The default
    tiles of the other products may differ from it.
    """
    problems = _problems(workload.expression).values()
    longest = max(problems, key=lambda p: p.batch * p.rows * p.columns * p.depth)
    return gemm.values_of(choose_tile(target, longest))


def _scheduled(target: GpuTarget, workload: CudaWorkload, _: Program, values: Values) -> Schedule:
    program = workload.expression
    if not values:
        return schedule(target, program)
    tiles = {tag: gemm.tile_at(problem, values) for tag, problem in _problems(program).items()}
    return schedule(target, program, Knobs(tiles=tiles))


TEMPLATE: GpuTemplate = Template(
    name="conv_transpose_cuda", space=_space, choice=_default, schedule=_scheduled
)


def _problems(program: Program) -> dict[str, Problem]:
    return {tag: problem_of(program, tag) for tag in products(program)}


def _cost(parts: Sequence[Space], points: Columns) -> CostEstimates:
    """The cost model's results for all products together: every product must satisfy each limit; costs are added."""
    found = [part.cost(points) for part in parts]

    def total(values: Sequence[np.ndarray]) -> np.ndarray:
        return np.add.reduce(list(values))

    effective = [estimates.effective for estimates in found]
    # A value has no effect if it has no effect on any product.
    alike = {
        name: np.where(
            np.logical_and.reduce([e[name] == effective[0][name] for e in effective]),
            effective[0][name],
            points[name],
        )
        for name in effective[0]
    }
    return CostEstimates(
        limits={
            name: np.logical_and.reduce([estimates.limits[name] for estimates in found])
            for name in found[0].limits
        },
        bound=total([estimates.bound for estimates in found]),
        quantities={
            name: total([estimates.quantities[name] for estimates in found]) for name in found[0].quantities
        },
        effective=alike,
    )

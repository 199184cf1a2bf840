"""Matrix products on a GPU. Products of many rows are computed by tiles in shared memory, products of few rows by a
kernel that reads each element of the matrix once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...ir.stmt import Program
from ...schedule import Schedule
from ..columns import Columns, Values, one_point
from ..space import Axis, CostEstimates
from . import gemm_mma, gemm_wgmma, gemm_wgmma_knobs, gemv
from .gemm_cost import DEPTHS, SPLITS, Problem, choose_tile, estimate_cost, groups_of, problem_of
from .tensor_float import is_rounded
from .tile import Tile, schedule_tile
from .tuned import Tuned
from .workload import CudaTemplate, CudaWorkload

Knobs: TypeAlias = Tile | gemv.Knobs | gemm_mma.Knobs | gemm_wgmma_knobs.Knobs
"""Knobs of a product kernel of any of the four kinds: tiles on CUDA cores, few rows, `mma`, `wgmma`."""


def choose_knobs(target: GpuTarget, program: Program, constants: Sequence[str] = ()) -> Knobs:
    """Default knobs for any program with the stages of `te.ops.product` (copies of the operands, sum "gemm", epilogue
    "post"). `constants`: names of the parameters whose arrays are rearranged into tiles before the kernel runs.
    """
    if gemm_wgmma.applies(target, program, constants):
        return gemm_wgmma.default_knobs(target, program, constants)
    if on_tensor_cores(target, program):
        return gemm_mma.choose_knobs(target, gemm_mma.described(program))
    problem = problem_of(program)
    if problem.rows <= gemv.MOST_ROWS:
        return gemv.choose_knobs(target, problem)
    return choose_tile(target, problem)


def schedule(
    target: GpuTarget, program: Program, knobs: Knobs | None = None, *, constants: Sequence[str] = ()
) -> Schedule:
    """Schedules a program of `te.ops.product` with `knobs` (default: `choose_knobs`).

    Factors rounded to tf32 (`tensor_float`), and factors of 16 bits, are multiplied on tensor cores. `constants`:
    parameters, X or W, that are packed ahead by `schedule.pack.pack_arrays`; X is packed for tiles only.
    """
    knobs = knobs or choose_knobs(target, program, constants)
    if isinstance(knobs, Tile):
        return schedule_tile(program, knobs, constants)
    if isinstance(knobs, gemm_wgmma_knobs.Knobs):
        return gemm_wgmma.schedule(target, program, knobs, constants=constants)
    if isinstance(knobs, gemm_mma.Knobs):
        return gemm_mma.schedule(target, program, knobs, constants=constants)
    return gemv.schedule_rows(program, knobs, [name for name in constants if name == "W"])


def on_tensor_cores(target: GpuTarget, program: Program) -> bool:
    """Whether tensor cores compute the product by default: its factors are rounded to tf32, or have 16 bits and the
    target has `mma` instructions.
    """
    return is_rounded(program) or (gemm_mma.is_half(program) and target.has("mma"))


def template_of(target: GpuTarget, program: Program, constants: Sequence[str] = ()) -> CudaTemplate:
    """The default template for `program`, a product of floats. `constants`: names of its constant parameters."""
    if on_tensor_cores(target, program):
        return "gemm_wgmma_cuda" if gemm_wgmma.applies(target, program, constants) else "gemm_mma_cuda"
    return "gemv_cuda" if problem_of(program).rows <= gemv.MOST_ROWS else "gemm_cuda"


AXES = (
    Axis(name="thread_rows", values=(1, 2, 4, 8, 16)),
    Axis(name="thread_columns", values=(1, 2, 4, 8, 16)),
    Axis(name="threads_y", values=(1, 2, 4, 8, 16, 32, 64)),
    Axis(name="threads_x", values=(4, 8, 16, 32, 64)),
    Axis(name="depth", values=(4, *DEPTHS)),
    Axis(name="stages", values=(1, 2, 3, 4, 5)),
    Axis(name="splits", values=SPLITS),
    Axis(name="strided", values=(0, 1)),
)
"""Knobs of the search space. `strided`: whether a thread's rows and columns are cut into vectors that are spread evenly
over the tile, instead of being adjacent.
"""


def tile_at(problem: Problem, values: Values) -> Tile:
    """The tile with the knob `values` of one point of the search space."""
    column = one_point(values)
    return Tile(**{name: int(v[0]) for name, v in _fields(problem, _effective(problem, column)).items()})


def values_of(tile: Tile) -> dict[str, int]:
    """The values of the space's axes for `tile`, in which each group of a thread's rows or columns must be
    one vector.
    """
    y, x = tile.threads
    return {
        "thread_rows": tile.thread_rows,
        "thread_columns": tile.thread_columns,
        "threads_y": y,
        "threads_x": x,
        "depth": tile.depth,
        "stages": tile.stages,
        "splits": tile.splits,
        "strided": 1,
    }


def _effective(problem: Problem, points: Columns) -> dict[str, np.ndarray]:
    """Canonical form of `points` (settings of the knobs): each knob that has no effect at a point is set to a fixed
    value there, so that points with equal programs are equal.
    """
    e = dict(points)
    alike = (
        np.where(problem.along_depth, 1, groups_of(e["thread_rows"])) * groups_of(e["thread_columns"]) == 1
    )
    e["strided"] = np.where(alike, 0, e["strided"])
    part = -(-problem.depth // e["splits"])
    e["stages"] = np.minimum(e["stages"], -(-part // e["depth"]))
    return e


def _fields(problem: Problem, e: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The fields of `Tile`, an array for each, at the points (settings of the knobs) with effective values `e`."""
    one = np.ones_like(e["depth"])
    apart = e["strided"] == 1
    return {
        "rows": e["threads_y"] * e["thread_rows"],
        "columns": e["threads_x"] * e["thread_columns"],
        "depth": e["depth"],
        "thread_rows": e["thread_rows"],
        "thread_columns": e["thread_columns"],
        "row_groups": one if problem.along_depth else np.where(apart, groups_of(e["thread_rows"]), one),
        "column_groups": np.where(apart, groups_of(e["thread_columns"]), one),
        "stages": e["stages"],
        "splits": e["splits"],
    }


def cost_of(target: GpuTarget, problem: Problem, points: Columns) -> CostEstimates:
    """The cost model's results for `points` (settings of the knobs)."""
    e = _effective(problem, points)
    return replace(estimate_cost(target, problem, _fields(problem, e)), effective=e)


FLOOR_VALUES = {"depth": 4, "stages": 1, "splits": 1, "strided": 1}
"""Knob values at which tiles have their smallest lower bound on cost: the space's lower bound is computed at these
values (`Tuned.floor_values`).
"""


def _in_tiles(target: GpuTarget, workload: CudaWorkload, tile: Tile) -> Schedule:
    return schedule_tile(workload.expression, tile, workload.constants)


TUNED = Tuned(
    name="gemm_cuda",
    sizes=lambda workload: problem_of(workload.expression),
    axes=lambda _: AXES,
    cost=cost_of,
    choose=choose_tile,
    knobs=tile_at,
    values=lambda _, tile: values_of(tile),
    schedule=_in_tiles,
    floor_values=FLOOR_VALUES,
)

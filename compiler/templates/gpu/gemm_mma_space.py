"""The space of matrix products on tensor cores: all settings of `gemm_mma_knobs.Knobs` for one size."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.mma_fragments import depth_of
from ...ir.stmt import Program
from ..columns import ESTIMATE, Columns, Values, one_point
from ..space import Account, Axis, Space, space_of_axes
from .gemm_mma import described
from .gemm_mma_knobs import (
    Factors,
    Knobs,
    Points,
    choose_knobs,
    cycles,
    group_of,
    limits,
    precision,
    resident,
    tiles,
)

SLACK = 4.0
"""Largest ratio of a tile's bound to the least bound. Bounds differ only by products outside the result."""
AXES = (
    Axis(name="warp_rows", values=(16, 32, 48, 64, 96, 128)),
    Axis(name="warp_columns", values=(16, 32, 48, 64, 96, 128)),
    Axis(name="warps_y", values=(1, 2, 4, 8)),
    Axis(name="warps_x", values=(1, 2, 4, 8)),
    Axis(name="steps", values=(1, 2, 3, 4, 6, 8)),
    Axis(name="stages", values=(1, 2, 3, 4, 5, 6)),
    Axis(name="splits", values=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32)),
    Axis(name="group", values=(1, 2, 4, 8)),
)
"""Axes of the space: a warp's tile, warps of a block, `mma` steps in the depth of a slice, and the other knobs as they
are.
"""


def space(target: GpuTarget, program: Program) -> Space:
    """The space of programs with the stages of `te.ops.product` and types of an `mma`; costs are seconds."""
    account = partial(_account, target, described(program))
    held = {"steps": 1, "stages": 1, "splits": 1, "group": 1}
    return space_of_axes("gemm_mma_cuda", AXES, account, SLACK, held)


def knobs_of(program: Program, values: Values) -> Knobs:
    """The knobs with the values of a point."""
    factors = described(program)
    columns = one_point(values)
    return _points(factors, columns).at(0)


def default_values(target: GpuTarget, program: Program) -> dict[str, int]:
    """The point of the knobs that `choose_knobs` returns."""
    factors = described(program)
    knobs = choose_knobs(target, factors)
    return {
        "warp_rows": knobs.warp_rows,
        "warp_columns": knobs.warp_columns,
        "warps_y": knobs.warps[0],
        "warps_x": knobs.warps[1],
        "steps": knobs.depth // depth_of(factors.dtype),
        "stages": knobs.stages,
        "splits": knobs.splits,
        "group": knobs.group,
    }


def _points(factors: Factors, columns: Columns) -> Points:
    rows = columns["warp_rows"] * columns["warps_y"]
    return Points(
        rows=rows,
        columns=columns["warp_columns"] * columns["warps_x"],
        depth=columns["steps"] * depth_of(factors.dtype),
        warp_rows=columns["warp_rows"],
        warp_columns=columns["warp_columns"],
        stages=columns["stages"],
        group=group_of(factors, rows, columns["group"]),
        splits=columns["splits"],
    )


def _account(target: GpuTarget, factors: Factors, columns: Columns) -> Account:
    points = _points(factors, columns)
    blocks = tiles(factors, points.rows, points.columns) * points.splits
    slices = -(-factors.depth // (points.depth * points.splits))
    held = np.maximum(1, resident(target, factors, points))
    operations = 2.0 * points.rows * points.columns * points.depth * slices * blocks
    seconds = cycles(target, factors, points) / target.clock
    return Account(
        limits=limits(target, factors, points),
        bound=operations / target.peak(precision(factors.dtype)),
        quantities={
            ESTIMATE: seconds,
            "blocks": blocks.astype(np.float64),
            "slices": slices.astype(np.float64),
            "resident blocks": held.astype(np.float64),
            "operations": operations,
            "tile": (points.rows * points.columns).astype(np.float64),
            "stages": points.stages.astype(np.float64),
        },
        # Stages beyond the number of slices, and groups that do not divide the number of tiles, have no
        # effect.
        effective={**columns, "stages": np.minimum(points.stages, slices), "group": points.group},
    )

"""The space of matrix products by warpgroups: all settings of `gemm_wgmma_knobs.Knobs` with bulk copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.wgmma import SWIZZLES
from ...ir.stmt import Program
from ..columns import ESTIMATE, Columns, Values, one_point
from ..space import Account, Axis, Space, space_of_axes
from .gemm_mma import described
from .gemm_mma_knobs import Factors, group_of, precision, tiles
from .gemm_wgmma import default_knobs
from .gemm_wgmma_knobs import OVERLAPPED, Knobs, Points, cycles, limits, resident

SLACK = 4.0
"""Largest ratio of a tile's bound to the least bound, as in `gemm_mma_space`."""
AXES = (
    Axis(name="group_rows", values=(64, 128)),
    Axis(name="group_columns", values=(16, 32, 48, 64, 96, 128, 160, 192, 256)),
    Axis(name="groups_y", values=(1, 2, 4)),
    Axis(name="groups_x", values=(1, 2, 4)),
    Axis(name="row_bytes", values=tuple(sorted(SWIZZLES))),
    Axis(name="stages", values=(3, 4, 5, 6, 8, 10)),
    Axis(name="splits", values=(1, 2, 3, 4, 6, 8, 12, 16)),
    Axis(name="group", values=(1, 2, 4, 8)),
)
"""Axes of the space: a warpgroup's tile, warpgroups of a block, bytes of a swizzled row (the depth of a slice), and the
other knobs as they are.
"""


def space(target: GpuTarget, program: Program) -> Space:
    """The space of programs for which `gemm_wgmma.applies` is true; costs are seconds."""
    account = partial(_account, target, described(program))
    held = {"stages": OVERLAPPED + 1, "splits": 1, "group": 1}
    return space_of_axes("gemm_wgmma_cuda", AXES, account, SLACK, held)


def knobs_of(program: Program, values: Values) -> Knobs:
    """The knobs with the values of a point."""
    columns = one_point(values)
    return _points(described(program), columns).at(0)


def default_values(target: GpuTarget, program: Program, constants: Sequence[str] = ()) -> dict[str, int]:
    """The point of the knobs that `gemm_wgmma.default_knobs` returns."""
    knobs = default_knobs(target, program, constants)
    down, beside = knobs.groups
    return {
        "group_rows": knobs.group_rows,
        "group_columns": knobs.group_columns,
        "groups_y": down,
        "groups_x": beside,
        "row_bytes": knobs.depth * described(program).dtype.bits // 8,
        "stages": knobs.stages,
        "splits": knobs.splits,
        "group": knobs.group,
    }


def _points(factors: Factors, columns: Columns) -> Points:
    rows = columns["group_rows"] * columns["groups_y"]
    return Points(
        rows=rows,
        columns=columns["group_columns"] * columns["groups_x"],
        depth=columns["row_bytes"] * 8 // factors.dtype.bits,
        group_rows=columns["group_rows"],
        group_columns=columns["group_columns"],
        stages=columns["stages"],
        group=group_of(factors, rows, columns["group"]),
        splits=columns["splits"],
        bulk=True,
    )


def _account(target: GpuTarget, factors: Factors, columns: Columns) -> Account:
    points = _points(factors, columns)
    blocks = tiles(factors, points.rows, points.columns) * points.splits
    slices = -(-factors.depth // (points.depth * points.splits))
    operations = 2.0 * points.rows * points.columns * points.depth * slices * blocks
    return Account(
        limits=limits(target, factors, points),
        bound=operations / target.peak(precision(factors.dtype)),
        quantities={
            ESTIMATE: cycles(target, factors, points) / target.clock,
            "blocks": blocks.astype(np.float64),
            "slices": slices.astype(np.float64),
            "resident blocks": np.maximum(1, resident(target, factors.dtype, points)).astype(np.float64),
            "operations": operations,
            "tile": (points.rows * points.columns).astype(np.float64),
            "stages": points.stages.astype(np.float64),
        },
        # Groups that do not divide the number of tiles have no effect.
        effective={**columns, "group": points.group},
    )

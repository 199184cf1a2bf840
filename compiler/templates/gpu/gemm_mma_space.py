"""The space of matrix products on tensor cores: all settings of `gemm_mma_knobs.Knobs` for one size."""

from __future__ import annotations

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.mma_fragments import depth_of
from ..columns import Columns, one_point
from ..space import Account, Axis
from .gemm_mma import described, schedule
from .gemm_mma_knobs import (
    Factors,
    Knobs,
    choose_knobs,
    cycles,
    group_of,
    limits,
    product_account,
    resident,
    setting,
    slices_of,
)
from .tuned import Tuned

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


def _values(factors: Factors, knobs: Knobs) -> dict[str, int]:
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


def _points(factors: Factors, columns: Columns) -> Knobs:
    rows = columns["warp_rows"] * columns["warps_y"]
    return Knobs(
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
    # Stages beyond the number of slices, and groups that do not divide the number of tiles, have no effect.
    stages = np.minimum(points.stages, slices_of(factors, points))
    found = cycles(target, factors, points), resident(target, factors, points)
    effective = {**columns, "stages": stages, "group": points.group}
    return product_account(target, factors, points, limits(target, factors, points), found, effective)


TUNED = Tuned(
    name="gemm_mma_cuda",
    sizes=lambda workload: described(workload.expression),
    axes=lambda _: AXES,
    account=_account,
    choose=choose_knobs,
    knobs=lambda factors, values: setting(_points(factors, one_point(values)), 0),
    values=_values,
    schedule=lambda target, workload, knobs: schedule(
        target, workload.expression, knobs, constants=workload.constants
    ),
    held={"steps": 1, "stages": 1, "splits": 1, "group": 1},
)

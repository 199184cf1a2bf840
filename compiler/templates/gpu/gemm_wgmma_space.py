"""The space of matrix products by warpgroups: all settings of `gemm_wgmma_knobs.Knobs` with bulk copies."""

from __future__ import annotations

from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.wgmma import SWIZZLES
from ..columns import Columns, one_point
from ..space import Account, Axis
from .gemm_mma_knobs import Factors, group_of, product_account, setting
from .gemm_wgmma import laid, schedule
from .gemm_wgmma_knobs import OVERLAPPED, Knobs, choose_knobs, cycles, limits, resident
from .tuned import Tuned
from .workload import CudaWorkload

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


def _sizes(workload: CudaWorkload) -> tuple[Factors, bool]:
    """The product, and whether bulk copies can fetch its factors."""
    return laid(workload.expression, workload.constants)


def _values(sizes: tuple[Factors, bool], knobs: Knobs) -> dict[str, int]:
    down, beside = knobs.groups
    return {
        "group_rows": knobs.group_rows,
        "group_columns": knobs.group_columns,
        "groups_y": down,
        "groups_x": beside,
        "row_bytes": knobs.depth * sizes[0].dtype.bits // 8,
        "stages": knobs.stages,
        "splits": knobs.splits,
        "group": knobs.group,
    }


def _points(factors: Factors, columns: Columns) -> Knobs:
    rows = columns["group_rows"] * columns["groups_y"]
    return Knobs(
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


def _account(target: GpuTarget, sizes: tuple[Factors, bool], columns: Columns) -> Account:
    factors, _ = sizes
    points = _points(factors, columns)
    found = cycles(target, factors, points), resident(target, factors.dtype, points)
    # Groups that do not divide the number of tiles have no effect.
    effective = {**columns, "group": points.group}
    return product_account(target, factors, points, limits(target, factors, points), found, effective)


TUNED = Tuned(
    name="gemm_wgmma_cuda",
    sizes=_sizes,
    axes=lambda _: AXES,
    account=_account,
    choose=lambda target, sizes: choose_knobs(target, sizes[0], bulk=sizes[1]),
    knobs=lambda sizes, values: setting(_points(sizes[0], one_point(values)), 0),
    values=_values,
    schedule=lambda target, workload, knobs: schedule(
        target, workload.expression, knobs, constants=workload.constants
    ),
    held={"stages": OVERLAPPED + 1, "splits": 1, "group": 1},
)

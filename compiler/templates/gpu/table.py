"""The templates of GPUs: an explicit table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ...codegen.cuda.machine import GpuTarget
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.blocks import Window
from ..columns import Values
from ..registry import Registry
from ..space import Space
from ..template import Template, table_of
from . import (
    bind_by_name,
    conv2d,
    conv2d_direct,
    conv2d_direct_space,
    conv_transpose,
    depthwise,
    elementwise,
    gemm_mma,
    gemm_mma_space,
    gemm_space,
    gemm_wgmma,
    gemm_wgmma_knobs,
    gemm_wgmma_space,
    gemv_space,
    generic,
    pool,
    rows,
    rows_space,
    tile,
    winograd,
)
from .flat import flattened
from .gemm import schedule as schedule_product
from .row_operator import RowOperator
from .workload import CudaWorkload, workload_from_dict

GpuTemplate: TypeAlias = Template[GpuTarget, CudaWorkload, Program]
"""The template type: its expression is always the workload's program, with all fused operators."""


def _of_program(
    name: str,
    space: Callable[[GpuTarget, Program], Space],
    defaults: Callable[[GpuTarget, Program], dict[str, int]],
    knobs: Callable[[GpuTarget, Program, Values], Any],
    schedule: Callable[[GpuTarget, CudaWorkload, Any], Schedule],
) -> GpuTemplate:
    """A template whose functions take the workload's program."""
    return _template(
        name,
        space=lambda target, workload: space(target, workload.expression),
        choice=lambda target, workload: defaults(target, workload.expression),
        knobs=lambda target, workload, values: knobs(target, workload.expression, values),
        schedule=schedule,
    )


def _template(
    name: str,
    *,
    space: Callable[[GpuTarget, CudaWorkload], Space],
    choice: Callable[[GpuTarget, CudaWorkload], dict[str, int]],
    knobs: Callable[[GpuTarget, CudaWorkload, Values], Any],
    schedule: Callable[[GpuTarget, CudaWorkload, Any], Schedule],
) -> GpuTemplate:
    """A template whose schedule takes the knobs of a point, or None for its defaults."""

    def scheduled(target: GpuTarget, workload: CudaWorkload, _: Program, values: Values) -> Schedule:
        return schedule(target, workload, knobs(target, workload, values) if values else None)

    return Template(name=name, space=space, choice=choice, schedule=scheduled)


def _alone(
    schedule: Callable[[GpuTarget, Program, Any], Schedule],
) -> Callable[[GpuTarget, CudaWorkload, Any], Schedule]:
    """The schedule function of a template from a function of the program alone, for templates that need no list of
    constants.
    """
    return lambda target, workload, knobs: schedule(target, workload.expression, knobs)


def _tiled(target: GpuTarget, workload: CudaWorkload, knobs: tile.Tile | None) -> Schedule:
    """The schedule in tiles, even for few rows, which `gemm.schedule` would schedule by `gemv`."""
    own = knobs or gemm_space.default_tile(target, workload.expression)
    return tile.schedule_tile(workload.expression, own, workload.constants)


def _product(target: GpuTarget, workload: CudaWorkload, knobs: Any) -> Schedule:
    return schedule_product(target, workload.expression, knobs, constants=workload.constants)


def _warps(target: GpuTarget, workload: CudaWorkload, knobs: gemm_mma.Knobs | None) -> Schedule:
    return gemm_mma.schedule(target, workload.expression, knobs, constants=workload.constants)


def _warpgroups(target: GpuTarget, workload: CudaWorkload, knobs: gemm_wgmma_knobs.Knobs | None) -> Schedule:
    return gemm_wgmma.schedule(target, workload.expression, knobs, constants=workload.constants)


def _rows(workload: CudaWorkload) -> RowOperator:
    assert workload.rows is not None  # CudaWorkload.obstacle
    return workload.rows


def _schedule_rows(target: GpuTarget, workload: CudaWorkload, knobs: rows.Knobs | None) -> Schedule:
    operator = _rows(workload)
    program = operator.program(knobs or operator.choose_knobs(target))
    return bind_by_name.schedule(target, flattened(program) if operator.is_reduction else program)


def _window(workload: CudaWorkload) -> Window:
    assert workload.window is not None  # CudaWorkload.obstacle
    return workload.window


GPU: Registry[GpuTarget, CudaWorkload] = Registry(
    named=table_of(
        _of_program("gemm_cuda", gemm_space.space, gemm_space.default_values, gemm_space.knobs_of, _tiled),
        _of_program("gemv_cuda", gemv_space.space, gemv_space.default_values, gemv_space.knobs_of, _product),
        _of_program(
            "gemm_mma_cuda",
            gemm_mma_space.space,
            gemm_mma_space.default_values,
            lambda _, program, values: gemm_mma_space.knobs_of(program, values),
            _warps,
        ),
        _template(
            "gemm_wgmma_cuda",
            space=lambda target, w: gemm_wgmma_space.space(target, w.expression),
            choice=lambda target, w: gemm_wgmma_space.default_values(target, w.expression, w.constants),
            knobs=lambda _, w, values: gemm_wgmma_space.knobs_of(w.expression, values),
            schedule=_warpgroups,
        ),
        _of_program(
            "conv2d_cuda", conv2d.space, conv2d.default_values, conv2d.knobs_of, _alone(conv2d.schedule)
        ),
        _of_program(
            "conv2d_direct_cuda",
            conv2d_direct_space.space,
            conv2d_direct_space.default_values,
            conv2d_direct_space.knobs_of,
            _alone(conv2d_direct.schedule),
        ),
        _of_program(
            "winograd_cuda",
            winograd.space,
            winograd.default_values,
            winograd.knobs_of,
            _alone(winograd.schedule),
        ),
        _of_program(
            "conv_transpose_cuda",
            conv_transpose.space,
            conv_transpose.default_values,
            conv_transpose.knobs_of,
            _alone(conv_transpose.schedule),
        ),
        _template(
            "depthwise_cuda",
            space=lambda target, w: depthwise.space(target, w.expression, _window(w)),
            choice=lambda target, w: depthwise.default_values(target, w.expression, _window(w)),
            knobs=lambda target, w, values: depthwise.knobs_of(target, w.expression, values),
            schedule=lambda target, w, knobs: depthwise.schedule(target, w.expression, _window(w), knobs),
        ),
        _of_program("pool_cuda", pool.space, pool.default_values, pool.knobs_of, _alone(pool.schedule)),
        _of_program(
            "elementwise_cuda",
            elementwise.space,
            elementwise.default_values,
            elementwise.knobs_of,
            _alone(elementwise.schedule),
        ),
        _of_program(
            "generic_cuda", generic.space, generic.default_values, generic.knobs_of, _alone(generic.schedule)
        ),
        _template(
            "rows_cuda",
            space=lambda target, w: rows_space.space(target, _rows(w)),
            choice=lambda target, w: rows_space.default_values(target, _rows(w)),
            knobs=lambda _, w, values: rows_space.knobs_of(_rows(w), values),
            schedule=_schedule_rows,
        ),
    ).__getitem__,
    read=workload_from_dict,
)
"""Templates of GPUs; costs are seconds."""

"""What can be tuned on GPUs: a workload's space, and its schedule with a point's knobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ...ir.stmt import Program
from ...schedule import Schedule
from ...target.cuda.machine import CudaTarget
from ...te.blocks import Window
from ..space import Space, Values
from . import (
    conv2d,
    conv2d_direct,
    conv2d_direct_space,
    conv2d_space,
    conv_transpose,
    conv_transpose_space,
    depthwise,
    depthwise_space,
    elementwise,
    elementwise_space,
    gemm_mma,
    gemm_mma_space,
    gemm_space,
    gemm_wgmma,
    gemm_wgmma_knobs,
    gemm_wgmma_space,
    gemv_space,
    named,
    pool,
    pool_space,
    rows,
    rows_space,
    tile,
    winograd,
    winograd_space,
)
from .flat import flattened
from .gemm import schedule as schedule_product
from .row_operator import RowOperator
from .workload import CudaTemplate, CudaWorkload


def space(target: CudaTarget, workload: CudaWorkload) -> Space:
    """All settings of the template's knobs for a workload; costs are seconds."""
    return _TEMPLATES[workload.template].space(target, workload)


def default_values(target: CudaTarget, workload: CudaWorkload) -> dict[str, int]:
    """The point of the template's defaults, or the nearest one to it."""
    return _TEMPLATES[workload.template].defaults(target, workload)


def schedule(target: CudaTarget, workload: CudaWorkload, values: Values | None = None) -> Schedule:
    """The workload's program in kernel form, as its node has it in networks.

    `values` are a point's of the workload's space (None or empty: the template's defaults).
    """
    template = _TEMPLATES[workload.template]
    return template.schedule(target, workload, template.knobs(target, workload, values) if values else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    """What a template does with a workload: its space, the point of its defaults, knobs of a point, a schedule."""

    space: Callable[[CudaTarget, CudaWorkload], Space]
    defaults: Callable[[CudaTarget, CudaWorkload], dict[str, int]]
    knobs: Callable[[CudaTarget, CudaWorkload, Values], Any]
    schedule: Callable[[CudaTarget, CudaWorkload, Any], Schedule]


def _of_program(
    space: Callable[[CudaTarget, Program], Space],
    defaults: Callable[[CudaTarget, Program], dict[str, int]],
    knobs: Callable[[CudaTarget, Program, Values], Any],
    schedule: Callable[[CudaTarget, CudaWorkload, Any], Schedule],
) -> _Template:
    """A template that knows a workload by its program."""
    return _Template(
        space=lambda target, workload: space(target, workload.expression),
        defaults=lambda target, workload: defaults(target, workload.expression),
        knobs=lambda target, workload, values: knobs(target, workload.expression, values),
        schedule=schedule,
    )


def _alone(
    schedule: Callable[[CudaTarget, Program, Any], Schedule],
) -> Callable[[CudaTarget, CudaWorkload, Any], Schedule]:
    """How a program is scheduled of which all constants are known by their names."""
    return lambda target, workload, knobs: schedule(target, workload.expression, knobs)


def _tiled(target: CudaTarget, workload: CudaWorkload, knobs: tile.Tile | None) -> Schedule:
    """In tiles, however few the rows are."""
    own = knobs or gemm_space.default_tile(target, workload.expression)
    return tile.schedule_tile(workload.expression, own, workload.constants)


def _product(target: CudaTarget, workload: CudaWorkload, knobs: Any) -> Schedule:
    return schedule_product(target, workload.expression, knobs, constants=workload.constants)


def _warps(target: CudaTarget, workload: CudaWorkload, knobs: gemm_mma.Knobs | None) -> Schedule:
    return gemm_mma.schedule(target, workload.expression, knobs, constants=workload.constants)


def _warpgroups(target: CudaTarget, workload: CudaWorkload, knobs: gemm_wgmma_knobs.Knobs | None) -> Schedule:
    return gemm_wgmma.schedule(target, workload.expression, knobs, constants=workload.constants)


def _rows(workload: CudaWorkload) -> RowOperator:
    assert workload.rows is not None  # CudaWorkload.obstacle
    return workload.rows


def _schedule_rows(target: CudaTarget, workload: CudaWorkload, knobs: rows.Knobs | None) -> Schedule:
    operator = _rows(workload)
    program = operator.program(knobs or operator.choose_knobs(target))
    return named.schedule(target, flattened(program) if operator.is_reduction else program)


def _window(workload: CudaWorkload) -> Window:
    assert workload.window is not None  # CudaWorkload.obstacle
    return workload.window


_TEMPLATES: Mapping[CudaTemplate, _Template] = MappingProxyType(
    {
        "gemm_cuda": _of_program(gemm_space.space, gemm_space.default_values, gemm_space.knobs_of, _tiled),
        "gemv_cuda": _of_program(gemv_space.space, gemv_space.default_values, gemv_space.knobs_of, _product),
        "gemm_mma_cuda": _of_program(
            gemm_mma_space.space,
            gemm_mma_space.default_values,
            lambda _, program, values: gemm_mma_space.knobs_of(program, values),
            _warps,
        ),
        "gemm_wgmma_cuda": _Template(
            space=lambda target, w: gemm_wgmma_space.space(target, w.expression),
            defaults=lambda target, w: gemm_wgmma_space.default_values(target, w.expression, w.constants),
            knobs=lambda _, w, values: gemm_wgmma_space.knobs_of(w.expression, values),
            schedule=_warpgroups,
        ),
        "conv2d_cuda": _of_program(
            conv2d_space.space, conv2d_space.default_values, conv2d_space.knobs_of, _alone(conv2d.schedule)
        ),
        "conv2d_direct_cuda": _of_program(
            conv2d_direct_space.space,
            conv2d_direct_space.default_values,
            conv2d_direct_space.knobs_of,
            _alone(conv2d_direct.schedule),
        ),
        "winograd_cuda": _of_program(
            winograd_space.space,
            winograd_space.default_values,
            winograd_space.knobs_of,
            _alone(winograd.schedule),
        ),
        "conv_transpose_cuda": _of_program(
            conv_transpose_space.space,
            conv_transpose_space.default_values,
            conv_transpose_space.knobs_of,
            _alone(conv_transpose.schedule),
        ),
        "depthwise_cuda": _Template(
            space=lambda target, w: depthwise_space.space(target, w.expression, _window(w)),
            defaults=lambda target, w: depthwise_space.default_values(target, w.expression, _window(w)),
            knobs=lambda target, w, values: depthwise_space.knobs_of(target, w.expression, values),
            schedule=lambda target, w, knobs: depthwise.schedule(target, w.expression, _window(w), knobs),
        ),
        "pool_cuda": _of_program(
            pool_space.space, pool_space.default_values, pool_space.knobs_of, _alone(pool.schedule)
        ),
        "elementwise_cuda": _of_program(
            elementwise_space.space,
            elementwise_space.default_values,
            elementwise_space.knobs_of,
            _alone(elementwise.schedule),
        ),
        "rows_cuda": _Template(
            space=lambda target, w: rows_space.space(target, _rows(w)),
            defaults=lambda target, w: rows_space.default_values(target, _rows(w)),
            knobs=lambda _, w, values: rows_space.knobs_of(_rows(w), values),
            schedule=_schedule_rows,
        ),
    }
)

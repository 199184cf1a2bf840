"""The space of row operators on a GPU: all settings of `rows.Knobs` for one operator."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...codegen.cuda.architectures import GRID_LIMITS
from ...codegen.cuda.machine import GpuTarget
from ...ir.kernels import WARP
from ..columns import ESTIMATE, Columns, Values
from ..space import Account, Axis, Space
from .gemm_cost import ceil_divided
from .row_operator import RowOperator
from .rows import Knobs
from .traffic import moved_bytes, moving_seconds

GROUP = Axis(name="group", values=(1, 2, 4, 8, 16, 32, 64))
LANES = Axis(name="lanes", values=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024))
KEPT = Axis(name="kept", values=(0, 1))
CHUNKS = Axis(name="chunks", values=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512))
MOST_KEPT = 64
"""Most elements of a row that a thread keeps in registers, besides other values."""
LOADS = 4
"""Memory loads of a thread that are in flight together, in a loop of consecutive loads. An estimate."""
SLACK = 1.0
"""Slack of the space. The bound counts only the bytes that every program moves, so it excludes no point."""


def space(target: GpuTarget, operator: RowOperator) -> Space:
    """The space of an operator; costs are seconds."""
    moved = moved_bytes(operator.plain())
    default = default_values(target, operator)
    # At least a warp, or the threads of the default knobs if they distribute short rows over all
    # multiprocessors.
    least = min(WARP, default["group"] * default["lanes"])
    return Space(
        template="rows_cuda",
        axes=_axes(operator),
        account=partial(_account, target, operator, moved, least),
        floor=moved / target.memory_bandwidth,
        slack=SLACK,
    )


def knobs_of(operator: RowOperator, values: Values) -> Knobs:
    """The knobs with the values of a point."""
    return Knobs(
        group=values["group"],
        lanes=values["lanes"],
        columns=operator.sizes[2] > 1,
        kept=bool(values.get("kept", 0)),
        chunks=values.get("chunks", 1),
    )


def default_values(target: GpuTarget, operator: RowOperator) -> dict[str, int]:
    """The point of the knobs that `RowOperator.choose_knobs` returns, or the nearest point."""
    knobs = operator.choose_knobs(target)
    wanted = {"group": knobs.group, "lanes": knobs.lanes, "kept": int(knobs.kept), "chunks": knobs.chunks}
    return {
        axis.name: min(axis.values, key=lambda value: abs(value - wanted[axis.name]))
        for axis in _axes(operator)
    }


def _axes(operator: RowOperator) -> tuple[Axis, ...]:
    return GROUP, LANES, CHUNKS if operator.is_reduction else KEPT


def _account(target: GpuTarget, operator: RowOperator, moved: int, least: int, points: Columns) -> Account:
    rows, size, beside = operator.sizes
    group, lanes = points["group"], points["lanes"]
    one = np.ones_like(group)
    kept, chunks = points.get("kept", 0 * one), points.get("chunks", one)
    threads = group * lanes
    cut = ceil_divided(size, chunks)
    steps = ceil_divided(np.where(chunks > 1, ceil_divided(cut, group), cut), lanes)
    # Interleaved rows are computed in groups of neighbours.
    blocks = np.where(chunks > 1, rows * chunks, ceil_divided(beside, group) * (rows // beside))
    blocks = np.where((chunks == 1) & (beside == 1), ceil_divided(rows, group), blocks)
    read = one if operator.is_reduction else np.where(kept == 1, one, 3 * one)
    at_once = 4.0 * np.where(kept == 1, steps, np.minimum(steps, LOADS))
    resident = np.minimum(threads, target.threads_per_block)
    seconds = read * moving_seconds(target, moved, blocks, resident, at_once)
    most = 2 * max(1, size)
    return Account(
        limits={
            "threads of a block": (threads <= target.threads_per_block) & (threads >= least),
            "threads with nothing to do": (lanes < most)
            & ((group < 2 * rows) | (chunks > 1))
            & (chunks * 2 <= most),
            "what a thread keeps": (kept == 0) | (steps <= MOST_KEPT),
            "the grid": (chunks == 1) | (rows <= GRID_LIMITS["y"]),
        },
        bound=np.full(group.shape, moved / target.memory_bandwidth),
        quantities={
            ESTIMATE: seconds,
            "blocks": blocks.astype(np.float64),
            "threads": threads.astype(np.float64),
            "steps": np.maximum(1, steps).astype(np.float64),
        },
        effective=dict(points),
    )

"""The search space of row operators (softmax, normalizations, reductions) on a GPU: all settings of `rows.Knobs` for
one operator.
"""

from __future__ import annotations

import numpy as np

from ...codegen.cuda.architectures import GRID_LIMITS
from ...codegen.cuda.machine import GpuTarget
from ...ir.kernels import WARP
from ...schedule import Schedule
from ..columns import Columns, Values
from ..space import Axis, CostEstimates
from . import bind_by_name
from .flat import flattened
from .multiprocessor import ceil_divided
from .row_operator import RowOperator
from .rows import Knobs
from .traffic import moved_bytes, moving_account, moving_seconds
from .tuned import Tuned
from .workload import CudaWorkload

GROUP = Axis(name="group", values=(1, 2, 4, 8, 16, 32, 64))
LANES = Axis(name="lanes", values=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024))
KEPT = Axis(name="kept", values=(0, 1))
CHUNKS = Axis(name="chunks", values=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512))
MOST_KEPT = 64
"""Largest number of elements of a row that a thread keeps in registers, besides other values."""
LOADS = 4
"""Number of a thread's memory loads that are in flight together in a loop of loads that do not depend on one another.
An estimate.
"""


def _knobs_at(operator: RowOperator, values: Values) -> Knobs:
    return Knobs(
        group=values["group"],
        lanes=values["lanes"],
        columns=operator.sizes[2] > 1,
        kept=bool(values.get("kept", 0)),
        chunks=values.get("chunks", 1),
    )


def _values(operator: RowOperator, knobs: Knobs) -> dict[str, int]:
    """The point of the space, by axis, for the settings `knobs`: on each axis, the value nearest to the setting."""
    return {
        axis.name: min(axis.values, key=lambda value: abs(value - int(getattr(knobs, axis.name))))
        for axis in _axes(operator)
    }


def _axes(operator: RowOperator) -> tuple[Axis, ...]:
    return GROUP, LANES, CHUNKS if operator.is_reduction else KEPT


def _cost(target: GpuTarget, operator: RowOperator, points: Columns) -> CostEstimates:
    moved, default = moved_bytes(operator.plain()), operator.choose_knobs(target)
    # At least a warp, or the threads of the default knobs if they distribute short rows over all multiprocessors.
    least = min(WARP, default.group * default.lanes)
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
    limits = {
        "threads of a block": (threads <= target.threads_per_block) & (threads >= least),
        "threads with nothing to do": (lanes < most)
        & ((group < 2 * rows) | (chunks > 1))
        & (chunks * 2 <= most),
        "what a thread keeps": (kept == 0) | (steps <= MOST_KEPT),
        "the grid": (chunks == 1) | (rows <= GRID_LIMITS["y"]),
    }
    quantities = {"blocks": blocks, "threads": threads, "steps": np.maximum(1, steps)}
    return moving_account(target, moved, seconds, quantities, dict(points), limits)


def _operator(workload: CudaWorkload) -> RowOperator:
    assert workload.rows is not None  # CudaWorkload.obstacle
    return workload.rows


def _schedule(target: GpuTarget, workload: CudaWorkload, knobs: Knobs) -> Schedule:
    operator = _operator(workload)
    program = operator.program(target, knobs)
    return bind_by_name.schedule(target, flattened(program) if operator.is_reduction else program)


TUNED = Tuned(
    name="rows_cuda",
    sizes=_operator,
    axes=_axes,
    cost=_cost,
    choose=lambda target, operator: operator.choose_knobs(target),
    knobs=_knobs_at,
    values=_values,
    schedule=_schedule,
)

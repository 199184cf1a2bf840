"""The space of few rows times a matrix on a GPU: all settings of `gemv.Knobs` for one size."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...codegen.cuda.architectures import BLOCK_LIMITS, REGISTERS_PER_THREAD
from ...codegen.cuda.machine import GpuTarget
from ...ir.kernels import WARP
from ...ir.stmt import Program
from ..columns import ESTIMATE, Columns, Values
from ..space import Account, Axis, Space
from .gemm import problem_of
from .gemm_cost import MOST_UNROLLED, Problem, ceil_divided
from .gemv import SHARED_BYTES, Knobs, choose_knobs
from .tile import VECTOR
from .traffic import moved_bytes, moving_seconds

AXES = (
    Axis(name="groups", values=(2, 4, 8, 16, 32)),
    Axis(name="members", values=(2, 4, 8, 16, 32)),
    Axis(name="vectors", values=(1, 2, 4, 8, 16, 32, 64)),
    Axis(name="unroll", values=(2, 4, 8, 16)),
)
SLACK = 1.0
"""Slack of the space. The bound counts only the bytes that every program moves, so it excludes no point."""
OTHER_REGISTERS = 40
"""Registers of a thread besides its sums and loaded elements: addresses and counters. An estimate."""


def space(target: GpuTarget, program: Program) -> Space:
    """The space of a program with the stages of `te.ops.product`, for `gemv.schedule_rows`; costs are seconds."""
    return Space(
        template="gemv_cuda",
        axes=AXES,
        account=partial(_account, target, problem_of(program), moved_bytes(program)),
        floor=moved_bytes(program) / target.memory_bandwidth,
        slack=SLACK,
    )


def knobs_of(target: GpuTarget, program: Program, values: Values) -> Knobs:
    """The knobs with the values of a point."""
    return Knobs(**values)


def default_values(target: GpuTarget, program: Program) -> dict[str, int]:
    """The point of the knobs that `gemv.choose_knobs` returns."""
    problem = problem_of(program)
    knobs = choose_knobs(target, problem.rows, problem.columns, problem.depth)
    return {axis.name: getattr(knobs, axis.name) for axis in AXES}


def _account(target: GpuTarget, problem: Problem, moved: int, points: Columns) -> Account:
    groups, members, vectors, unroll = (points[axis.name] for axis in AXES)
    # Members of a group add up at least a vector of columns, one column each.
    threads = groups * np.maximum(members, VECTOR) * vectors
    at_once = groups * members * unroll
    columns = vectors * VECTOR
    # The sums of all threads, and those of the groups.
    shared = 4 * problem.rows * columns * groups * (members + 1)
    registers = VECTOR * (problem.rows + unroll) + problem.rows * unroll + OTHER_REGISTERS
    blocks = problem.batch * ceil_divided(problem.columns, columns)
    steps = ceil_divided(problem.depth, at_once)
    # Elements outside the result are multiplied, too.
    whole = steps * at_once * ceil_divided(problem.columns, columns) * columns
    moving = moving_seconds(
        target, moved, blocks, np.minimum(threads, target.threads_per_block), 4.0 * VECTOR * unroll
    )
    issued = steps * unroll * VECTOR * (problem.rows + 1) + (groups + members) * problem.rows
    warps = ceil_divided(threads, WARP) * ceil_divided(blocks, target.multiprocessors)
    lanes = target.float32_lanes // WARP
    issuing = issued * warps / lanes / target.clock
    return Account(
        limits={
            "threads of a block": (threads <= target.threads_per_block) & (threads >= WARP // 4),
            "threads along an axis": groups <= BLOCK_LIMITS["z"],
            "shared memory": shared <= SHARED_BYTES,
            "registers": (registers <= REGISTERS_PER_THREAD)
            & (registers * threads <= target.registers_per_multiprocessor),
            "products written out": unroll * VECTOR * problem.rows <= MOST_UNROLLED,
            "the depth": at_once < 2 * max(problem.depth, WARP),
        },
        bound=np.full(threads.shape, moved / target.memory_bandwidth),
        quantities={
            ESTIMATE: np.maximum(moving, issuing),
            "blocks": blocks.astype(np.float64),
            "threads": threads.astype(np.float64),
            "steps": steps.astype(np.float64),
            "products": whole.astype(np.float64),
            "columns": columns.astype(np.float64),
        },
        effective=dict(points),
    )

"""Products of few rows with a matrix on a GPU: each element of the matrix is read once, adjacent elements by adjacent
threads.

The kernel's time is that of reading memory; shared memory only holds the threads' sums. A block has `groups` x
`members` threads along the sum's depth for each vector of columns; these threads add up their sums in two steps, first
the members of each group, then the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...codegen.cuda.architectures import BLOCK_LIMITS, GRID_LIMITS, REGISTERS_PER_THREAD
from ...codegen.cuda.machine import GpuTarget
from ...ir.kernels import WARP
from ...ir.stmt import Program
from ...schedule import Schedule
from ..columns import Columns
from ..space import Axis, CostEstimates
from .gemm_cost import MOST_UNROLLED, Problem, problem_of
from .multiprocessor import ceil_divided
from .split_axes import drop_single, extent_of, loops_around
from .tile import VECTOR
from .traffic import moved_bytes, moving_account, moving_seconds
from .tuned import Tuned, by_name, fields_of, own_program

MOST_ROWS = 8
"""Largest number of rows for which threads read the matrix directly instead of through tiles in shared memory; with
more rows, each loaded element has enough products to hide the latency of its load.
"""
THREADS = 256
"""Threads of a block, if the matrix is large enough."""
SHARED_BYTES = 48 * 1024
"""Bytes of shared memory for all sums of a block: the limit without opt-in (CUDA C++ Programming Guide, "Shared
Memory").
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """The knobs of the schedule of a product (few rows) x (matrix). The sum over the depth (the dimension summed over)
    is divided among threads: a thread block has `groups` x `members` threads along the depth, and `vectors` threads
    along the columns.

    Each thread adds up its part of the depth for all rows and for one vector of `VECTOR` adjacent columns. `unroll`:
    number of consecutive depth steps that a thread processes together. A group needs at least `VECTOR` members: when
    the partial sums of a group are added up, each member does so for one of the `VECTOR` columns.
    """

    groups: int
    members: int
    vectors: int
    unroll: int

    @property
    def columns(self) -> int:
        """Number of columns that a block computes."""
        return self.vectors * VECTOR

    @property
    def depth(self) -> int:
        """Number of steps along the depth that all threads of a block together process at once."""
        return self.groups * self.members * self.unroll


def choose_knobs(target: GpuTarget, problem: Problem) -> Knobs:
    """Default knobs for any shape: at least one block for each multiprocessor, if each block can still read rows of at
    least 32 bytes (a sector).

    A multiprocessor needs about 20 KB in flight (800 cycles of 25 bytes each, Little's law); the loads of a thread for
    `unroll` steps, 16 bytes each, do not wait for each other.
    """
    vectors = 32
    while vectors > 2 and problem.columns < target.multiprocessors * vectors * VECTOR:
        vectors //= 2
    unroll = 8 if problem.depth >= 8 * THREADS else 4
    members = groups = 2
    while 2 * members * groups * vectors <= THREADS and members * groups * unroll < problem.depth:
        if 4 * 2 * members * groups * problem.rows * vectors * VECTOR > SHARED_BYTES // 2:
            break
        if members <= groups:
            members *= 2
        else:
            groups *= 2
    return Knobs(groups=groups, members=members, vectors=vectors, unroll=unroll)


def schedule_rows(program: Program, knobs: Knobs, constants: Sequence[str] = ()) -> Schedule:
    """Schedules a program with the stages of `te.ops.product` (copies of the operands, sum "gemm", epilogue "post") so
    that each thread computes all rows of a vector of columns; all work is inside loops over GPU blocks.

    `constants`: parameters whose arrays are packed ahead. All rows are in one thread, so there should be at most
    `MOST_ROWS`.
    """
    s = Schedule(program)
    s.pad("gemm.j", knobs.columns)
    s.pad("gemm.k", knobs.depth)
    s.guard("j", knobs.columns)
    k0, k1 = s.split("gemm.k", knobs.depth)
    steps = [k0]
    if extent_of(s, k0) == 1:
        s.peel(k0)
        steps = []
    group, rest = s.split(k1, knobs.members * knobs.unroll)
    member, step = s.split(rest, knobs.unroll)
    # The sums of groups are computed from the sums of their members.
    s.rfactor("gemm", group)
    s.rfactor("gemm.rf", member)

    outside = [loop for loop in loops_around(s, "gemm") if loop not in ("gemm.i", "gemm.j", group)]
    behind = loops_around(s, "post")
    j0, j1 = s.split("gemm.j", knobs.columns)
    jx, jv = s.split(j1, VECTOR)
    s.reorder(*outside, j0, jv, jx, "gemm.i", group)
    s.reverse_compute_at("post", "gemm.i")
    s.set_scope("sum", "register")
    s.decompose_reduction("gemm", group)
    drop_single(s, behind)
    for name in ("gemm.rf", "gemm.rf.rf"):
        s.compute_at(name, j0)
    for name in ("sum.rf", "sum.rf.rf"):
        s.set_scope(name, "shared")

    jx2, jv2 = s.split("gemm.j.rf", VECTOR)
    inner = [f"{loop}.rf" for loop in outside]
    s.reorder(f"{group}.rf", jv2, jx2, *inner, "gemm.i.rf", member)
    drop_single(s, inner)
    s.cache_write("sum.rf", "gemm.i.rf", "register")
    s.decompose_reduction("gemm.rf", member)

    jx3, jv3 = s.split("gemm.j.rf.rf", VECTOR)
    inner = [f"{loop}.rf.rf" for loop in outside]
    own = (f"{group}.rf.rf", f"{member}.rf", jx3)
    s.reorder(*own, *inner, *steps, step, "gemm.i.rf.rf", jv3)
    drop_single(s, inner)
    s.cache_write("sum.rf.rf", jx3, "register")
    s.decompose_reduction("gemm.rf.rf", [*steps, step][0])
    for stage in ("b", "a"):
        s.compute_at(stage, [jx3, *steps][-1])
        s.set_scope(stage, "register")

    extra = ""
    for loop in outside:
        extra = s.fuse(extra, loop) if extra else loop
    if extra and extent_of(s, extra) > GRID_LIMITS["y"]:
        s.bind(s.fuse(extra, j0), "block.x")
    else:
        s.bind(j0, "block.x")
        if extra:
            s.bind(extra, "block.y")
    for loops in ((None, jv, jx), (f"{group}.rf", jv2, jx2), own):
        for loop, axis in zip(loops, ("thread.z", "thread.y", "thread.x"), strict=True):
            if loop is not None:
                s.bind(loop, axis)
    for loop in (group, member, step, "gemm.i.rf.rf", jv3, "gemm.i.rf.rf.init", f"{jv3}.init"):
        s.unroll(loop)
    for name in constants:
        _pack(s, name, knobs)
    return s


def _pack(s: Schedule, name: str, knobs: Knobs) -> None:
    """Packs W by blocks of columns. Within a block, the steps along the depth follow one another; in each step, the
    vectors of all threads are side by side.
    """
    rank = len(next(p.shape for p in s.program.parameters if p.name == name))
    depth, columns = rank - 2, rank - 1
    s.pack(name, ((depth, knobs.unroll), (columns, VECTOR)), tuple(range(rank + 2)))
    step, lane, thread, vector = range(rank, rank + 4)
    order = (*range(rank - 2), columns, depth, step, thread, vector, lane)
    s.pack(name, ((depth, knobs.groups * knobs.members), (columns, knobs.vectors)), order)


AXES = (
    Axis(name="groups", values=(2, 4, 8, 16, 32)),
    Axis(name="members", values=(2, 4, 8, 16, 32)),
    Axis(name="vectors", values=(1, 2, 4, 8, 16, 32, 64)),
    Axis(name="unroll", values=(2, 4, 8, 16)),
)
OTHER_REGISTERS = 40
"""Registers of a thread besides its sums and loaded elements: addresses and counters. An estimate."""


def _cost(target: GpuTarget, program: Program, points: Columns) -> CostEstimates:
    problem, moved = problem_of(program), moved_bytes(program)
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
    limits = {
        "threads of a block": (threads <= target.threads_per_block) & (threads >= WARP // 4),
        "threads along an axis": groups <= BLOCK_LIMITS["z"],
        "shared memory": shared <= SHARED_BYTES,
        "registers": (registers <= REGISTERS_PER_THREAD)
        & (registers * threads <= target.registers_per_multiprocessor),
        "products written out": unroll * VECTOR * problem.rows <= MOST_UNROLLED,
        "the depth": at_once < 2 * max(problem.depth, WARP),
    }
    quantities = {
        "blocks": blocks,
        "threads": threads,
        "steps": steps,
        "products": whole,
        "columns": columns,
    }
    return moving_account(target, moved, np.maximum(moving, issuing), quantities, dict(points), limits)


TUNED = Tuned(
    name="gemv_cuda",
    sizes=own_program,
    axes=lambda _: AXES,
    cost=_cost,
    choose=lambda target, program: choose_knobs(target, problem_of(program)),
    knobs=by_name(Knobs),
    values=fields_of(AXES),
    schedule=lambda _, workload, knobs: schedule_rows(
        workload.expression, knobs, [name for name in workload.constants if name == "W"]
    ),
)

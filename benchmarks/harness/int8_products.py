"""The schedule of products of uint8 and int8 matrices on processors; no operator of networks needs it."""

from __future__ import annotations

from vdla.compiler.codegen.cpu.intrinsics import DOT_DEPTH, dot_u8s8
from vdla.compiler.codegen.cpu.machine import CpuTarget
from vdla.compiler.ir.expr import Const
from vdla.compiler.ir.stmt import For, Program
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import Schedule
from vdla.compiler.templates.cpu.loops import parts_of, peel_ragged
from vdla.compiler.templates.cpu.register_tile import MAXIMUM_ROWS, choose_tile


def dense_int8(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """A schedule of the matrix product of `te.ops.product` (X uint8, W int8, sums int32: types `DOT_INT8`), tiled for
    registers.

    If the processor has a dot product instruction, each step of 4 elements of the depth is one instruction. The last
    step may have fewer elements, and is then computed without it.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    (rows, depth), columns = shapes["X"], shapes["Y"][1]
    lanes = target.lanes(DType.INT32)
    sizes = (1, rows, -(-columns // lanes))
    most = (1, MAXIMUM_ROWS, target.vector_registers)
    _, height, vectors = choose_tile(target, sizes, -(-depth // DOT_DEPTH), most)
    s = Schedule(program)
    row_tile, i = s.split("i", height)
    column_tile, j = s.split("j", lanes * vectors)
    s.reorder(column_tile, row_tile, i, j)
    s.compute_at("dense", row_tile)
    s.set_scope("sum", "register")
    j_vector, lane = s.split(j, lanes)
    sum_vector, sum_lane = s.split("dense.j", lanes)
    step, k = s.split("dense.k", DOT_DEPTH)
    s.reorder(step, "dense.i", sum_vector, sum_lane, k)
    for loop in (i, j_vector, "dense.i", sum_vector, k):
        s.unroll(loop)
    s.vectorize(lane)
    s.vectorize(sum_lane)
    s.decompose_reduction("dense", step)
    s.pack("W", ((0, DOT_DEPTH), (1, lanes * vectors)), (1, 0, 3, 2))
    if parallel:
        s.parallel(column_tile)
    peel_ragged(s, column_tile, row_tile, step)
    if target.dot_product:
        # The last vector of the last panel may be partial: a separate instruction.
        peel_ragged(s, sum_vector)
        for loop in parts_of(s, sum_lane):
            steps, count = loop.body, loop.extent
            # A single column has no loop left to tensorize.
            if (
                isinstance(count, Const)
                and count.value > 1
                and isinstance(steps, For)
                and steps.extent == Const(DOT_DEPTH)
            ):
                s.tensorize(loop.name, dot_u8s8(int(count.value)))
    return s

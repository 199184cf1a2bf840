"""Products of uint8 and int8 matrices on a CPU: register tiles of dot products of four."""

from __future__ import annotations

from ...codegen.cpu.intrinsics import DOT_DEPTH, dot_u8s8
from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Const
from ...ir.stmt import For, Program
from ...ir.types import DType
from ...schedule import Schedule
from .dense import Knobs, cut_tiles, matrix_tile, product_sizes, row_block
from .loops import parallel_loop, parts_of, peel_ragged


def choose_knobs(target: CpuTarget, rows: int, depth: int, columns: int) -> Knobs:
    """Default knobs for any size; X is never staged."""
    tile_rows, vectors = matrix_tile(target, rows, columns, -(-depth // DOT_DEPTH), DType.INT32)
    return Knobs(
        rows=tile_rows,
        vectors=vectors,
        row_block=row_block(target, rows, tile_rows, depth),
        stage=False,
    )


def schedule(
    target: CpuTarget, program: Program, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.product` of types `DOT_INT8` with `knobs` (default: `choose_knobs`); W is packed, see `schedule.pack`.

    `parallel`: tiles run on the threads of the kernel's pool.

    With a dot product instruction each step is one instruction, except for up to three steps at the end of the depth.
    """
    rows, depth, columns = product_sizes(program)
    if knobs is None:
        knobs = choose_knobs(target, rows, depth, columns)
    lanes = target.lanes(DType.INT32)
    width = lanes * knobs.vectors
    s = Schedule(program)
    tiles = cut_tiles(s, knobs, width)
    j_vector, lane = s.split(tiles.j, lanes)
    sum_vector, sum_lane = s.split("dense.j", lanes)
    step, k = s.split("dense.k", DOT_DEPTH)
    s.reorder(step, "dense.i", sum_vector, sum_lane, k)
    for loop in (tiles.i, j_vector, "dense.i", sum_vector, k):
        s.unroll(loop)
    s.vectorize(lane)
    s.vectorize(sum_lane)
    s.decompose_reduction("dense", step)
    s.pack("W", ((0, DOT_DEPTH), (1, width)), (1, 0, 3, 2))
    if parallel:
        counts = {
            tiles.block: rows / knobs.row_block,
            tiles.columns: columns / width,
            tiles.rows: min(rows, knobs.row_block) / knobs.rows,
        }
        parallel_loop(s, counts, rows * depth * columns / (2 * DOT_DEPTH * lanes))
    peel_ragged(s, tiles.block, tiles.columns, tiles.rows, step)
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

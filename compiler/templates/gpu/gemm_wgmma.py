"""Matrix products by warpgroups (sm_90a): tensor cores read both factors directly from shared memory.

The method is that of `gemm_mma`, except that no warp loads fragments of the factors. Four warps (a warpgroup) together
multiply 64 rows of a slice by up to 256 columns, with the sums in their registers. A bulk copy fetches a slice of a
factor as boxes (rectangles) of swizzled rows (`codegen.cuda.bulk_copies`). If rows of the factors do not begin at
multiples of 16 bytes, or a slice is not rectangular in memory, threads copy lines of 16 bytes each, into core matrices
of 8 lines (`codegen.cuda.wgmma`); one unused line separates core matrices. Factors of 8 bits and of float32, which bulk
copies round to tf32, must have rows along the depth: factors in the other order are packed ahead, or transposed by a
separate kernel (`along_depth`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...codegen.cuda.bulk_copies import MOST_DIMENSIONS
from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.mma import TF32, Order, sum_type
from ...codegen.cuda.mma_fragments import COLUMNS, GROUP_ROWS, MATRIX_D, ROWS, WARPGROUP, depth_of
from ...codegen.cuda.wgmma import ARCHITECTURE, CORE, SWIZZLES, row_elements, store, wgmma, zero
from ...ir.expr import Buffer, Const
from ...ir.stmt import Copy, Program
from ...ir.types import HALVES
from ...ir.visit import path_to
from ...schedule import LegalityError, Schedule
from ...schedule.share_copy import Axes
from ..columns import Columns, one_point
from ..space import Axis, CostEstimates
from . import gemm_mma_knobs
from .along_depth import lay_along_depth
from .gemm_mma import (
    Factor,
    X,
    Y,
    Z,
    bind_all,
    bind_grid,
    blocks_in_groups,
    described,
    factors,
    share_stages,
    widen_rows,
)
from .gemm_mma_knobs import CACHE_BYTES_A_CYCLE, LAUNCH, Factors, group_of, product_cost, setting
from .gemm_wgmma_knobs import CORE_LINES, OVERLAPPED, Knobs, choose_knobs, cycles, limits, resident
from .split_axes import allocated, cut, drop_single, extent_of, loops_around, shape_of, unroll
from .tensor_float import is_rounded
from .tile import aligned, fetch, whole_tiles
from .tuned import Tuned
from .workload import CudaWorkload

LINE = CORE
"""Number of 16-bit elements in a line of 16 bytes."""


def applies(target: GpuTarget, program: Program, constants: Sequence[str] = ()) -> bool:
    """Whether warpgroups should compute the program's product.

    The target must have warpgroup products for the factors' types, and copies must be able to fetch whole lines of both
    factors (`constants`: parameters that are packed ahead). The product must have more rows than the result of one
    `mma` instruction, and at least as many columns. For types whose rows must be along the depth, the method must also
    be faster than `gemm_mma`, including the time of transpositions.
    """
    if not target.has("wgmma"):
        return False
    try:
        a, b = factors(program)
    except LegalityError:
        return False
    whole = Schedule(program)
    if extent_of(whole, "gemm.i") <= ROWS or extent_of(whole, "gemm.j") < COLUMNS:
        return False
    if a.dtype in HALVES:
        return all(f.in_lines and _width(program, f.name, constants) == LINE for f in (a, b))
    if a.dtype is TF32 and not is_rounded(program):
        return False
    s = Schedule(program)
    try:
        transposed = lay_along_depth(s, constants)
    except LegalityError:
        return False
    if not takes_bulk(s.program):
        return False
    sizes = described(program)
    own = float(cycles(target, sizes, choose_knobs(target, sizes, bulk=True)))
    own += sum(_transposition_cycles(target, allocated(s, stage)) for stage in transposed)
    return own < float(gemm_mma_knobs.cycles(target, sizes, gemm_mma_knobs.choose_knobs(target, sizes)))


def schedule(
    target: GpuTarget, program: Program, knobs: Knobs | None = None, *, constants: Sequence[str] = ()
) -> Schedule:
    """Schedules a program with the stages of `te.ops.product` (copies of the operands, sum "gemm", epilogue "post")
    with `knobs` (default: `default_knobs`).

    Statement "gemm" multiplies types of `codegen.cuda.wgmma.wgmma`. If rows of 16-bit factors do not begin at multiples
    of 16 bytes, these factors are copied element by element (`applies` excludes the slow case). `constants`: parameters
    whose arrays are packed before any call (`schedule.pack.pack_arrays`); bulk copies of 16-bit factors need no
    packing. Raises LegalityError for other programs or architectures, or if the knobs are inconsistent.
    """
    where = f"cannot tile {program.name} for warpgroups: "
    if not target.has("wgmma"):
        raise LegalityError(
            f"{where}{target.arch} has no wgmma instructions; generate code for {ARCHITECTURE}",
            program,
            "gemm",
        )
    s = Schedule(program)
    if factors(program)[0].dtype not in HALVES:
        lay_along_depth(s, constants)
    a, b = factors(s.program)
    if not (a.in_lines and b.in_lines) or (a.dtype not in HALVES and not (a.along_depth and b.along_depth)):
        raise LegalityError(
            f"{where}the last two dimensions of each {a.dtype} factor must be its rows or columns and its depth, "
            + ("in any order" if a.dtype in HALVES else "the depth last"),
            program,
            "gemm",
        )
    knobs = knobs or default_knobs(target, program, constants)
    if (reason := knobs.obstacle(a.dtype)) is not None:
        raise LegalityError(f"{where}{reason}", program, "gemm")
    if knobs.bulk and not takes_bulk(s.program):
        raise LegalityError(
            f"{where}bulk copies cannot fetch its factors; set the knob bulk to False", program, "gemm"
        )
    partial = knobs.splits > 1
    statement, i, j, k, grid = whole_tiles(s, knobs.rows, knobs.columns, knobs.depth, knobs.splits)
    i0, i = s.split(i, knobs.rows)
    j0, j = s.split(j, knobs.columns)
    k0, k = s.split(k, knobs.depth)
    wi, mi, i = cut(s, i, (knobs.groups[0], knobs.group_rows // GROUP_ROWS, GROUP_ROWS))
    wj, j = s.split(j, knobs.group_columns)
    kt, k = s.split(k, depth_of(a.dtype))
    inner = (
        [i, *_row_loops(s, b, j, knobs.group_columns), k]
        if knobs.bulk
        else [*s.split(i, CORE), *s.split(j, CORE), *s.split(k, CORE)]
    )
    s.reorder(*grid, i0, j0, k0, wi, wj, kt, mi, *inner)
    blocks, tile = blocks_in_groups(s, grid, i0, j0, knobs.group)

    sums = s.cache_write("sum.rf" if partial else "sum", tile, MATRIX_D)
    s.decompose_reduction(statement, k0)
    share_stages(s, (a, b), k0, None if partial else tile)
    store_loop = _keep_sums(s, sums, knobs)
    axes: Axes = ((Z, knobs.groups[0]), (Y, knobs.groups[1]), (X, WARPGROUP))
    columns = knobs.group_columns
    for factor, size in ((a, GROUP_ROWS), (b, columns)):
        if knobs.bulk:
            _pack_rows(s, factor, size)
            continue
        width = _width(s.program, factor.name, constants)
        fetch(s, factor.name, k0, axes, width if width == LINE else 1, constants)
        _pack_cores(s, factor.name)
    orders = _order(a, rows=True), _order(b, rows=False)
    total = sum_type(a.dtype)
    s.tensorize(inner[0], wgmma(a.dtype, columns, *orders, right=b.dtype, swizzled=knobs.bulk))
    s.tensorize(_start(s, inner) if knobs.bulk else f"{inner[0]}.init", zero(columns, total))
    s.tensorize(store_loop, store(columns, "dram" if partial else "shared", total))
    for loop in (kt, mi, f"{mi}.init"):
        s.unroll(loop)

    bind_grid(s, blocks, (grid, i0, j0), wi, wj)
    if not partial:
        _finish(s, knobs, axes)
    slices = extent_of(s, k0)
    if knobs.bulk:
        stages = min(knobs.stages, slices + OVERLAPPED)
        s.pipeline(k0, stages, stages - OVERLAPPED)
    elif (stages := min(knobs.stages, slices)) > 1:
        s.pipeline(k0, stages)
    for factor in (a, b) if not knobs.bulk else ():
        s.widen(factor.name, len(shape_of(s, factor.name)) - 2, CORE_LINES)
    if not partial:
        widen_rows(s, "sum", matrix=False)
    return s


def takes_bulk(program: Program) -> bool:
    """Whether bulk copies can fetch both factors. The stages must be copies of arrays. An array has at most
    MOST_DIMENSIONS dimensions; its last two dimensions are the rows or columns and the depth; its rows are whole lines
    of 16 bytes. Pads must be zero.
    """
    for factor in factors(program):
        copy = path_to(program, factor.name)[-1]
        zeros = isinstance(copy, Copy) and (copy.pad is None or copy.pad.value == 0)
        if not (zeros and factor.in_lines and factor.rank <= MOST_DIMENSIONS):
            return False
        if _width(program, factor.name, ()) * factor.dtype.bits != LINE * 16:
            return False
    return True


def default_knobs(target: GpuTarget, program: Program, constants: Sequence[str] = ()) -> Knobs:
    """The knobs chosen by `gemm_wgmma_knobs.choose_knobs` for a program with these constant parameters."""
    sizes, bulk = product_sizes(program, constants)
    return choose_knobs(target, sizes, bulk=bulk)


def product_sizes(program: Program, constants: Sequence[str]) -> tuple[Factors, bool]:
    """Sizes and types of a program's product, and whether bulk copies can fetch its factors. Warpgroups can read some
    types of factors only if rows run along the depth: the result then describes the factors in this order
    (`lay_along_depth`). `program` is unchanged.
    """
    s = Schedule(program)
    if factors(program)[0].dtype not in HALVES:
        lay_along_depth(s, constants)
    return described(s.program), takes_bulk(s.program)


def _row_loops(s: Schedule, b: Factor, j: str, columns: int) -> list[str]:
    """Splits loop `j` over the `columns` of B in a warpgroup's tile into pieces as long as a swizzled row of B. Nothing
    is split if these rows run along the depth, or if a row has all columns. Returns the names of the resulting loops.
    """
    row = row_elements(columns)
    return [j] if b.along_depth or row in (None, columns) else list(s.split(j, row))


def _pack_rows(s: Schedule, factor: Factor, size: int) -> None:
    """Arranges the slice of `factor` as boxes of swizzled rows, each of which one bulk copy fetches. Nothing changes if
    the factor is contiguous along the depth. `size`: number of the factor's rows or columns in a product; the length of
    a swizzled row divides it.
    """
    if factor.along_depth:
        return
    row = row_elements(size)
    assert row is not None
    s.unroll(s.split_copy(factor.name, factor.data, row))
    s.pack(
        factor.name, ((factor.data, row),), (*range(factor.data - 1), factor.data, factor.depth, factor.rank)
    )


def _start(s: Schedule, inner: Sequence[str]) -> str:
    """Splits the loops that set the sums to zero into tiles of CORE x CORE, as the instruction `zero` requires.
    `inner`: the loops over a warpgroup's sums. Returns the outermost resulting loop.
    """
    i, *columns, _ = (f"{loop}.init" for loop in inner)
    j = s.fuse(*columns) if len(columns) == 2 else columns[0]
    return (*s.split(i, CORE), *s.split(j, CORE))[0]


def _width(program: Program, stage: str, constants: Sequence[str]) -> int:
    """Number of elements, at most 16 bytes, that the copy `stage` moves at once; 1 if elements are gathered one by one.
    `constants`: names of parameters that are packed ahead, so that the copy may move whole lines.
    """
    path = path_to(program, stage)
    copy = path[-1]
    if not isinstance(copy, Copy) or any(e == Const(1) for e in copy.destination.extents[-2:]):
        return 1
    line = LINE * 16 // copy.source.buffer.dtype.bits
    # Arrays packed ahead are packed in tiles, whose rows are whole lines.
    return line if copy.source.buffer.name in constants else aligned(copy, line)


def _transposition_cycles(target: GpuTarget, copied: Buffer) -> float:
    """Estimated cycles of a kernel that reads and writes the array `copied` once."""
    moved = 2 * prod(copied.shape) * copied.dtype.bits / 8
    return LAUNCH + moved / (CACHE_BYTES_A_CYCLE * target.multiprocessors)


def _order(factor: Factor, *, rows: bool) -> Order:
    return "rows" if factor.along_depth == rows else "columns"


def _pack_cores(s: Schedule, buffer: str) -> None:
    """Stores a factor's slice in core matrices, the blocks of CORE x CORE elements that warpgroups read."""
    rank = len(shape_of(s, buffer))
    s.pack(buffer, ((rank - 2, CORE), (rank - 1, CORE)), tuple(range(rank + 2)))


def _keep_sums(s: Schedule, sums: str, knobs: Knobs) -> str:
    """Divides the buffer `sums` among the warpgroups, and splits the loops of the copy of `sums` to memory in the same
    way.

    The buffer becomes [..., warpgroups along rows, warpgroups along columns, tiles of a warpgroup, 64, columns]; a tile
    has 64 rows. Returns the loop around the copy of a tile.
    """
    s.expand_copy(sums)
    rank = len(shape_of(s, sums))
    i, j = (f"{sums}.{d}" for d in (rank - 2, rank - 1))
    wi, mi, i = cut(s, i, (knobs.groups[0], knobs.group_rows // GROUP_ROWS, GROUP_ROWS))
    wj, j = cut(s, j, (knobs.groups[1], knobs.group_columns))
    s.reorder(wi, wj, mi, i, j)
    drop_single(s, [f"{sums}.{d}" for d in range(rank - 2)])
    tiles = ((rank - 2, knobs.group_rows), (rank - 1, knobs.group_columns))
    s.pack(sums, tiles, tuple(range(rank + 2)))
    s.pack(sums, ((rank, GROUP_ROWS),), (*range(rank + 1), rank + 2, rank + 1))
    bind_all(s, (wi, Z), (wj, Y))
    s.unroll(mi)
    return i


def _finish(s: Schedule, knobs: Knobs, axes: Axes) -> None:
    """Binds the computation of the results to threads: adjacent threads compute adjacent elements of a row, then of the
    next row. `axes`: the axes of a block's threads, as (name, number of threads).
    """
    columns = s.program.parameters[-1].shape[-1]
    vector = 4
    while columns % vector:
        vector //= 2
    j, lane = s.split("j", vector)
    guards = [s.guard("i", knobs.rows), s.guard(j, knobs.columns // vector)]
    guards = [loop for loop in guards if loop in loops_around(s, "post")]
    s.reorder("i", j, *guards, lane)
    step, thread = s.split(s.fuse("i", j), knobs.threads)
    own = cut(s, thread, [count for _, count in axes])
    s.reorder(*own, step, *guards, lane)
    s.vectorize(lane)
    for loop, (axis, _) in zip(own, axes, strict=True):
        s.bind(loop, axis)  # type: ignore[arg-type]
    unroll(s, (step,))


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
"""Knobs of the search space: size of a warpgroup's tile, warpgroups of a block, bytes of a swizzled row (the depth of a
slice), and the other fields of `Knobs` under their own names.
"""


def _sizes(workload: CudaWorkload) -> tuple[Factors, bool]:
    """The sizes and types of a workload's product, and whether bulk copies can fetch its factors."""
    return product_sizes(workload.expression, workload.constants)


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


def _cost(target: GpuTarget, sizes: tuple[Factors, bool], columns: Columns) -> CostEstimates:
    factors, _ = sizes
    points = _points(factors, columns)
    found = cycles(target, factors, points), resident(target, factors.dtype, points)
    # Groups that do not divide the number of tiles have no effect.
    effective = {**columns, "group": points.group}
    return product_cost(target, factors, points, limits(target, factors, points), found, effective)


TUNED = Tuned(
    name="gemm_wgmma_cuda",
    sizes=_sizes,
    axes=lambda _: AXES,
    cost=_cost,
    choose=lambda target, sizes: choose_knobs(target, sizes[0], bulk=sizes[1]),
    knobs=lambda sizes, values: setting(_points(sizes[0], one_point(values)), 0),
    values=_values,
    schedule=lambda target, workload, knobs: schedule(
        target, workload.expression, knobs, constants=workload.constants
    ),
    floor_values={"stages": OVERLAPPED + 1, "splits": 1, "group": 1},
)

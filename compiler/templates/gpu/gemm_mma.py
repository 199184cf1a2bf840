"""Matrix products on tensor cores: each warp of a block multiplies fragments of tiles that all warps of the block fetch
together.

A block computes one tile of the result. Slices of the factors pass through shared memory, with several copies in flight
at a time; warps in two dimensions (thread.z, thread.y) load fragments of slices and accumulate sums in registers. The
sums pass back through shared memory, so that the following operators are computed and written by rows. If there are few
tiles with deep sums, several blocks share the depth of a tile, and a second kernel adds up their partial sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...codegen.cuda.architectures import GRID_LIMITS
from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.mma import FACTORS, Order, load_a, load_b, mma, store, sum_type, zero
from ...codegen.cuda.mma_fragments import COLUMNS, MATRIX_A, MATRIX_B, MATRIX_C, ROWS, depth_of
from ...ir.expr import Load, Var
from ...ir.kernels import WARP
from ...ir.named_nodes import find_statement
from ...ir.stmt import Copy, LoopKind, Program, Reduce
from ...ir.types import DType
from ...ir.visit import loads_in, path_to
from ...schedule import LegalityError, Schedule
from ..columns import Columns, one_point
from ..space import Axis, CostEstimates
from .gemm_mma_knobs import (
    Factors,
    Knobs,
    choose_knobs,
    cycles,
    group_of,
    limits,
    product_cost,
    resident,
    room,
    setting,
    slices_of,
)
from .split_axes import allocated, drop_single, extent_of, loops_around
from .tile import bind_blocks, fetch, whole_tiles
from .tuned import Tuned

Z: LoopKind = "thread.z"
Y: LoopKind = "thread.y"
X: LoopKind = "thread.x"


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """The layout of a factor X or W of a product in its buffer with `rank` dimensions. `data`: number of the dimension
    for the rows of X or the columns of W. `depth`: number of the dimension along which products are summed.
    """

    name: str
    dtype: DType
    rank: int
    data: int
    depth: int

    @property
    def along_depth(self) -> bool:
        """Whether elements adjacent in depth are adjacent in memory (the depth is after the data dimension)."""
        return self.depth > self.data

    @property
    def in_lines(self) -> bool:
        """Whether the factor's last two dimensions are its rows or columns and its depth."""
        return {self.data, self.depth} == {self.rank - 2, self.rank - 1}

    @property
    def matrix(self) -> bool:
        """Whether the instruction `ldmatrix` can load fragments of the factor."""
        return self.along_depth or self.dtype.bits == 16


def schedule(
    target: GpuTarget, program: Program, knobs: Knobs | None = None, *, constants: Sequence[str] = ()
) -> Schedule:
    """Schedules a program with the stages of `te.ops.product` (copies of the operands, sum "gemm", epilogue "post")
    with `knobs` (default: `choose_knobs`).

    Statement "gemm" multiplies types that an `mma` multiplies: 16-bit floats, 8-bit integers, or float32 rounded to
    tf32 (`te.ops.product.round_factors`). A stage is one copy of a box (rectangle of elements), or a nest of loops
    around a copy of one element. `constants`: parameters whose arrays are packed ahead (`schedule.pack.pack_arrays`).
    Raises LegalityError for other programs, or if the knobs do not fit together.
    """
    a, b = factors(program)
    knobs = knobs or choose_knobs(target, described(program))
    if (reason := knobs.obstacle(a.dtype, matrix=(a.matrix, b.matrix))) is not None:
        raise LegalityError(f"cannot tile {program.name} for tensor cores: {reason}", program, "gemm")
    s = Schedule(program)
    rounds = [not _round_ahead(s, factor, constants) for factor in (a, b)]
    partial = knobs.splits > 1
    statement, i, j, k, grid = whole_tiles(s, knobs.rows, knobs.columns, knobs.depth, knobs.splits)
    i0, i = s.split(i, knobs.rows)
    j0, j = s.split(j, knobs.columns)
    k0, k = s.split(k, knobs.depth)
    wi, i = s.split(i, knobs.warp_rows)
    wj, j = s.split(j, knobs.warp_columns)
    mi, i = s.split(i, ROWS)
    nj, j = s.split(j, COLUMNS)
    kt, k = s.split(k, depth_of(a.dtype))
    s.reorder(*grid, i0, j0, k0, wi, wj, kt, mi, nj, i, j, k)
    blocks, tile = blocks_in_groups(s, grid, i0, j0, knobs.group)

    sums = s.cache_write("sum.rf" if partial else "sum", tile, MATRIX_C)
    s.decompose_reduction(statement, k0)
    held = [s.cache_read(f.name, kt, scope) for f, scope in ((a, MATRIX_A), (b, MATRIX_B))]
    share_stages(s, (a, b), k0, None if partial else tile)
    _load_fragments(s, a, held[0], MATRIX_A, rounds=rounds[0])
    _load_fragments(s, b, held[1], MATRIX_B, rounds=rounds[1])
    store_loop = _keep_sums(s, sums, knobs)
    total = sum_type(a.dtype)
    s.tensorize(i, mma(a.dtype, b.dtype))
    s.tensorize(f"{i}.init", zero(total))
    s.tensorize(store_loop, store(total, "dram" if partial else "shared"))
    for loop in (kt, mi, nj, f"{mi}.init", f"{nj}.init"):
        s.unroll(loop)

    bind_grid(s, blocks, (grid, i0, j0), wi, wj)
    if not partial:
        _finish(s, knobs)
    axes = ((Z, knobs.warps[0]), (Y, knobs.warps[1]), (X, WARP))
    for factor in (a, b):
        fetch(s, factor.name, k0, axes, 128 // factor.dtype.bits, constants)
    if (stages := min(knobs.stages, extent_of(s, k0))) > 1:
        s.pipeline(k0, stages)
    for factor in (a, b):
        widen_rows(s, factor.name, matrix=factor.matrix)
    if not partial:
        widen_rows(s, "sum", matrix=False)
    return s


def is_half(program: Program) -> bool:
    """Whether statement "gemm" multiplies float16 or bfloat16, which tensor cores multiply without rounding them."""
    reduce = find_statement(program, "gemm")
    loads = loads_in(reduce.value) if isinstance(reduce, Reduce) else []
    return bool(loads) and all(load.buffer.dtype in (DType.FLOAT16, DType.BFLOAT16) for load in loads)


def factors(program: Program) -> tuple[Factor, Factor]:
    """The left and right factor, `a` and `b`, of a program's product. Raises LegalityError if the product does not have
    the form that `schedule` requires.
    """
    reduce = find_statement(program, "gemm")
    loads = loads_in(reduce.value) if isinstance(reduce, Reduce) else []
    if [load.buffer.name for load in loads] != ["a", "b"]:
        raise LegalityError("the statement gemm is not a sum of products of a and b", program, "gemm")
    a, b = _factor(program, loads[0], "gemm.i"), _factor(program, loads[1], "gemm.j")
    if (a.dtype, b.dtype) not in FACTORS:
        raise LegalityError(f"no mma instruction multiplies {a.dtype} by {b.dtype}", program, "gemm")
    return a, b


def _factor(program: Program, load: Load, data: str) -> Factor:
    variables = (Var(data), Var("gemm.k"))
    if any(v not in load.indices for v in variables):
        raise LegalityError(f"{load.buffer.name} is not indexed by {data} and gemm.k", program, "gemm")
    return Factor(
        name=load.buffer.name,
        dtype=load.buffer.dtype,
        rank=len(load.indices),
        data=load.indices.index(variables[0]),
        depth=load.indices.index(variables[1]),
    )


def described(program: Program) -> Factors:
    """The sizes and types of a program's product, for the choice of knobs."""
    a, b = factors(program)
    s = Schedule(program)
    rows, columns, depth = (extent_of(s, f"gemm.{d}") for d in "ijk")
    batch = 1
    for loop in loops_around(s, "gemm"):
        if loop not in ("gemm.i", "gemm.j", "gemm.k"):
            batch *= extent_of(s, loop)
    return Factors(
        rows=rows,
        columns=columns,
        depth=depth,
        batch=batch,
        dtype=a.dtype,
        matrix=(a.matrix, b.matrix),
        along_depth=(a.along_depth, b.along_depth),
    )


def blocks_in_groups(
    s: Schedule, grid: list[str], i: str, j: str, group: int
) -> tuple[list[tuple[str, LoopKind]], str]:
    """Changes the order in which blocks compute the tiles of a product: `group` tiles that lie one below the other get
    successive block numbers. `i`, `j`: loops over the rows and the columns of tiles. `grid`: loops around the tiles.
    Tiles are not grouped if `grid` has a loop, if `group` is 1 or does not divide the rows of tiles, or if the grid
    would exceed CUDA's limits.

    Blocks that run at the same time share fetched data in the second-level cache; they share most if their tiles cover
    a square of the result. Blocks start in the order of their numbers, x fastest. Returns (loop, axis of blocks) for
    each loop over tiles (empty if tiles are not grouped), and the innermost of these loops.
    """
    beyond = extent_of(s, j) > GRID_LIMITS["y"] or extent_of(s, i) // group > GRID_LIMITS["z"]
    if grid or group == 1 or extent_of(s, i) % group or beyond:
        return [], j
    i, inner = s.split(i, group)
    s.reorder(i, j, inner)
    return [(i, "block.z"), (j, "block.y"), (inner, "block.x")], inner


def share_stages(s: Schedule, factors: Sequence[Factor], k0: str, tile: str | None) -> None:
    """Moves the copies of the factors' slices into loop `k0`, in shared memory, and the computation of results ("post")
    into loop `tile`, after the sums (None: a separate kernel computes results).
    """
    if tile is not None:
        behind = [loop for loop in loops_around(s, "post") if loop not in ("i", "j")]
        s.reverse_compute_at("post", tile)
        drop_single(s, behind)
        s.set_scope("sum", "shared")
    for factor in factors:
        s.compute_at(factor.name, k0)
        s.set_scope(factor.name, "shared")


def bind_grid(
    s: Schedule,
    blocks: Sequence[tuple[str, LoopKind]],
    grid: tuple[Sequence[str], str, str],
    rows: str,
    columns: str,
) -> None:
    """Binds the loops over tiles to blocks, and the loops `rows` and `columns` over the warps of a tile to threads of
    axes z and y. `blocks`: the pairs that `blocks_in_groups` returns; if empty, `bind_blocks` binds `grid`: (loops
    around the tiles, loop over rows of tiles, loop over columns of tiles).
    """
    if blocks:
        bind_all(s, *blocks)
    else:
        bind_blocks(s, *grid)
    bind_all(s, (rows, Z), (columns, Y), (f"{rows}.init", Z), (f"{columns}.init", Y))


def _round_ahead(s: Schedule, factor: Factor, constants: Sequence[str]) -> bool:
    """Moves the rounding of a float32 factor to tf32 out of the kernel: the arrays of `constants` are rounded when they
    are packed. Returns False, and leaves the kernel as it is, for a factor that is not a copy of a constant, or whose
    constant has other readers.
    """
    copy = path_to(s.program, factor.name)[-1]
    if factor.dtype is not DType.FLOAT32 or not isinstance(copy, Copy):
        return False
    if copy.source.buffer.name not in constants:
        return False
    try:
        s.compute_early(copy.source.buffer.name, "round_tf32")
    except LegalityError:
        return False
    return True


def _load_fragments(s: Schedule, factor: Factor, name: str, scope: str, *, rounds: bool) -> None:
    """Replaces the copy `name` of a factor's elements, for one step in depth, by instructions that load fragments
    (tensorization). `scope`: MATRIX_A for the left factor, MATRIX_B for the right one. `rounds`: the instructions round
    float32 to tf32.
    """
    s.expand_copy(name)
    data, depth = f"{name}.{factor.data}", f"{name}.{factor.depth}"
    size = ROWS if scope == MATRIX_A else COLUMNS
    tiles, data = s.split(data, size)
    around = [tiles]
    if scope == MATRIX_B and factor.matrix:
        around = list(s.split(tiles, 2))
    s.reorder(*around, *((data, depth) if scope == MATRIX_A else (depth, data)))
    others = tuple(d for d in range(factor.rank) if d not in (factor.data, factor.depth))
    inside = (factor.rank, factor.depth) if scope == MATRIX_A else (factor.depth, factor.rank)
    s.pack(name, ((factor.data, size),), (*others, factor.data, *inside))
    if factor.dtype is DType.FLOAT32 and rounds:
        s.compute_early(name)
    order: Order = "rows" if factor.along_depth == (scope == MATRIX_A) else "columns"
    if scope == MATRIX_A:
        s.tensorize(data, load_a(factor.dtype, order, matrix=factor.matrix, rounds=rounds))
    else:
        first = around[-1] if factor.matrix else depth
        s.tensorize(first, load_b(factor.dtype, order, matrix=factor.matrix, rounds=rounds))
    s.unroll(around[0])
    drop_single(s, [f"{name}.{d}" for d in others])


def _keep_sums(s: Schedule, sums: str, knobs: Knobs) -> str:
    """Divides the buffer `sums` into the fragments (16 x 8 elements) that a warp holds in registers, and splits the
    loops of the copy from `sums` to memory in the same way.

    The buffer becomes [..., warps along rows, warps along columns, fragments along rows, fragments along columns, 16,
    8]; the last four dimensions belong to a warp. Returns the loop around one fragment's copy.
    """
    s.expand_copy(sums)
    rank = len(allocated(s, sums).shape)
    loops: list[str] = []
    for d, warp, size in ((rank - 2, knobs.warp_rows, ROWS), (rank - 1, knobs.warp_columns, COLUMNS)):
        own, inner = s.split(f"{sums}.{d}", warp)
        loops += [own, *s.split(inner, size)]
    s.reorder(*loops[0::3], *loops[1::3], *loops[2::3])
    drop_single(s, [f"{sums}.{d}" for d in range(rank - 2)])
    s.pack(sums, ((rank - 2, knobs.warp_rows), (rank - 1, knobs.warp_columns)), tuple(range(rank + 2)))
    s.pack(sums, ((rank, ROWS), (rank + 1, COLUMNS)), tuple(range(rank + 4)))
    bind_all(s, (loops[0], Z), (loops[3], Y))
    for loop in (loops[1], loops[4]):
        s.unroll(loop)
    return loops[2]


def _finish(s: Schedule, knobs: Knobs) -> None:
    """Binds the computation of the results to threads: each warp computes rows of the tile, each lane adjacent
    elements.
    """
    columns = s.program.parameters[-1].shape[-1]
    vector = 4
    while vector > 1 and (columns % vector or knobs.columns // WARP < vector):
        vector //= 2
    j, lane = s.split("j", vector)
    width = knobs.columns // vector
    width = -(-width // WARP) * WARP if width > WARP else width
    guards = [s.guard("i", knobs.rows), s.guard(j, width)]
    guards = [loop for loop in guards if loop in loops_around(s, "post")]
    i, row = s.split("i", knobs.rows // (knobs.warps[0] * knobs.warps[1]))
    wi, wj = s.split(i, knobs.warps[1])
    part, j = s.split(j, WARP)
    s.reorder(wi, wj, j, row, part, *guards, lane)
    s.vectorize(lane)
    bind_all(s, (wi, Z), (wj, Y), (j, X))
    drop_single(s, [part, row])


def bind_all(s: Schedule, *loops: tuple[str, LoopKind]) -> None:
    """Binds each of `loops`, (loop, axis), to its axis of blocks or threads."""
    for loop, axis in loops:
        s.bind(loop, axis)


def widen_rows(s: Schedule, buffer: str, *, matrix: bool) -> None:
    """Pads the rows of a tile in shared memory so that accesses have no bank conflicts. `matrix`: `ldmatrix` loads the
    tile.
    """
    held = allocated(s, buffer)
    s.widen(buffer, len(held.shape) - 1, room(held.shape[-1], held.dtype, matrix=matrix))


AXES = (
    Axis(name="warp_rows", values=(16, 32, 48, 64, 96, 128)),
    Axis(name="warp_columns", values=(16, 32, 48, 64, 96, 128)),
    Axis(name="warps_y", values=(1, 2, 4, 8)),
    Axis(name="warps_x", values=(1, 2, 4, 8)),
    Axis(name="steps", values=(1, 2, 3, 4, 6, 8)),
    Axis(name="stages", values=(1, 2, 3, 4, 5, 6)),
    Axis(name="splits", values=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32)),
    Axis(name="group", values=(1, 2, 4, 8)),
)
"""Knobs of the search space. Fields of `Knobs` have their own names, with three exceptions: the size of a block's tile
is the size of a warp's tile times the block's numbers of warps, "warps_y" and "warps_x"; and "steps" is the depth of a
slice in multiples of an `mma` instruction's depth.
"""


def _values(factors: Factors, knobs: Knobs) -> dict[str, int]:
    return {
        "warp_rows": knobs.warp_rows,
        "warp_columns": knobs.warp_columns,
        "warps_y": knobs.warps[0],
        "warps_x": knobs.warps[1],
        "steps": knobs.depth // depth_of(factors.dtype),
        "stages": knobs.stages,
        "splits": knobs.splits,
        "group": knobs.group,
    }


def _points(factors: Factors, columns: Columns) -> Knobs:
    rows = columns["warp_rows"] * columns["warps_y"]
    return Knobs(
        rows=rows,
        columns=columns["warp_columns"] * columns["warps_x"],
        depth=columns["steps"] * depth_of(factors.dtype),
        warp_rows=columns["warp_rows"],
        warp_columns=columns["warp_columns"],
        stages=columns["stages"],
        group=group_of(factors, rows, columns["group"]),
        splits=columns["splits"],
    )


def _cost(target: GpuTarget, factors: Factors, columns: Columns) -> CostEstimates:
    points = _points(factors, columns)
    # Stages beyond the number of slices, and groups that do not divide the number of tiles, have no effect.
    stages = np.minimum(points.stages, slices_of(factors, points))
    found = cycles(target, factors, points), resident(target, factors, points)
    effective = {**columns, "stages": stages, "group": points.group}
    return product_cost(target, factors, points, limits(target, factors, points), found, effective)


TUNED = Tuned(
    name="gemm_mma_cuda",
    sizes=lambda workload: described(workload.expression),
    axes=lambda _: AXES,
    cost=_cost,
    choose=choose_knobs,
    knobs=lambda factors, values: setting(_points(factors, one_point(values)), 0),
    values=_values,
    schedule=lambda target, workload, knobs: schedule(
        target, workload.expression, knobs, constants=workload.constants
    ),
    floor_values={"steps": 1, "stages": 1, "splits": 1, "group": 1},
)

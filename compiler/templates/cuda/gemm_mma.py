"""Matrix products on tensor cores: every warp of a block multiplies fragments of tiles that all of them fetch.

A block computes one tile of the result. Slices of its factors go through shared memory, several on the way at a time;
warps in two dimensions (thread.z, thread.y) load fragments of them and sum up in registers; the sums go back through
shared memory, so that what follows is computed and written by rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.affine import is_multiple
from ...ir.expr import Const, Load, Var
from ...ir.stmt import Alloc, Copy, LoopKind, Program, Reduce
from ...ir.types import DType
from ...ir.visit import enclosing_loops, find_loop, find_statement, loads_in, walk
from ...schedule import LegalityError, Schedule
from ...target.cuda.machine import CudaTarget
from ...target.cuda.mma import Order, load_a, load_b, mma, store, sum_type, zero
from ...target.cuda.mma_fragments import COLUMNS, MATRIX_A, MATRIX_B, MATRIX_C, ROWS, WARP, depth_of
from .gemm_mma_knobs import Factors, Knobs, choose_knobs, room

Z, Y, X = "thread.z", "thread.y", "thread.x"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Factor:
    """How a factor lies: its buffer's dimensions of the tile's rows or columns and of the depth, and its type."""

    name: str
    dtype: DType
    data: int
    depth: int

    @property
    def rank(self) -> int:
        """The number of dimensions, those of a batch included."""
        return max(self.data, self.depth) + 1

    @property
    def along_depth(self) -> bool:
        """Whether neighbours in memory are neighbours in depth."""
        return self.depth > self.data

    @property
    def matrix(self) -> bool:
        """Whether `ldmatrix` can load it."""
        return self.along_depth or self.dtype.bits == 16


def schedule(target: CudaTarget, program: Program, knobs: Knobs | None = None) -> Schedule:
    """`te.ops.tensor_gemm`, or a program of that form, scheduled with `knobs` (default: `choose_knobs`).

    The form: stages a and b filled by one copy each, sum, post; "gemm" multiplies types that an `mma` multiplies,
    float32 rounded to tf32 (`te.ops.tensor_gemm.round_factors`). LegalityError where the program is none such, or the
    knobs do not fit together.
    """
    a, b = factors(program)
    knobs = knobs or choose_knobs(target, described(program))
    if (reason := knobs.obstacle(a.dtype, matrix=(a.matrix, b.matrix))) is not None:
        raise LegalityError(f"cannot tile {program.name} for tensor cores: {reason}", program, "gemm")
    s = Schedule(program)
    for loop, size in (("gemm.i", knobs.rows), ("gemm.j", knobs.columns), ("gemm.k", knobs.depth)):
        s.pad(loop, size)
    total, depth = sum_type(a.dtype), depth_of(a.dtype)
    outer = [loop.name for loop in enclosing_loops(s.program, "gemm.i")]
    i0, i = s.split("gemm.i", knobs.rows)
    j0, j = s.split("gemm.j", knobs.columns)
    k0, k = s.split("gemm.k", knobs.depth)
    wi, i = s.split(i, knobs.warp_rows)
    wj, j = s.split(j, knobs.warp_columns)
    mi, i = s.split(i, ROWS)
    nj, j = s.split(j, COLUMNS)
    kt, k = s.split(k, depth)
    s.reorder(i0, j0, k0, wi, wj, kt, mi, nj, i, j, k)
    blocks, tile = _blocks(s, outer, i0, j0, knobs.group)

    sums = s.cache_write("sum", tile, MATRIX_C)
    s.decompose_reduction("gemm", k0)
    held = [s.cache_read(f.name, kt, scope) for f, scope in ((a, MATRIX_A), (b, MATRIX_B))]
    s.reverse_compute_at("post", tile)
    for factor in (a, b):
        s.compute_at(factor.name, k0)
        s.set_scope(factor.name, "shared")
    s.set_scope("sum", "shared")
    _load_fragments(s, a, held[0], MATRIX_A)
    _load_fragments(s, b, held[1], MATRIX_B)
    _keep_sums(s, sums, knobs)
    s.tensorize(i, mma(a.dtype, b.dtype))
    s.tensorize(f"{i}.init", zero(total))
    for loop in (kt, mi, nj, f"{mi}.init", f"{nj}.init"):
        s.unroll(loop)
    _store_sums(s, sums, total, knobs)

    for loop, axis in blocks:
        s.bind(loop, axis)
    widths = [_share(s, factor, knobs) for factor in (a, b)]
    for loop, axis in ((wi, Z), (wj, Y)):
        s.bind(loop, axis)
        s.bind(f"{loop}.init", axis)
    _finish(s, knobs)
    # Asynchronous copies are of 4, 8 or 16 bytes.
    if knobs.stages > 1 and all(w * f.dtype.bits >= 32 for w, f in zip(widths, (a, b), strict=True)):
        s.pipeline(k0, knobs.stages)
    for factor in (a, b):
        _widen(s, factor.name, factor.matrix)
    _widen(s, "sum", False)
    return s


def factors(program: Program) -> tuple[_Factor, _Factor]:
    """The factors of a program's product. LegalityError if it has not the form that `schedule` takes."""
    reduce = find_statement(program, "gemm")
    loads = loads_in(reduce.value) if isinstance(reduce, Reduce) else []
    if [load.buffer.name for load in loads] != ["a", "b"]:
        raise LegalityError("gemm is not a sum of products of a and b", program, "gemm")
    return _factor(loads[0], "gemm.i"), _factor(loads[1], "gemm.j")


def _factor(load: Load, data: str) -> _Factor:
    return _Factor(
        name=load.buffer.name,
        dtype=load.buffer.dtype,
        data=load.indices.index(Var(data)),
        depth=load.indices.index(Var("gemm.k")),
    )


def described(program: Program) -> Factors:
    """The sizes of a product, from which knobs are chosen."""
    a, b = factors(program)
    sizes = [find_loop(program, f"gemm.{d}").extent for d in "ijk"]
    rows, columns, depth = (int(e.value) for e in sizes if isinstance(e, Const))
    batch = 1
    for loop in enclosing_loops(program, "gemm.i"):
        batch *= int(loop.extent.value) if isinstance(loop.extent, Const) else 1
    return Factors(
        rows=rows, columns=columns, depth=depth, batch=batch, dtype=a.dtype, matrix=(a.matrix, b.matrix)
    )


def _blocks(
    s: Schedule, outer: list[str], i: str, j: str, group: int
) -> tuple[list[tuple[str, LoopKind]], str]:
    """The axes of blocks that the loops over tiles, and the innermost of a batch's, will be, and the innermost loop.

    Blocks that run at the same time share what they fetch in the second level cache, the more the nearer to a square
    their tiles are. They start in the order of their numbers, x fastest: `group` tiles one below the other come first.
    """
    rows = find_loop(s.program, i).extent
    if outer:
        return [(outer[-1], "block.z"), (i, "block.y"), (j, "block.x")], j
    if group == 1 or not isinstance(rows, Const) or int(rows.value) % group:
        return [(i, "block.y"), (j, "block.x")], j
    i, inner = s.split(i, group)
    s.reorder(i, j, inner)
    return [(i, "block.z"), (j, "block.y"), (inner, "block.x")], inner


def _load_fragments(s: Schedule, factor: _Factor, name: str, scope: str) -> None:
    """Makes loads of fragments of the copy `name`, which takes what one step in depth needs of a factor."""
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
    if factor.dtype is DType.FLOAT32:
        s.compute_early(name)
    order: Order = "rows" if factor.along_depth == (scope == MATRIX_A) else "columns"
    if scope == MATRIX_A:
        s.tensorize(data, load_a(factor.dtype, order, matrix=factor.matrix))
    else:
        first = around[-1] if factor.matrix else depth
        s.tensorize(first, load_b(factor.dtype, order, matrix=factor.matrix))
    s.unroll(around[0])


def _keep_sums(s: Schedule, sums: str, knobs: Knobs) -> None:
    """Gives every warp its part of the sums, in whole fragments: [..., warps, warps, tiles, tiles, 16, 8]."""
    s.expand_copy(sums)
    rank = len(_allocated(s.program, sums))
    rows, columns = rank - 2, rank - 1
    loops: list[str] = []
    for d, warp, size in ((rows, knobs.warp_rows, ROWS), (columns, knobs.warp_columns, COLUMNS)):
        own, inner = s.split(f"{sums}.{d}", warp)
        loops += [own, *s.split(inner, size)]
    s.reorder(*loops[0::3], *loops[1::3], *loops[2::3])
    lead = tuple(range(rows))
    s.pack(sums, ((rows, knobs.warp_rows), (columns, knobs.warp_columns)), tuple(range(rank + 2)))
    s.pack(sums, ((rank, ROWS), (rank + 1, COLUMNS)), tuple(range(rank + 4)))
    s.set_scope(sums, MATRIX_C)
    assert len(lead) == rank - 2


def _store_sums(s: Schedule, sums: str, total: DType, knobs: Knobs) -> None:
    """Sends the fragments of sums back to shared memory."""
    rank = len(_allocated(s.program, "sum"))
    for d, axis in ((rank - 2, Z), (rank - 1, Y)):
        s.bind(f"{sums}.{d}.0", axis)
        s.unroll(f"{sums}.{d}.1.0")
    s.tensorize(f"{sums}.{rank - 2}.1.1", store(total))


def _share(s: Schedule, factor: _Factor, knobs: Knobs) -> int:
    """Shares the copy of a factor's slice out to the threads; how many elements each copies at a time."""
    copy = find_statement(s.program, factor.name)
    if not isinstance(copy, Copy):
        raise LegalityError(f"{factor.name} is not filled by one copy", s.program, factor.name)
    width = 128 // factor.dtype.bits
    inner = copy.destination.extents[-1]
    while width > 1 and not (
        isinstance(inner, Const)
        and int(inner.value) % width == 0
        and copy.source.buffer.shape[-1] % width == 0
        and is_multiple(copy.source.starts[-1], width)
    ):
        width //= 2
    s.share_copy(factor.name, ((Z, knobs.warps[0]), (Y, knobs.warps[1]), (X, WARP)), width)
    return width


def _finish(s: Schedule, knobs: Knobs) -> None:
    """Shares the computation of the results out: each warp takes rows of the tile, each lane neighbours in them."""
    columns = s.program.parameters[-1].shape[-1]
    vector = 4
    while vector > 1 and (columns % vector or knobs.columns // WARP < vector):
        vector //= 2
    j, lane = s.split("j", vector)
    s.guard("i", knobs.rows)
    s.guard(j, knobs.columns // vector)
    warps = knobs.warps[0] * knobs.warps[1]
    rows = max(1, knobs.rows // warps)
    i, row = s.split("i", rows)
    wi, wj = s.split(i, knobs.warps[1])
    part, j = s.split(j, WARP)
    s.reorder(wi, wj, j, row, part, "i.in", f"{j.removesuffix('.1')}.in", lane)
    s.vectorize(lane)
    for loop, axis in ((wi, Z), (wj, Y), (j, X)):
        s.bind(loop, axis)


def _widen(s: Schedule, buffer: str, matrix: bool) -> None:
    shape = _allocated(s.program, buffer)
    dtype = next(n.buffer.dtype for n in walk(s.program) if isinstance(n, Alloc) and n.buffer.name == buffer)
    s.widen(buffer, len(shape) - 1, room(shape[-1], dtype, matrix=matrix))


def _allocated(program: Program, buffer: str) -> tuple[int, ...]:
    return next(n.buffer.shape for n in walk(program) if isinstance(n, Alloc) and n.buffer.name == buffer)

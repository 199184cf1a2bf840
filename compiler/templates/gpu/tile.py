"""Tiles of sums of products on a GPU: blocks of threads, each thread with a tile of sums in its registers.

Every program with the stages of `te.ops.product` (operands `a` and `b`, the sum "gemm" over gemm.i, gemm.j, gemm.k into
`sum`, "post" in loops i and j) is scheduled here: dense layers, products, convolutions as products. A block computes
`rows` x `columns` sums; all its threads together fetch tiles of the operands, `depth` long, into shared memory, ahead
of their use if there are several `stages`; every thread multiplies rows of one operand with columns of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...codegen.cuda.architectures import GRID_LIMITS
from ...ir.affine import linear_form
from ...ir.expr import Const
from ...ir.stmt import Copy, For, Program, Reduce
from ...ir.visit import free_vars, loads_in, path_to
from ...schedule import LegalityError, Schedule
from ...schedule.share_copy import Axes
from .split_axes import cut, drop_single, extent_of, loops_around, pack_digits, shape_of, unroll

VECTOR = 4
"""Float32 elements of the widest access, of 16 bytes (CUDA C++ Programming Guide, "Device Memory Accesses")."""
BYTE_BITS = 8
"""Width in bits of the element type (bytes) for which a thread combines several adjacent elements into one copy. A copy
of one byte would take as long as a copy of 16 bytes.
"""
REDUCING_THREADS = 256
"""Threads of a block in the kernel that adds up partial sums; they share no data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """The tiling of a sum of products; all sizes are in elements.

    A block computes `rows` x `columns` sums in steps of `depth`; each thread computes `thread_rows` x `thread_columns`.
    A thread's sums are divided into `row_groups` x `column_groups` pieces; the pieces of all threads are interleaved,
    so that adjacent threads read adjacent vectors. `stages`: number of steps whose operands are in shared memory at
    once; with one stage a step waits for its copies, with more the copies run ahead. `splits`: number of blocks that
    share the sum's depth; a second kernel adds up their sums. `width`: number of elements that copies move at once if
    the rows of the source are sufficiently aligned.
    """

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    row_groups: int = 1
    column_groups: int = 1
    stages: int = 2
    splits: int = 1
    width: int = VECTOR

    @property
    def threads(self) -> tuple[int, int]:
        """Threads of a block along y (rows) and along x (columns)."""
        return self.rows // self.thread_rows, self.columns // self.thread_columns

    @property
    def row_counts(self) -> tuple[int, int, int]:
        """Numbers whose product is a block's rows: groups, threads along y, and a thread's rows in one group."""
        return self.row_groups, self.threads[0], self.thread_rows // self.row_groups

    @property
    def column_counts(self) -> tuple[int, int, int]:
        """Numbers whose product is a block's columns: groups, threads along x, a thread's columns in one group."""
        return self.column_groups, self.threads[1], self.thread_columns // self.column_groups

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block, for float32 operands."""
        return 4 * self.stages * self.depth * (self.rows + self.columns)

    def obstacle(self) -> str | None:
        """The reason why these sizes are no legal tile; None if the tile is legal."""
        for name in ("rows", "columns", "depth", "stages", "splits", "width"):
            if getattr(self, name) < 1:
                return f"{name} is {getattr(self, name)}, but must be at least 1"
        for size, own, groups, what in (
            (self.rows, self.thread_rows, self.row_groups, "rows"),
            (self.columns, self.thread_columns, self.column_groups, "columns"),
        ):
            if groups < 1 or own < 1 or own % groups or size % own:
                return f"{size} {what} cannot be divided among threads of {own} {what} in {groups} groups"
        if any(size % self.width for size in (self.depth, self.columns)):
            return f"copies of {self.width} elements do not divide the depth and the columns of a tile"
        return None


def schedule_tile(program: Program, tile: Tile, constants: Sequence[str] = ()) -> Schedule:
    """Schedules a program with the stages of `te.ops.product` (copies of the operands, sum "gemm", epilogue "post") for
    a GPU, tiled by `tile`.

    `constants`: parameters whose arrays are packed ahead (`schedule.pack.pack_arrays`), so that each of their tiles is
    contiguous. Loops whose extent is no multiple of the tile's are padded (`schedule.pad`). A stage is one copy of a
    box (rectangle of elements), or a nest of loops around a copy of one element. Raises ValueError if the sizes of
    `tile` are illegal.
    """
    s = Schedule(program)
    tile_sum(s, tile, constants)
    return s


def whole_tiles(
    s: Schedule, rows: int, columns: int, depth: int, splits: int, tag: str = ""
) -> tuple[str, str, str, str, list[str]]:
    """Pads the sum "gemm" to whole tiles of `rows` x `columns` sums and steps of `depth`. If `splits` > 1, cuts the
    depth of the sum into `splits` parts, whose sums a separate kernel adds up. `tag`: suffix of the stages' names.

    Returns names: (statement that computes tiles, loop over rows of tiles, loop over columns of tiles, loop over the
    depth, [loops around these three loops]).
    """
    statement = f"gemm{tag}"
    i, j, k = (f"gemm.{v}{tag}" for v in ("i", "j", "k"))
    s.pad(k, depth * splits)
    if splits > 1:
        _, k = s.split(k, extent_of(s, k) // splits)
        _add_partial_sums(s, tag)
        statement, i, j = f"{statement}.rf", f"{i}.rf", f"{j}.rf"
    s.pad(i, rows)
    s.pad(j, columns)
    grid = [loop for loop in loops_around(s, statement) if loop not in (i, j, k)]
    return statement, i, j, k, grid


def tile_sum(s: Schedule, tile: Tile, constants: Sequence[str] = (), tag: str = "") -> None:
    """Schedules one of a program's sums, with its operand copies and its epilogue, by `tile`. The names of the sum's
    stages end with `tag`. `constants`: parameters whose arrays are packed ahead. Raises ValueError if the tile is not
    legal.
    """
    if (reason := tile.obstacle()) is not None:
        raise ValueError(f"{tile} is not a valid tile: {reason}")
    partial = tile.splits > 1
    statement, i, j, k, grid = whole_tiles(s, tile.rows, tile.columns, tile.depth, tile.splits, tag)
    i0, *rows = cut(s, i, (extent_of(s, i) // tile.rows, *tile.row_counts))
    j0, *columns = cut(s, j, (extent_of(s, j) // tile.columns, *tile.column_counts))
    k0, *steps = s.split(k, tile.depth)
    vectors = _along_depth(s, statement, f"a{tag}", k0) and tile.depth % VECTOR == 0 and tile.row_groups == 1
    if vectors:
        steps = list(s.split(steps[0], VECTOR))
    vi, ti, ri = rows
    vj, tj, rj = columns
    s.reorder(*grid, i0, j0, k0, ti, tj, *steps, vi, vj, ri, rj)

    last = _store_partial_sums(s, j0, tile, tag) if partial else _store_sums(s, i0, j0, tile, tag)
    s.decompose_reduction(statement, k0)
    # A loop of one iteration sums nothing.
    drop_single(s, [f"{loop}.init" for loop in (k0, *steps)])
    for stage in (f"b{tag}", f"a{tag}"):
        s.compute_at(stage, k0)
        s.set_scope(stage, "shared")
    # nvcc recognizes that pieces of `b` are read again for each group of rows, and reuses the loaded values.
    s.cache_read(f"a{tag}", steps[0] if vectors else vi, "register")
    s.cache_read(f"b{tag}", vj, "register")
    bind_blocks(s, grid, i0, j0)
    start = [f"{loop}.init" for loop in (ti, tj, vi, vj, ri, rj)]
    for threads, others in ((start[:2], start[2:]), ((ti, tj), (*steps, vi, vj, ri, rj)), last):
        for loop, axis in zip(threads, ("thread.y", "thread.x"), strict=True):
            s.bind(loop, axis)
        unroll(s, others)
    axes: Axes = (("thread.y", tile.threads[0]), ("thread.x", tile.threads[1]))
    for stage in (f"b{tag}", f"a{tag}"):
        fetch(s, stage, k0, axes, tile.width, constants)
    if (ready := min(tile.stages, extent_of(s, k0))) > 1:
        s.pipeline(k0, ready)


Phase = tuple[Sequence[str], Sequence[str]]
"""(loops over threads, loops inside): names of the two loops of a nest that become threads along y and x, and of the
loops inside these two.
"""


def _store_sums(s: Schedule, i0: str, j0: str, tile: Tile, tag: str) -> Phase:
    """Moves the statement "post" into the loops over tiles, after the sums that it reads, puts these sums in registers,
    and splits the loops around "post" for the threads. `i0`, `j0`: loops over tiles; `tag`: suffix of the stages'
    names. Returns the loops around "post".
    """
    post, total, row, column = (f"{name}{tag}" for name in ("post", "sum", "i", "j"))
    outside = [loop for loop in loops_around(s, post) if loop not in (row, column)]
    rj = tile.column_counts[2]
    own: list[str] = []
    counts = tile.column_counts
    if 1 < rj < (positions := extent_of(s, column)) and positions % rj == 0:
        # A vector is inside the result as a whole or not at all.
        column, lanes = s.split(column, rj)
        own, counts = [lanes], counts[:2]
    guards = [s.guard(row, tile.rows), s.guard(column, prod(counts))]
    guards = [loop for loop in guards if loop in loops_around(s, post)]
    block_i, vi, ti, ri = cut(s, row, (extent_of(s, row) // tile.rows, *tile.row_counts))
    block_j, vj, tj, *scalar = cut(s, column, (extent_of(s, column) // prod(counts), *counts))
    s.reorder(*outside, block_i, block_j, ti, tj, vi, vj, ri, *scalar, *guards, *own)
    d = len(outside)
    s.set_scope(total, "register")
    for at, counts in ((d + 1, tile.column_counts), (d, tile.row_counts)):
        pack_digits(s, total, at, (shape_of(s, total)[at] // prod(counts), *counts))
    # Dimensions: blocks' rows and columns, threads, groups, a thread's own sums.
    s.pack(total, (), (*range(d), d, d + 4, d + 2, d + 6, d + 1, d + 5, d + 3, d + 7))
    s.reverse_compute_at(post, j0)
    for loop in (*outside, block_i, block_j):
        s.peel(loop)
    for loop in own:
        s.vectorize(loop)
    return (ti, tj), (vi, vj, ri, *scalar)


def _store_partial_sums(s: Schedule, j0: str, tile: Tile, tag: str) -> Phase:
    """Schedules, for one split of the depth, the computation of a tile's partial sums in registers and their stores to
    global memory. `j0`: the innermost loop over tiles; `tag`: suffix of the stages' names. Returns the stores' loops.
    """
    copy = s.cache_write(f"sum{tag}.rf", j0, "register")
    s.expand_copy(copy)
    *outside, i, j = [f"{copy}.{d}" for d in range(len(shape_of(s, copy)))]
    for loop in outside:
        s.peel(loop)
    vi, ti, ri = cut(s, i, tile.row_counts)
    vj, tj, rj = cut(s, j, tile.column_counts)
    s.reorder(ti, tj, vi, vj, ri, rj)
    d = len(outside)
    pack_digits(s, copy, d + 1, tile.column_counts)
    pack_digits(s, copy, d, tile.row_counts)
    s.pack(copy, (), (*range(d), d + 1, d + 4, d, d + 3, d + 2, d + 5))
    if tile.column_counts[2] > 1:
        s.vectorize(rj)
        return (ti, tj), (vi, vj, ri)
    return (ti, tj), (vi, vj, ri, rj)


def _add_partial_sums(s: Schedule, tag: str) -> None:
    """Schedules a second kernel for a product whose depth is divided among blocks: each of its threads adds up the
    partial sums of one element and computes the epilogue "post". `tag`: suffix of the names of the product's
    statements.
    """
    gemm, post, total = (f"{name}{tag}" for name in ("gemm", "post", "sum"))
    s.rfactor(gemm, f"gemm.k{tag}.0")
    *data, parts = loops_around(s, gemm)
    behind = loops_around(s, post)
    s.reverse_compute_at(post, data[-1])
    s.set_scope(total, "register")
    s.decompose_reduction(gemm, parts)
    drop_single(s, behind)
    s.unroll(parts)
    element = data[0]
    for loop in data[1:]:
        element = s.fuse(element, loop)
    block, thread = s.split(element, REDUCING_THREADS)
    s.bind(block, "block.x")
    s.bind(thread, "thread.x")


def fetch(s: Schedule, stage: str, k0: str, axes: Axes, width: int, constants: Sequence[str]) -> None:
    """Distributes the copies of an operand's tile (`stage`) over the block's threads. `k0`: loop over steps of the
    depth. `axes`: (name, size) of the axes of threads. `width`: largest number of elements copied at once. `constants`:
    parameters that are packed before any call.
    """
    path = path_to(s.program, stage)
    copy = path[-1]
    assert isinstance(copy, Copy)
    around = [n.name for n in path if isinstance(n, For)]
    own = around[around.index(k0) + 1 :]
    if not own:
        source = copy.source.buffer.name
        if source in constants:
            _pack_tiles(s, copy, k0)
            copy = path_to(s.program, stage)[-1]
            assert isinstance(copy, Copy)
        s.share_copy(stage, axes, aligned(copy, width))
        return
    runs = _run(s, stage, own[-1], width) if copy.source.buffer.dtype.bits == BYTE_BITS else 1
    if runs > 1:
        own[-1], _ = s.split(own[-1], runs)
    element = own[0]
    for loop in own[1:]:
        element = s.fuse(element, loop)
    counts = [count for _, count in axes]
    guard = s.guard(element, prod(counts))
    step, thread = s.split(element, prod(counts))
    threads = cut(s, thread, counts)
    inside = [guard] if guard in loops_around(s, stage) else []
    s.reorder(*threads, step, *inside)
    for loop, (axis, _) in zip(threads, axes, strict=True):
        s.bind(loop, axis)  # type: ignore[arg-type]
    unroll(s, (step,))
    if runs > 1:
        # Copies of elements, unlike copies of boxes, are provably independent.
        s.box_copy(stage)


def _run(s: Schedule, stage: str, loop: str, width: int) -> int:
    """The number n of adjacent elements that a single copy may move, in place of n copies of one element each in n
    iterations of the innermost loop `loop`. The result is the greatest legal one of `width`, `width` / 2, `width` / 4
    ... 1. `stage`: name of the copying statement.
    """
    while width > 1:
        if extent_of(s, loop) % width == 0:
            trial = Schedule(s.program)
            trial.split(loop, width)
            try:
                trial.box_copy(stage)
            except LegalityError:
                pass
            else:
                return width
        width //= 2
    return 1


def _pack_tiles(s: Schedule, copy: Copy, k0: str) -> None:
    """Packs the source of a copy so that each copied box (rectangle of elements) is contiguous, and boxes along `k0`
    follow one another.
    """
    box = copy.source
    sizes = [int(e.value) if isinstance(e, Const) else 1 for e in box.extents]
    rank = len(sizes)
    tiles = tuple([(d, size) for d, size in enumerate(sizes) if size > 1])
    outer = sorted(range(rank), key=lambda d: k0 in free_vars(box.starts[d]))
    s.pack(box.buffer.name, tiles, (*outer, *range(rank, rank + len(tiles))))


def aligned(copy: Copy, width: int) -> int:
    """The largest n of `width`, `width` / 2, `width` / 4 ... 1 such that every access of a copy begins at a multiple of
    n elements from the start of its array and has a multiple of n elements.
    """
    to, of = copy.destination, copy.source
    sizes = [int(e.value) for e in to.extents if isinstance(e, Const)]
    whole = [size for size in sizes if size != 1]
    while width > 1:
        apart = [of.buffer.shape[-1], *linear_form(of.starts[-1]).terms.values()]
        apart.append(linear_form(of.starts[-1]).constant)
        inner = whole[-1] if whole and sizes[-1] == whole[-1] and of.extents[-1] == to.extents[-1] else 1
        if all(step % width == 0 for step in (*apart, inner)):
            return width
        width //= 2
    return 1


def bind_blocks(s: Schedule, grid: Sequence[str], i0: str, j0: str) -> None:
    """Binds the loops `i0` and `j0` over tiles to blocks along x and y, the longer loop along x, and all loops in
    `grid`, which are around them, along z. If CUDA allows fewer blocks along y or z, all loops are fused along x.
    """
    extra = ""
    for loop in grid:
        extra = s.fuse(extra, loop) if extra else loop
    first, second = sorted((j0, i0), key=lambda loop: -extent_of(s, loop))
    limits = (GRID_LIMITS["y"], GRID_LIMITS["z"])
    if extent_of(s, second) > limits[0] or (extra and extent_of(s, extra) > limits[1]):
        for loop in (i0, j0):
            extra = s.fuse(extra, loop) if extra else loop
        s.bind(extra, "block.x")
        return
    s.bind(first, "block.x")
    s.bind(second, "block.y")
    if extra:
        s.bind(extra, "block.z")


def _along_depth(s: Schedule, statement: str, operand: str, k0: str) -> bool:
    """Whether the buffer `operand`, which the sum `statement` reads, is contiguous along the depth (loop `k0`)."""
    reduce = path_to(s.program, statement)[-1]
    assert isinstance(reduce, Reduce)
    return any(k0 in free_vars(e.indices[-1]) for e in loads_in(reduce.value) if e.buffer.name == operand)

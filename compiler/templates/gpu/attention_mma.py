"""Attention of 16-bit floats on tensor cores in one kernel: the tile of a block, and the schedule of
`te.ops.attention_halves`.

A warp multiplies matrices, and loads their factors, with the operations of `codegen.cuda.mma`. Scores stay in
registers: the lanes that hold a row of scores compute the row's maximum and exponentials. A conversion turns the
exponentials into the left factor of the second product.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...codegen.cuda.architectures import GRID_LIMITS
from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.mma import Order, convert, load_a, load_b, mma, store, zero
from ...codegen.cuda.mma_fragments import MATRIX_A, MATRIX_B, MATRIX_C
from ...codegen.cuda.shuffles import shuffle_neighbours
from ...ir.kernels import WARP
from ...ir.stmt import Copy, Program
from ...ir.types import HALVES, DType
from ...ir.visit import path_to
from ...schedule import Schedule
from ...te.blocks import ceil_div
from ...te.ops.attention_sizes import Attention, Stored
from ...te.ops.attention_warps import DEPTH, ROWS, WarpTile
from . import bind_by_name
from .attention import first_fitting
from .gemm_mma import widen_rows
from .gemm_mma_knobs import room
from .multiprocessor import RESERVED_SHARED_BYTES, power_of_two
from .tile import aligned

MOST_COLUMNS = 128
"""Largest number of columns of Q, K and V. With more columns, a thread has too few registers for its sums and its part
of Q.
"""
WARPS = 4
"""Number of warps of a block with default knobs."""
KEYS = 64
"""Largest number of keys of a split in one step with default knobs. The scores of these keys take 32 registers of a
thread.
"""
F32 = DType.FLOAT32


def fits(target: GpuTarget, sizes: Attention) -> bool:
    """Whether the target computes an attention of 16-bit floats on tensor cores: depth and columns are whole multiples
    of a product's depth up to `MOST_COLUMNS`, a tile fits the shared memory of a block, and the grid is within its
    limits.
    """
    *rest, heads = sizes.batch or (1,)
    widths = (sizes.depth, sizes.columns)
    if sizes.dtype not in HALVES or not target.has("mma") or max(widths) > MOST_COLUMNS:
        return False
    if any(width % DEPTH for width in widths) or max(heads, prod(rest)) > GRID_LIMITS["y"]:
        return False
    return choose_tile(target, sizes) is not None


def choose_tile(target: GpuTarget, sizes: Attention) -> WarpTile | None:
    """The default tile; None if no tile fits the shared memory of a block."""
    tiles = _tiles(target, sizes)
    return first_fitting(target, sizes, tiles, lambda tile: shared_bytes(sizes, tile), RESERVED_SHARED_BYTES)


def _tiles(target: GpuTarget, sizes: Attention) -> Iterator[WarpTile]:
    """The tiles among which `choose_tile` chooses, the largest first; smaller tiles need less shared memory.

    A block has `WARPS` warps. If there would be fewer blocks than multiprocessors, blocks have fewer rows. Warps
    without rows of their own share the keys of other warps (splits), if there are enough keys.
    """
    warps = min(WARPS, power_of_two(ceil_div(sizes.rows, ROWS)))
    while warps > 1 and prod(sizes.batch) * ceil_div(sizes.rows, warps * ROWS) < target.multiprocessors:
        warps //= 2
    splits = WARPS // warps
    while splits > 1 and sizes.keys <= splits // 2 * DEPTH:
        splits //= 2
    while True:
        for stages in (2, 1) if target.has("asynchronous copies") else (1,):
            for most in (KEYS, KEYS // 2, KEYS // 4):
                # As few keys beyond the last one as possible.
                steps = ceil_div(sizes.keys, splits * most)
                keys = ceil_div(sizes.keys, steps * splits * DEPTH) * DEPTH
                yield WarpTile(splits=splits, warps=warps, tiles=1, keys=keys, stages=min(stages, steps))
        if splits > 1:
            splits //= 2
        elif warps > 1:
            warps //= 2
        else:
            return


def shared_bytes(sizes: Attention, tile: WarpTile) -> int:
    """Bytes of shared memory of a block. Q, the keys and values of all stages, and the sums use the same memory one
    after the other, so the largest of the three counts.
    """

    def matrix(stored: Stored, rows: int, columns: int) -> int:
        lines, length = (rows, columns) if stored.by_rows else (columns, rows)
        return lines * room(length, sizes.dtype, matrix=True) * sizes.dtype.bits // 8

    query = matrix(sizes.query, tile.block_rows, sizes.depth)
    key = matrix(sizes.key, tile.step_keys, sizes.depth)
    value = matrix(sizes.value, tile.step_keys, sizes.columns)
    rows = tile.splits * tile.block_rows
    sums = rows * room(sizes.columns, F32, matrix=False) * 4 + 2 * rows * 4 * 4
    return max(query, tile.stages * (key + value), sums)


def schedule(target: GpuTarget, program: Program, sizes: Attention, tile: WarpTile) -> Schedule:
    """Schedules the program that `attention_halves` returns for the same `sizes` and `tile`."""
    s, dtype = Schedule(program), sizes.dtype
    for buffer, scope in _SCOPES:
        s.set_scope(buffer, scope)
    bind_by_name.bind(s)
    s.tensorize("queries.i", load_a(dtype, _order(sizes.query)))
    s.tensorize("scores.u", load_b(dtype, _order(sizes.key, transposed=True)))
    s.tensorize("context.u", load_b(dtype, _order(sizes.value)))
    for loop in ("scores.i", "context.i"):
        s.tensorize(loop, mma(dtype, dtype))
    for loop in ("start.i", "scores.zi"):
        s.tensorize(loop, zero(F32))
    s.tensorize("most.group", shuffle_neighbours("max"))
    s.tensorize("total.group", shuffle_neighbours("add"))
    s.tensorize("context.pt", convert(dtype))
    s.tensorize("give.i", store(F32))
    axes = (("thread.z", tile.splits), ("thread.y", tile.warps), ("thread.x", WARP))
    for name in ("q", "k", "v"):
        copy = path_to(s.program, name)[-1]
        assert isinstance(copy, Copy)
        s.share_copy(name, axes, aligned(copy, 128 // dtype.bits))
    if tile.stages > 1:
        s.pipeline("step", tile.stages)
    for name in ("q", "k", "v"):
        widen_rows(s, name, matrix=True)
    widen_rows(s, "sums", matrix=False)
    return s


_SCOPES = (
    ("queries", MATRIX_A),
    ("scores.k", MATRIX_B),
    ("score", MATRIX_C),
    ("context.p", MATRIX_A),
    ("context.v", MATRIX_B),
    ("sum", MATRIX_C),
)
"""For each buffer of `te.ops.attention_halves` that holds a factor or the sums of a warp's products: the scope (memory)
in which an `mma` instruction needs this matrix.
"""


def _order(stored: Stored, *, transposed: bool = False) -> Order:
    """The order in which elements of a factor or, if `transposed`, of the factor's transpose are stored."""
    return "rows" if stored.by_rows != transposed else "columns"

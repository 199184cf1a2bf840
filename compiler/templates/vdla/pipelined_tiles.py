"""Statements of programs that are written as a software pipeline over tiles (`attention_program`, `normed_program`):
the loop over tiles, buffers, products of the array and stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vdla.isa.config import Config

from ...codegen.vdla import intrinsics
from ...ir.expr import Buffer, Const, Expr, ExprLike, Var, maximum, minimum
from ...ir.stmt import For, Intrinsic, Region, Stmt, nest, region, seq
from ...ir.types import DType
from ...te.blocks import Pair
from ...te.ops.common import CHAIN
from ...te.post import Post

ALWAYS = Const(True, DType.BOOL)
"""The condition of a product that overwrites the accumulators instead of adding to them."""


def pipelined(count: int, *steps: tuple[str, int, Callable[[Expr], Stmt]]) -> Stmt:
    """The loop over `count` tiles as a software pipeline of three stages (0, 1 and 2). A step is (name of the step's
    loop, stage, make). In iteration t a step executes the statement make(t - stage), if a tile has this number.

    The loop therefore has two more iterations than there are tiles.
    """
    t = Var("t")
    runs = (1 - minimum(t // count, 1), minimum(t, 1) - t // (count + 1), minimum(t // 2, 1))
    tiles = [minimum(t if stage == 0 else maximum(t - stage, 0), count - 1) for stage in range(3)]
    body = [For(var=Var(name), extent=runs[stage], body=make(tiles[stage])) for name, stage, make in steps]
    return nest([(t, count + 2)], seq(*body))


def held(name: str, scope: str, *sizes: int, of: Pair, dtype: DType = DType.INT8) -> Buffer:
    """A buffer in scratchpad `scope`, with `sizes` vectors, weight tiles or entries of the shape `of`."""
    return Buffer(name=name, shape=(*sizes, *of), dtype=dtype, scope=scope)


def element(buffer: Buffer, *indices: ExprLike) -> Region:
    """One vector, tile or entry of a buffer: the region at `indices` of the outer dimensions, whole in inner ones."""
    return box(buffer, *((at, 1) for at in indices))


def box(buffer: Buffer, *dimensions: tuple[ExprLike, int]) -> Region:
    """The region of a buffer given by (first, count) of each outer dimension; inner dimensions are whole."""
    return region(buffer, *dimensions, *((0, size) for size in buffer.shape[len(dimensions) :]))


def multiplied(
    config: Config,
    name: str,
    loops: Sequence[tuple[Var, int]],
    operands: tuple[Region, Region, Region],
    first: Expr = ALWAYS,
    zero_points: Pair = (0, 0),
) -> Stmt:
    """The statement of a GEMM inside `loops`. `operands`: accumulators, input vectors and weight tile. `first`: the
    condition under which a product overwrites its accumulators. `zero_points`: values that are subtracted from the
    inputs and from the weights.
    """
    product = Intrinsic(
        name=name,
        declaration=intrinsics.gemm(config, operands[1].buffer.scope, zero_points),
        operands=operands,
        first=first,
        attributes=intrinsics.gemm_attributes(zero_points),
    )
    return nest(loops, product)


def stored(
    config: Config, name: str, loops: Sequence[tuple[Var, int]], post: Post, out: Region, *operands: Region
) -> Stmt:
    """The statement of a STORE.POST inside `loops`. `out`: the output vectors, in DRAM or in the chain memory (on-chip
    memory between layers). `operands`: accumulators, parameter entry, and the table and the second operand if `post`
    has them.
    """
    store = Intrinsic(
        name=name,
        declaration=intrinsics.post(config, post, chained=out.buffer.scope == CHAIN),
        operands=(out, *operands),
        attributes=intrinsics.post_attributes(post),
    )
    return nest(loops, store)


def bank_aligned_blocks(config: Config, blocks: int, tile: Any) -> Any:
    """Number of blocks after which a new accumulator bank begins: `blocks`, rounded up until the next block is in a
    bank of its own. `tile`: accumulators that each block takes.
    """
    bank = config.acc_bank_depth
    return -(-(-(-blocks * tile // bank) * bank) // tile)

"""GEMM and STORE.POST as loop IR bodies, which tensorization matches and the interpreter runs. The accelerator's other
operations are in `window_intrinsics.py` and `alu_intrinsics.py`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vdla.isa.config import Config

from ...ir.expr import FIRST, Buffer, Const, Expr, Load, Var, all_of, cast, equal
from ...ir.stmt import IntrinsicDeclaration, Reduce, nest
from ...ir.types import DType
from ...te.blocks import Blocks, Pair
from ...te.ops.common import CHAIN, Views, post_point
from ...te.post import PoolOperator, Post


def gemm(config: Config, scope: str = "inp", zero_points: Pair = (0, 0)) -> IntrinsicDeclaration:
    """GEMM: acc int32[B, co] += inp int8[B, ci] times the transpose of wgt int8[co, ci]. In the first step of a sum
    (predicate FIRST of the loop IR), the product overwrites acc. B, ci and co are batch, block_in and block_out.

    `scope`: memory of inp, the input scratchpad or the chain memory (on-chip memory between layers). `zero_points`:
    values to subtract from inp and from wgt; if they are not 0, the intrinsic needs the attributes `gemm_attributes`.
    """
    return _gemm(config.batch, config.block_in, config.block_out, scope, zero_points)


def gemm_attributes(zero_points: Pair) -> tuple[tuple[str, int], ...]:
    """The attributes of a `gemm` intrinsic with zero points (of inp, of wgt), for emission; none if both are 0."""
    return tuple(zip(("inp_zero", "wgt_zero"), zero_points, strict=True)) if any(zero_points) else ()


@lru_cache(maxsize=16)
def _gemm(b_size: int, ci: int, co: int, scope: str, zero_points: Pair) -> IntrinsicDeclaration:
    acc = Buffer(name="acc", shape=(b_size, co), dtype=DType.INT32, scope="acc")
    inp = Buffer(name="inp", shape=(b_size, ci), dtype=DType.INT8, scope=scope)
    wgt = Buffer(name="wgt", shape=(co, ci), dtype=DType.INT8, scope="wgt")
    b, j, k = Var("b"), Var("j"), Var("k")
    left = cast(inp[b, k], DType.INT32) - zero_points[0]
    product = left * (cast(wgt[j, k], DType.INT32) - zero_points[1])
    reduce = Reduce(
        name="gemm", op="add", buffer=acc, indices=(b, j), value=product, first=all_of(FIRST, equal(k, 0))
    )
    body = nest([(b, b_size), (j, co), (k, ci)], reduce)
    return IntrinsicDeclaration(name="gemm", parameters=(acc, inp, wgt), body=body)


def post(
    config: Config,
    constants: Post,
    window: Pair = (1, 1),
    pool: PoolOperator = "max",
    *,
    chained: bool = False,
    ring: bool = False,
) -> IntrinsicDeclaration:
    """The intrinsic of STORE.POST, which computes an output vector out int8[B, co] from acc and par int32[2, co] (bias,
    bits of the scale). B and co are batch and block_out. A second operand, if `constants` has one, is int8[B, co].

    acc is int32[B, co], or int32[rows, columns, B, co] for a `window` of several positions, which `pool` (maximum or
    sum) reduces. With `ring`, each row r of the window is an operand of its own, acc.r int32[columns, B, co]: the rows
    form a ring and need not be adjacent in the accumulators. `chained`: out is in the chain memory (on-chip memory
    between layers). A look-up table is one more operand, int8[256].
    """
    lanes = (config.batch, config.block_out)
    out = Buffer(name="out", shape=lanes, dtype=DType.INT8, scope=CHAIN if chained else "dram")
    shape = (*window, *lanes) if ring or window != (1, 1) else lanes
    names = [f"acc.{r}" for r in range(window[0])] if ring else ["acc"]
    sums = [Buffer(name=name, shape=shape[ring:], dtype=DType.INT32, scope="acc") for name in names]
    par = Buffer(name="par", shape=(2, lanes[1]), dtype=DType.INT32, scope="par")
    operand = Buffer(name="operand", shape=lanes, dtype=DType.INT8) if constants.has_operand else None
    table = Buffer(name="table", shape=(256,), dtype=DType.INT8) if constants.table else None

    def accumulator(r: Expr, c: Expr, b: Expr, j: Expr) -> Load:
        if ring and isinstance(r, Const):
            return sums[int(r.value)][c, b, j]
        return sums[0][(r, c, b, j)[-len(shape) :]]

    views = Views(
        out=lambda b, j: out[b, j],
        accumulator=accumulator,
        parameter=lambda row, j: par[row, j],
        operand=None if operand is None else lambda b, j: operand[b, j],
        table=table,
    )
    body = post_point(Blocks.of(config), views, constants, window, pool, ring=ring)
    more = [buffer for buffer in (table, operand) if buffer is not None]
    return IntrinsicDeclaration(name="post", parameters=(out, *sums, par, *more), body=body)


def post_attributes(post: Post, pool: PoolOperator = "max") -> tuple[tuple[str, int], ...]:
    """The attributes of a STORE.POST intrinsic for `post` and `pool`, for emission; float32 values are given as bits.

    The hardware has one zero point register for requantization and combinations other than additions. Raises ValueError
    if both are used and need different zero points.
    """
    attributes = {
        "zero_point": post.zero_point,
        "low": post.low,
        "high": post.high,
        "sum": int(pool == "add"),
    }
    combination = post.combination
    if post.table:
        attributes["table"] = 1
    if combination is not None:
        if post.table:
            attributes["table_zero_point"] = combination.zero_point_self
        elif combination.kind != "add" and (own := combination.zero_point_self) != post.zero_point:
            raise ValueError(f"operand 0 of {combination.kind} has zero point {own}, not {post.zero_point}")
        attributes |= {
            "combine": 1,
            "operand": int(combination.has_operand),
            "multiply": int(combination.kind == "multiply"),
            "swap": int(combination.swap),
            "unsigned": int(combination.unsigned and combination.has_operand),
            "operand_zero_point": combination.zero_point_operand,
            "ratio_self": float_bits(combination.ratio_self),
            "ratio_operand": float_bits(combination.ratio_operand),
            "offset": float_bits(combination.offset),
            "combine_low": combination.low,
            "combine_high": combination.high,
            "combine_zero_point": combination.zero_point,
        }
    return tuple(attributes.items())


def float_bits(value: float) -> int:
    """The bits of `value`, rounded to float32, as an unsigned integer."""
    return int(np.float32(value).view(np.uint32))

"""The accelerator's operations as loop IR bodies, which tensorization matches and the interpreter runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from vdla.isa.alu import AluOpcode, alu_opcodes
from vdla.isa.array_modes import TAPS
from vdla.isa.config import Config

from ...ir.expr import FIRST, Buffer, Const, Expr, Load, Var, all_of, cast, equal, maximum, minimum
from ...ir.stmt import Assign, IntrinsicDeclaration, Reduce, nest
from ...ir.types import DType
from ...te.blocks import Blocks, Pair
from ...te.ops.common import CHAIN, INT32_MIN
from ...te.ops.patches import patch_declaration
from ...te.post import PoolOperator, Post, Views, post_point, rolling_point


def gemm(config: Config, scope: str = "inp", zero_points: Pair = (0, 0)) -> IntrinsicDeclaration:
    """acc int32[B, co] += inp int8[B, ci] times the transpose of wgt int8[co, ci]; acc = instead of += where FIRST is
    true.

    `scope`: memory of inp, the input scratchpad or the chain memory. `zero_points` are subtracted from inp and wgt; use
    `gemm_attributes` with them.
    """
    return _gemm(config.batch, config.block_in, config.block_out, scope, zero_points)


def gemm_attributes(zero_points: Pair) -> tuple[tuple[str, int], ...]:
    """The attributes of a `gemm` intrinsic with zero points, for emission."""
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


def depthwise(config: Config, scope: str = "inp", positions: int = 1) -> IntrinsicDeclaration:
    """Lane by lane, acc int32[B, co] += the sum over t < `positions` of inp int8[positions, B, co] * wgt
    int8[positions, co]; acc = instead of += where FIRST is true.

    With one position (no position dimension) the instruction is DEPTHWISE, with several TAPS. If co is r times ci, a
    position is r input vectors and r rows of weights: inp int8[positions * r, B, ci]. If co is a part of ci, inp and
    wgt are that part of a vector and of a row. `scope`: as in `gemm`.
    """
    b_size, lanes = config.batch, config.block_out
    vectors, narrow = config.position_inputs, min(config.block_in, lanes)
    count = positions * vectors
    # A single vector has no dimension of its own.
    of = () if count == 1 else (count,)
    acc = Buffer(name="acc", shape=(b_size, lanes), dtype=DType.INT32, scope="acc")
    inp = Buffer(name="inp", shape=(*of, b_size, narrow), dtype=DType.INT8, scope=scope)
    wgt = Buffer(name="wgt", shape=(*of, narrow), dtype=DType.INT8, scope="wgt")
    t, b, j = Var("t"), Var("b"), Var("j")
    number = t if vectors == 1 else (t * vectors + j // narrow if positions > 1 else j // narrow)
    lane = j if vectors == 1 else j % narrow
    at = () if count == 1 else (number,)
    product = cast(inp[(*at, b, lane)], DType.INT32) * cast(wgt[(*at, lane)], DType.INT32)
    name, loops, first = "depthwise", [(b, b_size), (j, lanes)], FIRST
    if positions > 1:
        name, loops, first = "taps", [(t, positions), *loops], all_of(FIRST, equal(t, 0))
    reduce = Reduce(name=name, op="add", buffer=acc, indices=(b, j), value=product, first=first)
    return IntrinsicDeclaration(name=name, parameters=(acc, inp, wgt), body=nest(loops, reduce))


def taps(config: Config, scope: str = "inp") -> IntrinsicDeclaration:
    """`depthwise` of TAPS positions."""
    return depthwise(config, scope, TAPS)


def post(
    config: Config,
    constants: Post,
    window: Pair = (1, 1),
    pool: PoolOperator = "max",
    *,
    chained: bool = False,
) -> IntrinsicDeclaration:
    """One vector of STORE.POST: out int8[B, co] from acc, par int32[2, co] and, with a combination, operand int8[B,
    co].

    acc is int32[B, co], or int32[rows, columns, B, co] for a `window` of several positions, reduced by `pool` (maximum
    or sum). `chained`: out is in the chain memory. With a table, int8[256] is one more operand.
    """
    lanes = (config.batch, config.block_out)
    wide = window != (1, 1)
    out = Buffer(name="out", shape=lanes, dtype=DType.INT8, scope=CHAIN if chained else "dram")
    acc = Buffer(name="acc", shape=(*window, *lanes) if wide else lanes, dtype=DType.INT32, scope="acc")
    par = Buffer(name="par", shape=(2, lanes[1]), dtype=DType.INT32, scope="par")
    operand = Buffer(name="operand", shape=lanes, dtype=DType.INT8) if constants.has_operand else None
    table = Buffer(name="table", shape=(256,), dtype=DType.INT8) if constants.table else None
    views = Views(
        out=lambda b, j: out[b, j],
        accumulator=(lambda r, c, b, j: acc[r, c, b, j]) if wide else (lambda r, c, b, j: acc[b, j]),
        parameter=lambda row, j: par[row, j],
        operand=None if operand is None else lambda b, j: operand[b, j],
        table=table,
    )
    body = post_point(Blocks.of(config), views, constants, window, pool)
    more = [buffer for buffer in (table, operand) if buffer is not None]
    return IntrinsicDeclaration(name="post", parameters=(out, acc, par, *more), body=body)


def post_rows(config: Config, constants: Post, window: Pair) -> IntrinsicDeclaration:
    """`post` with the maximum over a window whose rows need not be adjacent in the accumulators (a ring of rows).

    acc.r int32[columns, B, co] is row r of the window.
    """
    lanes = (config.batch, config.block_out)
    out = Buffer(name="out", shape=lanes, dtype=DType.INT8)
    rows = [
        Buffer(name=f"acc.{r}", shape=(window[1], *lanes), dtype=DType.INT32, scope="acc")
        for r in range(window[0])
    ]
    par = Buffer(name="par", shape=(2, lanes[1]), dtype=DType.INT32, scope="par")
    operand = Buffer(name="operand", shape=lanes, dtype=DType.INT8) if constants.has_operand else None

    def accumulator(r: Expr, c: Expr, b: Expr, j: Expr) -> Load:
        assert isinstance(r, Const)
        return rows[int(r.value)][c, b, j]

    views = Views(
        out=lambda b, j: out[b, j],
        accumulator=accumulator,
        parameter=lambda row, j: par[row, j],
        operand=None if operand is None else lambda b, j: operand[b, j],
    )
    body = rolling_point(Blocks.of(config), views, constants, window)
    parameters = (out, par, *rows) if operand is None else (out, par, *rows, operand)
    return IntrinsicDeclaration(name="post_rows", parameters=parameters, body=body)


_OPERATORS: dict[AluOpcode, Callable[[Expr, Expr], Expr]] = {
    AluOpcode.MIN: minimum,
    AluOpcode.MAX: maximum,
    AluOpcode.ADD: lambda left, right: left + right,
    AluOpcode.MUL: lambda left, right: left * right,
    AluOpcode.SUB: lambda left, right: left - right,
}

VECTORS = {f"vector_{opcode.name.lower()}": opcode for opcode in _OPERATORS}
"""The ALU operation of each element-wise intrinsic, by the intrinsic's name."""


def operator(opcode: AluOpcode) -> Callable[[Expr, Expr], Expr]:
    """The loop IR expression of the ALU operation `opcode`, one of VECTORS: the int32 result of left and right."""
    return _OPERATORS[opcode]


def vector(config: Config, opcode: AluOpcode, immediate: int | None = None) -> IntrinsicDeclaration:
    """An ALU operation: acc int32[B, co] = operation(acc, right), where right is src int32[B, co] or the int16
    `immediate`.

    Use it with `vector_attributes(immediate)`. Raises ValueError for an operation that the machine or the loop IR
    lacks.
    """
    if opcode not in _OPERATORS or opcode not in alu_opcodes(config):
        raise ValueError(
            f"configuration {config.name!r} has no intrinsic for the ALU operation {opcode.name}"
        )
    lanes = (config.batch, config.block_out)
    acc = Buffer(name="acc", shape=lanes, dtype=DType.INT32, scope="acc")
    src = Buffer(name="src", shape=lanes, dtype=DType.INT32, scope="acc")
    b, j = Var("b"), Var("j")
    right = src[b, j] if immediate is None else Const(immediate, DType.INT32)
    name = f"vector_{opcode.name.lower()}"
    result = Assign(name=name, buffer=acc, indices=(b, j), value=_OPERATORS[opcode](acc[b, j], right))
    body = nest([(b, lanes[0]), (j, lanes[1])], result)
    return IntrinsicDeclaration(name=name, parameters=(acc, src) if immediate is None else (acc,), body=body)


def vector_attributes(immediate: int | None = None) -> tuple[tuple[str, int], ...]:
    """The attributes of a `vector` intrinsic, for emission. Raises ValueError for an immediate of more than 16 bits."""
    if immediate is None:
        return ()
    if not -(1 << 15) <= immediate < 1 << 15:
        raise ValueError(f"the immediate {immediate} does not fit the 16 bits of an ALU instruction")
    return (("immediate", immediate),)


def fill(config: Config) -> IntrinsicDeclaration:
    """acc int32[B, co] = the least int32: the pads of a max-pool over accumulators."""
    lanes = (config.batch, config.block_out)
    acc = Buffer(name="acc", shape=lanes, dtype=DType.INT32, scope="acc")
    b, j = Var("b"), Var("j")
    least = Const(INT32_MIN, DType.INT32)
    body = nest([(b, lanes[0]), (j, lanes[1])], Assign(name="fill", buffer=acc, indices=(b, j), value=least))
    return IntrinsicDeclaration(name="fill", parameters=(acc,), body=body)


def patch(config: Config, rows: int, run: int) -> IntrinsicDeclaration:
    """One patch of LOAD.PATCH; see `patch_declaration`."""
    return patch_declaration(Blocks.of(config), rows, run)


def post_attributes(post: Post, pool: PoolOperator = "max") -> tuple[tuple[str, int], ...]:
    """The attributes of a post-processing's intrinsic, for emission; float32 values as their bits.

    Raises ValueError if the combination's own zero point differs from stage A's: the hardware has one register for
    both.
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
        elif combination.kind != "add" and combination.zero_point_self != post.zero_point:
            raise ValueError("the zero point of the combination's first operand must be stage A's")
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
    """The bits of a float32 as an unsigned integer."""
    return int(np.float32(value).view(np.uint32))

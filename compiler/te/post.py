"""The store pipeline's post-processing of accumulators, for the operators and for the declaration of the store unit.

Both call `post_point`, so that tensorization, which compares the two expressions, finds them equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..ir.expr import Buffer, Call, Const, Expr, Load, Var, all_of, cast, equal
from ..ir.stmt import Alloc, Assign, Reduce, Stmt, nest, seq
from ..ir.types import DType
from .blocks import Blocks, Pair

PoolOperator = Literal["max", "add"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Stage B: combines the int8 result q ("self") of stage A with a second int8 tensor (rescale: with none).

    add       combine_add(first, second, ratio_first, ratio_second, offset, unsigned, low, high)
    multiply  combine_multiply(first, second, zero_point_first, zero_point_second, ratio_self, zero_point, unsigned,
              low, high)
    rescale   rescale(q, zero_point_self, ratio_self, zero_point, low, high)

    These are functions of `vdla.isa.arithmetic`; q is the first operand, or with `swap` the second. Zero points, `low`
    and `high` are int8 like the stored tensors; ratios and offset are float32.
    """

    kind: Literal["add", "multiply", "rescale"]
    ratio_self: float
    ratio_operand: float = 0.0
    offset: float = 0.0
    zero_point_self: int = 0
    zero_point_operand: int = 0
    zero_point: int = 0
    unsigned: bool = False
    swap: bool = False
    low: int = -128
    high: int = 127

    @property
    def has_operand(self) -> bool:
        """Whether stage B reads a second tensor."""
        return self.kind != "rescale"

    @property
    def only_clamps(self) -> bool:
        """Whether stage B changes no value inside low..high."""
        return self.kind == "rescale" and self.ratio_self == 1 and self.zero_point_self == self.zero_point

    def of_operand(self) -> Combination:
        """The combination with exchanged tensors: stage B works on the operand, and q is the second tensor."""
        add = self.kind == "add"
        return replace(
            self,
            swap=not self.swap,
            ratio_self=self.ratio_operand if add else self.ratio_self,
            ratio_operand=self.ratio_self if add else self.ratio_operand,
            zero_point_self=self.zero_point_operand,
            zero_point_operand=self.zero_point_self,
        )

    def clamped(self, low: int, high: int) -> Combination:
        """The combination followed by a clamp to low..high."""
        return replace(self, **_within(self.low, self.high, low, high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """Constants of the store pipeline: stage A's zero point and limits, and the optional stage B.

    Stage A is `requantize(sum, scale, zero_point, low, high)` of `vdla.isa.arithmetic`; its scales, one for each output
    channel, are data like biases. Zero point and limits are int8 like the stored tensors. With `table`, stage A's
    result is the index in a table T int8 [256], whose entry 0 is for -128; the entry is the input of stage B.
    """

    zero_point: int = 0
    low: int = -128
    high: int = 127
    combination: Combination | None = None
    table: bool = False

    @property
    def has_operand(self) -> bool:
        """Whether stage B reads a second tensor."""
        return self.combination is not None and self.combination.has_operand

    def clamped(self, low: int, high: int) -> Post:
        """The post-processing followed by a clamp to low..high."""
        if self.combination is not None:
            return replace(self, combination=self.combination.clamped(low, high))
        if self.table:
            raise ValueError("what a table gives is clamped in the table")
        return replace(self, **_within(self.low, self.high, low, high))


def _within(inner_low: int, inner_high: int, low: int, high: int) -> dict[str, int]:
    """The limits of a clamp to inner_low..inner_high followed by a clamp to low..high."""
    return {"low": min(max(inner_low, low), high), "high": min(max(inner_high, low), high)}


PLAIN = Post()
"""A post-processing that only rounds and saturates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The accelerator's operands for one output vector, as functions that give an element at a lane (b, j).

    `accumulator` takes (row, column, b, j), with row and column in the window; `parameter` takes (0 for the bias or 1
    for the bits of the scale, j). `table` is T.
    """

    out: Callable[[Expr, Expr], Load]
    accumulator: Callable[[Expr, Expr, Expr, Expr], Load]
    parameter: Callable[[Expr, Expr], Load]
    operand: Callable[[Expr, Expr], Load] | None
    table: Buffer | None = None


def post_value(
    total: Expr,
    scale_bits: Expr,
    operand: Expr | None = None,
    post: Post = PLAIN,
    table: Buffer | None = None,
) -> Expr:
    """The int8 output for an int32 sum that includes the bias, the int32 bits of its float32 scale, the
    operand and T.
    """
    scale = Call("float32_from_bits", (scale_bits,), DType.FLOAT32)
    stage_a = (total, scale, _int8(post.zero_point), _int8(post.low), _int8(post.high))
    q: Expr = Call("requantize", stage_a, DType.INT8)
    if post.table:
        if table is None:
            raise ValueError("a post-processing with a table needs one")
        q = table[cast(q, DType.INT64) + 128,]
    return q if post.combination is None else combined(q, operand, post.combination)


def combined(q: Expr, operand: Expr | None, c: Combination) -> Expr:
    """Stage B of the store unit (add, multiply or rescale, then clamp) on the int8 value `q` and, if `c` has one, on
    `operand`.
    """
    limits = (_int8(c.low), _int8(c.high))
    if c.kind == "rescale":
        arguments = (q, _int8(c.zero_point_self), _float(c.ratio_self), _int8(c.zero_point), *limits)
        return Call("rescale", arguments, DType.INT8)
    if operand is None:
        raise ValueError(f"a combination of kind {c.kind} needs an operand")
    own = (q, c.ratio_self, c.zero_point_self)
    other = (operand, c.ratio_operand, c.zero_point_operand)
    (a, ratio_a, zero_a), (b, ratio_b, zero_b) = (other, own) if c.swap else (own, other)
    unsigned = Const(c.unsigned, DType.BOOL)
    if c.kind == "add":
        arguments = (a, b, _float(ratio_a), _float(ratio_b), _float(c.offset), unsigned, *limits)
        return Call("combine_add", arguments, DType.INT8)
    arguments = (
        a,
        b,
        _int8(zero_a),
        _int8(zero_b),
        _float(c.ratio_self),
        _int8(c.zero_point),
        unsigned,
        *limits,
    )
    return Call("combine_multiply", arguments, DType.INT8)


def post_point(
    blocks: Blocks, views: Views, post: Post, window: Pair = (1, 1), pool: PoolOperator = "max"
) -> Stmt:
    """The statements that compute one output vector: loops b, j around the Assign "post".

    With a window of more than one position, a buffer `window` int32[batch, block_out] first takes the maximum or sum
    over it, in loops window.b, window.j, r, c around the Reduce "pool".
    """
    lanes = (blocks.batch, blocks.block_out)
    if window == (1, 1):
        return _finish(blocks, views, post, lambda b, j: views.accumulator(Const(0), Const(0), b, j))
    values = Buffer(name="window", shape=lanes, dtype=DType.INT32, scope="register")
    b, j, r, c = Var("window.b"), Var("window.j"), Var("r"), Var("c")
    reduce = Reduce.into(
        "pool", pool, values[b, j], views.accumulator(r, c, b, j), all_of(equal(r, 0), equal(c, 0))
    )
    first_stage = nest([(b, lanes[0]), (j, lanes[1]), (r, window[0]), (c, window[1])], reduce)
    last_stage = _finish(blocks, views, post, lambda b, j: values[b, j])
    return Alloc(buffer=values, body=seq(first_stage, last_stage))


def rolling_point(blocks: Blocks, views: Views, post: Post, window: Pair) -> Stmt:
    """`post_point` for a maximum over rows that need not be contiguous (a ring of rows): each row has its own Reduce.

    Row r is read in loops window.r.b, window.r.j, window.r.c.
    """
    lanes = (blocks.batch, blocks.block_out)
    values = Buffer(name="window", shape=lanes, dtype=DType.INT32, scope="register")
    rows: list[Stmt] = []
    for r in range(window[0]):
        b, j, c = (Var(f"window.{r}.{v}") for v in ("b", "j", "c"))
        reduce = Reduce.into(
            f"pool.{r}",
            "max",
            values[b, j],
            views.accumulator(Const(r), c, b, j),
            equal(c, 0) if r == 0 else None,
        )
        rows.append(nest([(b, lanes[0]), (j, lanes[1]), (c, window[1])], reduce))
    return Alloc(buffer=values, body=seq(*rows, _finish(blocks, views, post, lambda b, j: values[b, j])))


def _finish(blocks: Blocks, views: Views, post: Post, total: Callable[[Expr, Expr], Expr]) -> Stmt:
    """Loops b, j around the Assign "post", which finishes the maximum or sum `total` of the accumulators."""
    b, j = Var("b"), Var("j")
    value = post_value(
        total(b, j) + views.parameter(Const(0), j),
        views.parameter(Const(1), j),
        views.operand(b, j) if views.operand is not None else None,
        post,
        views.table,
    )
    out = views.out(b, j)
    assign = Assign.to("post", out, value)
    return nest([(b, blocks.batch), (j, blocks.block_out)], assign)


def _int8(value: int) -> Const:
    return Const(int(value), DType.INT8)


def _float(value: float) -> Const:
    return Const(float(np.float32(value)), DType.FLOAT32)

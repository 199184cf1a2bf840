"""The post-processing of accumulators in the store pipeline, as an expression for the operators and for the hardware
declaration of the store unit.

The operators and the declaration both call `post_point`, so that tensorization, which compares the two expressions,
finds them equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from ..ir.expr import Buffer, Call, Const, Expr, Load, Var, all_of, cast, equal
from ..ir.stmt import Alloc, Assign, Reduce, Stmt, nest, seq
from ..ir.types import DType
from .blocks import Blocks, Pair
from .combination import Combination, combined, limits_within

PoolOperator = Literal["max", "add"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """Constants of the store pipeline: stage A's zero point and limits, and the optional stage B (combination with a
    second tensor).

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
        """Whether the post-processing combines stage A's result with a second tensor in stage B."""
        return self.combination is not None and self.combination.has_operand

    def clamped(self, low: int, high: int) -> Post:
        """The post-processing followed by a clamp to low..high."""
        if self.combination is not None:
            return replace(self, combination=self.combination.clamped(low, high))
        if self.table:
            raise ValueError(
                "a post-processing with a table cannot be clamped; clamp the elements of the table"
            )
        return replace(self, **limits_within(self.low, self.high, low, high))


PLAIN = Post()
"""A post-processing that only rounds and saturates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The accelerator's operands for one output vector, as functions that give an element at batch index b and channel
    j of the vector.

    `accumulator` takes (row, column, b, j), with row and column in the window; `parameter` takes (0 for the bias or 1
    for the bits of the scale, j). `table` is the look-up table T.
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
    """The int8 output for an int32 sum (with bias), the bits of its float32 scale, the operand and the
    look-up table.
    """
    scale = Call("float32_from_bits", (scale_bits,), DType.FLOAT32)
    stage_a = (total, scale, _int8(post.zero_point), _int8(post.low), _int8(post.high))
    q: Expr = Call("requantize", stage_a, DType.INT8)
    if post.table:
        if table is None:
            raise ValueError("a post-processing with a table needs the argument `table`")
        q = table[cast(q, DType.INT64) + 128,]
    return q if post.combination is None else combined(q, operand, post.combination)


def post_point(
    blocks: Blocks, views: Views, post: Post, window: Pair = (1, 1), pool: PoolOperator = "max"
) -> Stmt:
    """The statements that compute one output vector: loops b, j (batch and channel in the vector) around the Assign
    "post".

    With a window of more than one position (row, column), a buffer `window` int32[batch, block_out] first takes the
    maximum or sum over the window, in loops window.b, window.j, r, c around the Reduce "pool".
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
    """The statements of `post_point` for a maximum over window rows that need not be contiguous in memory (a ring of
    rows): each row has its own Reduce.

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
    """Loops b, j (batch and channel in the vector) around the Assign "post", which computes outputs from the maximum or
    sum `total` of the accumulators.
    """
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

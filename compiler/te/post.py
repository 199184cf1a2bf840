"""The post-processing of accumulators in the store pipeline: its constants, and its value as an expression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..ir.expr import Buffer, Call, Const, Expr, cast
from ..ir.types import DType
from .combination import Combination, combined, limits_within

PoolOperator = Literal["max", "add"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """Constants of the store pipeline: stage A's zero point and limits, and the optional stage B (combination with a
    second tensor).

    Stage A is `requantize(sum, scale, zero_point, low, high)` of `vdla.isa.arithmetic`; its scales, one for each output
    channel, are data like biases. Zero point and limits are int8 like the stored tensors. With `table`, stage A's
    result r is replaced by entry r + 128 of a table T, int8 [256], before stage B.
    """

    zero_point: int = 0
    low: int = -128
    high: int = 127
    combination: Combination | None = None
    table: bool = False

    @property
    def has_operand(self) -> bool:
        """Whether the post-processing combines its requantized result with an element of a second tensor."""
        return self.combination is not None and self.combination.has_operand

    def clamped(self, low: int, high: int) -> Post:
        """The post-processing, then a clamp to low..high. Raises ValueError if it has a table but no combination."""
        if self.combination is not None:
            return replace(self, combination=self.combination.clamped(low, high))
        if self.table:
            raise ValueError(
                "a post-processing with a table cannot be clamped; clamp the elements of the table"
            )
        return replace(self, **limits_within(self.low, self.high, low, high))


PLAIN = Post()
"""A post-processing that only rounds and saturates."""


def post_value(
    total: Expr,
    scale_bits: Expr,
    operand: Expr | None = None,
    post: Post = PLAIN,
    table: Buffer | None = None,
) -> Expr:
    """The int8 output of the store pipeline for the int32 sum `total` (with bias). `scale_bits`: the bits of the
    float32 scale; `operand`: element of the second tensor; `table`: the look-up table, if `post` has one.
    """
    scale = Call("float32_from_bits", (scale_bits,), DType.FLOAT32)
    stage_a = (total, scale, _int8(post.zero_point), _int8(post.low), _int8(post.high))
    q: Expr = Call("requantize", stage_a, DType.INT8)
    if post.table:
        if table is None:
            raise ValueError("a post-processing with a table needs the argument `table`")
        q = table[cast(q, DType.INT64) + 128,]
    return q if post.combination is None else combined(q, operand, post.combination)


def _int8(value: int) -> Const:
    return Const(int(value), DType.INT8)

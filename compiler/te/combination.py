"""Stage B of the store unit: the combination of a result with a second tensor, and its expression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..ir.expr import Call, Const, Expr
from ..ir.types import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """The second stage of the store unit. It combines q ("self"), the int8 result of the first stage (requantization),
    with a second int8 tensor; kind "rescale" has no second tensor.

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
        """Whether stage B of the store unit (the combination) reads a second tensor."""
        return self.kind != "rescale"

    @property
    def only_clamps(self) -> bool:
        """Whether the combination only clamps: it does not change values within low..high."""
        return self.kind == "rescale" and self.ratio_self == 1 and self.zero_point_self == self.zero_point

    def of_operand(self) -> Combination:
        """The combination with its two tensors exchanged: the requantized result takes the place of the second tensor,
        and the second tensor takes the place of the requantized result.
        """
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
        return replace(self, **limits_within(self.low, self.high, low, high))


def limits_within(inner_low: int, inner_high: int, low: int, high: int) -> dict[str, int]:
    """The limits ("low" and "high") of the one clamp that equals a clamp to inner_low..inner_high followed by a clamp
    to low..high.
    """
    return {"low": min(max(inner_low, low), high), "high": min(max(inner_high, low), high)}


def combined(q: Expr, operand: Expr | None, c: Combination) -> Expr:
    """The store pipeline's second stage, described by `c`: adds `operand` to the int8 `q`, multiplies both, or rescales
    `q` alone; then clamps. `operand` is None only for kind "rescale". Raises ValueError if another kind lacks its
    operand.
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


def _int8(value: int) -> Const:
    return Const(int(value), DType.INT8)


def _float(value: float) -> Const:
    return Const(float(np.float32(value)), DType.FLOAT32)

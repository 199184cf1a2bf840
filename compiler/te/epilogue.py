"""Epilogues: element-wise operations on a floating-point sum before it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..ir.expr import Const, Expr, maximum, minimum
from ..ir.types import DType

Activation = Literal["none", "relu", "clip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """y = activation(sum + bias + operand), with an optional bias for each column or channel and an optional tensor
    like y.

    Activation "relu" is max(x, 0), "clip" limits x to `low` .. `high`; NaN stays NaN. Other functions, and more
    operands, are fused into the program by `te.fusion`.
    """

    bias: bool = False
    operand: bool = False
    activation: Activation = "none"
    low: float = 0.0
    high: float = 6.0

    @property
    def is_identity(self) -> bool:
        """Whether y is the sum itself."""
        return not self.bias and not self.operand and self.activation == "none"

    def value(self, total: Expr, bias: Expr | None, operand: Expr | None) -> Expr:
        """y for a float32 sum, its bias and its operand (None if there is none)."""
        for term in (bias, operand):
            if term is not None:
                total = total + term
        match self.activation:
            case "relu":
                total = maximum(total, Const(0.0, DType.FLOAT32))
            case "clip":
                total = minimum(
                    maximum(total, Const(float(self.low), DType.FLOAT32)),
                    Const(float(self.high), DType.FLOAT32),
                )
        return total

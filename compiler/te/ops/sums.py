"""A sum and its epilogue: the two loop nests of most operators; pads around the input of a window operator.

alloc total: for outputs: for terms: NAME: total[outputs] += value(outputs, terms)
             for outputs: post: Y[outputs] = finish(total[outputs])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...ir.expr import Buffer, Const, Expr, ExprLike, Var, all_of, equal, maximum, minimum
from ...ir.stmt import Assign, Copy, Program, Reduce, Stmt, allocated, nest, parameters_of, region, seq, whole
from ...ir.types import DType
from ..blocks import Window
from ..post import PoolOperator

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
        """Whether the epilogue leaves the sum unchanged."""
        return not self.bias and not self.operand and self.activation == "none"

    def buffers(self, bias: tuple[int, ...], y_out: Buffer) -> Operands:
        """The parameters that the epilogue of `y_out` reads, in float32: B of the shape `bias`, and R of Y's shape."""
        return Operands(
            epilogue=self,
            bias=Buffer(name="B", shape=bias, dtype=DType.FLOAT32) if self.bias else None,
            operand=Buffer(name="R", shape=y_out.shape, dtype=DType.FLOAT32) if self.operand else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operands:
    """The parameters `bias` (B) and `operand` (R) that an epilogue reads; each is None if the epilogue lacks it."""

    epilogue: Epilogue
    bias: Buffer | None = None
    operand: Buffer | None = None

    def value(self, total: Expr, channel: tuple[ExprLike, ...], at: tuple[ExprLike, ...]) -> Expr:
        """The epilogue's result for a float32 sum. `channel`: indices of its bias in B; `at`: indices of the result."""
        for buffer, index in ((self.bias, channel), (self.operand, at)):
            if buffer is not None:
                total = total + buffer[index]
        match self.epilogue.activation:
            case "relu":
                total = maximum(total, Const(0.0, DType.FLOAT32))
            case "clip":
                low, high = (Const(float(v), DType.FLOAT32) for v in (self.epilogue.low, self.epilogue.high))
                total = minimum(maximum(total, low), high)
        return total


Loops = Mapping[str, int]
"""Extents of loops by name, the outermost first."""
Stage = tuple[Buffer, Stmt]
"""An intermediate tensor and the statement that fills it."""


def summed(
    name: str,
    total: Buffer,
    outputs: Loops,
    terms: Loops,
    value: Callable[..., Expr],
    *,
    op: PoolOperator = "add",
    prefix: str | None = None,
) -> Stmt:
    """The statement `name`: the sum (or maximum) of `value` over `terms` for every element of `total`.

    A loop's name is `prefix` (by default `name` and a dot) and its key in `outputs` or `terms`; `value` gets the loop
    variables in this order.
    """
    prefix = f"{name}." if prefix is None else prefix
    at, of = ([Var(f"{prefix}{loop}") for loop in loops] for loops in (outputs, terms))
    reduce = Reduce.into(
        name, op, total[tuple(at)], value(*at, *of), all_of(*[equal(loop, 0) for loop in of])
    )
    return nest(list(zip([*at, *of], [*outputs.values(), *terms.values()], strict=True)), reduce)


def stored(out: Buffer, outputs: Loops, finish: Callable[..., Expr]) -> Stmt:
    """The loops `outputs` around the statement "post", which stores `finish(*indices)` in each element of `out`."""
    at = [Var(loop) for loop in outputs]
    post = Assign.to("post", out[tuple(at)], finish(*at))
    return nest(list(zip(at, outputs.values(), strict=True)), post)


def program_of(
    name: str, parameters: Sequence[Buffer | None], intermediates: Sequence[Buffer], *statements: Stmt
) -> Program:
    """The program of the statements. Parameters that are None are omitted; the first intermediate is outermost."""
    return Program(
        name=name,
        parameters=parameters_of(*parameters),
        body=allocated(intermediates, seq(*statements)),
    )


def padded_input(x_in: Buffer, window: Window, value: float = 0.0) -> tuple[Buffer, tuple[Stmt, ...]]:
    """The buffer that a window operator reads, and the statements that fill it. Without pads: X, and no statements.
    With pads: a buffer `padded`, and the statement "pad", which copies X into it and sets the other positions to
    `value`.
    """
    if not any(window.pads):
        return x_in, ()
    *outer, height, width, lanes = x_in.shape
    top, left, _, _ = window.pads
    rows, columns = window.padded(height, width)
    padded = Buffer(name="padded", shape=(*outer, rows, columns, lanes), dtype=x_in.dtype)
    copy = Copy(
        name="pad",
        destination=whole(padded),
        source=region(x_in, *((0, size) for size in outer), (-top, rows), (-left, columns), (0, lanes)),
        pad=Const(value, x_in.dtype),
    )
    return padded, (copy,)

"""Sums and maxima along contiguous rows for processors, with vectors of partial results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..ir.expr import Buffer, Const, Expr, Var, maximum, minimum
from ..ir.stmt import Assign, Reduce, Stmt, allocated, nest, seq
from ..ir.types import DType
from .blocks import ceil_div

Operator = Literal["add", "max"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The reduction of a row: its statements, the buffers they use, and the expression of the result."""

    statements: tuple[Stmt, ...]
    buffers: tuple[Buffer, ...]
    result: Expr

    def around(self, rest: Stmt) -> Stmt:
        """The reduction's statements followed by `rest`, which may use the result."""
        return allocated(self.buffers, seq(*self.statements, rest))


def row_width(size: int, widest: int) -> int:
    """Number of partial results for rows of `size` elements: the least power of two that is at least `size`, but at
    most `widest` (a power of two).
    """
    return min(widest, 1 << (size - 1).bit_length()) if size > 1 else 1


def row_loops(name: str, size: int, width: int) -> tuple[Expr, list[tuple[Var, Expr]]]:
    """The expression of an element's index in a row of `size`, and the loops over it: `name`.k over pieces of `width`,
    `name`.l within a piece.
    """
    k, lane = Var(f"{name}.k"), Var(f"{name}.l")
    extent = Const(width) if size % width == 0 else minimum(width, size - k * width)
    return k * width + lane, [(k, Const(ceil_div(size, width))), (lane, extent)]


def fold_row(
    name: str,
    op: Operator,
    size: int,
    width: int,
    value: Callable[[Expr], Expr],
    outer: Sequence[tuple[Var, Expr]] = (),
) -> Folded:
    """Reduces `value` over all elements of a row of `size` (and over all iterations of the loops `outer`).

    The element with index k * width + l is reduced into partial result l (statements `name`.init and `name`, buffer
    `name`.partial[width]); then half of the partial results is combined with the other half (`name`.half.h) until a
    single result is left.
    """
    partial = Buffer(name=f"{name}.partial", shape=(width,), dtype=DType.FLOAT32, scope="register")
    start = Var(f"{name}.init.l")
    least = Const(0.0 if op == "add" else float("-inf"), DType.FLOAT32)
    begin = Assign.to(f"{name}.init", partial[start], least)
    position, loops = row_loops(name, size, width)
    lane = loops[-1][0]
    reduce = Reduce.into(name, op, partial[lane], value(position))
    statements = [nest([(start, width)], begin), nest([*outer, *loops], reduce)]
    buffers = [partial]
    while width > 1:
        width //= 2
        before = buffers[-1]
        half = Buffer(name=f"{name}.half.{width}", shape=(width,), dtype=DType.FLOAT32, scope="register")
        lane = Var(f"{name}.half.{width}.l")
        low, high = before[lane], before[lane + width]
        both = low + high if op == "add" else maximum(low, high)
        join = Assign.to(half.name, half[lane], both)
        statements.append(nest([(lane, width)], join))
        buffers.append(half)
    return Folded(statements=tuple(statements), buffers=tuple(buffers), result=buffers[-1][0])

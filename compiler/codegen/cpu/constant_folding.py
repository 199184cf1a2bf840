"""Constant folding during emission: index expressions become Python functions of the unrolled loops' variables.

Emission evaluates the same expression in every iteration of an unrolled body. A Python function, built once, is several
times as fast as a walk over the expression.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ...ir.expr import Binary, Const, Expr, Select, Var, dtype_of
from ...ir.types import DType

FoldingFunction: TypeAlias = Callable[[Mapping[str, Any]], int | float | None]
"""Evaluates one integer or bool expression. The argument maps each variable to its value: an int if the value is known,
else any other object. The result is None if the known variables do not determine the value."""

_PLAIN: Mapping[str, Callable[[Any, Any], int | float]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "min": min,
    "max": max,
}
_WRAPPING: Mapping[str, Callable[[Any, Any], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}


def unfoldable(variables: Mapping[str, Any]) -> None:
    """Returns None: the folding function of expressions that load, call, convert or compute in floats."""


def folding_function(expr: Expr) -> FoldingFunction:
    """The folding function of an expression (`FoldingFunction`): it computes the expression's value from the values of
    loop variables. The result is `unfoldable` if loop variables alone never determine the value.
    """
    match expr:
        case Const(value=value):
            return lambda variables: value
        case Var(name=name):

            def variable(variables: Mapping[str, Any]) -> int | None:
                held = variables.get(name)
                return held if type(held) is int else None

            return variable
        case Binary(op="and" | "or"):
            return _logical(expr)
        case Binary():
            return _arithmetic(expr)
        case Select(condition=condition, then=then, otherwise=otherwise):
            chosen, first, second = (
                folding_function(condition),
                folding_function(then),
                folding_function(otherwise),
            )
            if chosen is unfoldable or first is second is unfoldable:
                return unfoldable

            def select(variables: Mapping[str, Any]) -> int | float | None:
                value = chosen(variables)
                if value is None:
                    return None
                return first(variables) if value else second(variables)

            return select
    return unfoldable


def _logical(expr: Binary) -> FoldingFunction:
    a, b, decisive = folding_function(expr.a), folding_function(expr.b), expr.op == "or"
    if a is b is unfoldable:
        return unfoldable

    def logical(variables: Mapping[str, Any]) -> bool | None:
        x = a(variables)
        if x is not None and bool(x) is decisive:
            return decisive
        y = b(variables)
        if y is not None and bool(y) is decisive:
            return decisive
        return None if x is None or y is None else not decisive

    return logical


def _arithmetic(expr: Binary) -> FoldingFunction:
    a, b = folding_function(expr.a), folding_function(expr.b)
    dtype = dtype_of(expr.a)
    if a is unfoldable or b is unfoldable or dtype.is_float:
        return unfoldable
    if (compute := _PLAIN.get(expr.op)) is not None:

        def plain(variables: Mapping[str, Any]) -> int | float | None:
            x = a(variables)
            if x is None or (y := b(variables)) is None:
                return None
            return compute(x, y)

        return plain
    return _wrapping(_WRAPPING[expr.op], a, b, dtype, divides=expr.op in ("//", "%"))


def _wrapping(
    compute: Callable[[Any, Any], int], a: FoldingFunction, b: FoldingFunction, dtype: DType, *, divides: bool
) -> FoldingFunction:
    low, high = dtype.limits

    def wrapping(variables: Mapping[str, Any]) -> int | None:
        x = a(variables)
        if x is None or (y := b(variables)) is None or (divides and y == 0):
            return None
        value = compute(x, y)
        return value if low <= value <= high else dtype.wrap(value)

    return wrapping

"""Conditions: negation, and inequality of two expressions."""

from __future__ import annotations

from .expr import FALSE, TRUE, Binary, Const, Expr, ExprLike, Select, binary


def not_equal(a: ExprLike, b: ExprLike) -> Expr:
    """The expression `a != b`."""
    return binary("!=", a, b)


def negate(condition: Expr) -> Expr:
    """The logical negation of a bool expression, whose comparisons must not have NaN as an operand."""
    match condition:
        case Const(value=value):
            return FALSE if value else TRUE
        case Binary(op="<", a=a, b=b):
            return Binary("<=", b, a)
        case Binary(op="<=", a=a, b=b):
            return Binary("<", b, a)
        case Binary(op="==", a=a, b=b):
            return Binary("!=", a, b)
        case Binary(op="!=", a=a, b=b):
            return Binary("==", a, b)
        case Binary(op="and", a=a, b=b):
            return Binary("or", negate(a), negate(b))
        case Binary(op="or", a=a, b=b):
            return Binary("and", negate(a), negate(b))
    return Select(condition, FALSE, TRUE)

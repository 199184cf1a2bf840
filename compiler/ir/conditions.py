"""Inequality of two expressions."""

from __future__ import annotations

from .expr import Expr, ExprLike, binary


def not_equal(a: ExprLike, b: ExprLike) -> Expr:
    """The expression `a != b`."""
    return binary("!=", a, b)

"""Index expressions evaluated for one iteration of the loops around them, or for many at once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from ...ir.expr import Binary, Const, Expr, Var
from .columns import greater, lesser

Environment: TypeAlias = Mapping[str, Any]
"""What loops' variables hold, by name: an int, or an int64 array with one value an iteration."""
Evaluator: TypeAlias = Callable[[Environment], Any]

_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": lesser,
    "max": greater,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "and": operator.and_,
    "or": operator.or_,
}


def evaluate(expr: Expr, environment: Environment) -> Any:
    """The value of an integer (or bool) index expression; raises ValueError for any other."""
    if type(expr) is Var:
        return environment[expr.name]
    if type(expr) is Const:
        return expr.value
    if type(expr) is Binary:
        a, b = evaluate(expr.a, environment), evaluate(expr.b, environment)
        return _OPERATIONS[expr.op](a, b)
    raise ValueError(f"not an index expression: {expr!r}")


def evaluator(expr: Expr) -> Evaluator:
    """`evaluate` of one expression, as a function of the environment."""
    return partial(evaluate, expr)

"""Index expressions as Python closures: emission evaluates the same few expressions for all tiles of a layer.

A closure takes the environment (loop name -> int, or an int64 array to evaluate many iterations at once).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ...ir.expr import Binary, Const, Expr, Var
from .columns import greater, lesser

Environment: TypeAlias = Mapping[str, Any]
Evaluator: TypeAlias = Callable[[Environment], Any]


def compile_index(expr: Expr) -> Evaluator:
    """A closure that computes the integer (or bool) index expression `expr`; raises ValueError for any other."""
    match expr:
        case Const(value=value):
            return lambda environment: value
        case Var(name=name):
            return lambda environment: environment[name]
        case Binary(op=op, a=a, b=b):
            return _compile_binary(op, compile_index(a), compile_index(b))
    raise ValueError(f"not an index expression: {expr!r}")


def _compile_binary(op: str, a: Evaluator, b: Evaluator) -> Evaluator:
    match op:
        case "+":
            return lambda environment: a(environment) + b(environment)
        case "-":
            return lambda environment: a(environment) - b(environment)
        case "*":
            return lambda environment: a(environment) * b(environment)
        case "//":
            return lambda environment: a(environment) // b(environment)
        case "%":
            return lambda environment: a(environment) % b(environment)
        case "min":
            return lambda environment: lesser(a(environment), b(environment))
        case "max":
            return lambda environment: greater(a(environment), b(environment))
        case "<":
            return lambda environment: a(environment) < b(environment)
        case "<=":
            return lambda environment: a(environment) <= b(environment)
        case "==":
            return lambda environment: a(environment) == b(environment)
        case "!=":
            return lambda environment: a(environment) != b(environment)
        case "and":
            return lambda environment: a(environment) & b(environment)
        case "or":
            return lambda environment: a(environment) | b(environment)
    raise ValueError(f"operator {op!r} in an index expression")

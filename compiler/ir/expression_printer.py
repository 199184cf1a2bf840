"""Prints expressions, for the printed form of programs (`printer`)."""

from __future__ import annotations

from .expr import Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var
from .types import DType

_PRECEDENCE = {"or": 1, "and": 2, "<": 4, "<=": 4, "==": 4, "!=": 4, "+": 5, "-": 5, "*": 6, "//": 6, "%": 6}


def format_expr(expr: Expr, precedence: int = 0) -> str:
    """An expression's text, in parentheses if its operator binds less tightly than `precedence` (0: never)."""
    match expr:
        case Const(value=value, dtype=dtype):
            if dtype is DType.INT64 or dtype is DType.BOOL:
                text = str(value)
            else:
                text = f"{dtype}({value})"
            return f"({text})" if text.startswith("-") and precedence == 6 else text
        case Var(name=name):
            return name
        case Binary(op="min" | "max" as op, a=a, b=b):
            return f"{op}({format_expr(a)}, {format_expr(b)})"
        case Binary(op=op, a=a, b=b):
            own = _PRECEDENCE[op]
            # Comparisons do not chain, so their left side needs a tighter operator as well.
            left = format_expr(a, own + 1 if own == 4 else own)
            text = f"{left} {op} {format_expr(b, own + 1)}"
            return f"({text})" if own < precedence else text
        case Cast(value=value, dtype=dtype):
            return f"{dtype}({format_expr(value)})"
        case Select(condition=condition, then=then, otherwise=otherwise):
            return f"select({format_expr(condition)}, {format_expr(then)}, {format_expr(otherwise)})"
        case Load(buffer=buffer, indices=indices):
            return format_access(buffer, indices)
        case Call(function=function, arguments=arguments, dtype=dtype):
            return f"{function}({', '.join(format_expr(a) for a in arguments)}) as {dtype}"


def format_access(buffer: Buffer, indices: tuple[Expr, ...]) -> str:
    """An element of a buffer, `A[i, 0]`."""
    return f"{buffer.name}[{', '.join(format_expr(i) for i in indices)}]"

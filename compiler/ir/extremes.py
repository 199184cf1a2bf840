"""The extremes of a linear form over loops."""

from __future__ import annotations

from .affine import LinearForm, form_to_expr, linear_form
from .bounds import Interval, Ranges, interval
from .expr import (
    Binary,
    Const,
    Expr,
    Var,
    binary,
    maximum,
    minimum,
)
from .visit import free_vars


def extreme(form: LinearForm, over: Ranges, ranges: Ranges, up: bool) -> Expr | None:
    """A bound on `form` over all iterations of the loops `over`: an upper bound if `up`, else a lower bound. The bound
    is the form's greatest or least value where this value can be computed; None if no bound is known.

    The bound is an expression in the other variables of `form`, whose ranges are `ranges`.
    """
    names = over.keys()
    for atom, coefficient in form.terms.items():
        if isinstance(atom, Var) or not free_vars(atom) & names:
            continue
        rest, same = form.without(atom), (coefficient > 0) == up
        match atom:
            case Binary(op="min" | "max" as op, a=a, b=b):
                x = extreme(rest.plus(linear_form(a), coefficient), over, ranges, up)
                y = extreme(rest.plus(linear_form(b), coefficient), over, ranges, up)
                if x is None or y is None:
                    return None
                return minimum(x, y) if (op == "min") == (coefficient > 0) else maximum(x, y)
            case Binary(op="//", a=a, b=Const(value=int(divisor)) as b) if divisor > 0:
                inner = extreme(linear_form(a), over, ranges, same)
                if inner is None:
                    return None
                return extreme(rest.plus(linear_form(binary("//", inner, b)), coefficient), over, ranges, up)
        held = interval(atom, {**ranges, **over})
        end = held.high if same else held.low
        return None if end is None else extreme(rest.offset(coefficient * end), over, ranges, up)
    for name in reversed(list(over)):
        var = Var(name)
        coefficient = form.terms.get(var)
        if coefficient is None:
            continue
        held, rest = over[name], form.without(next(a for a in form.terms if a == var))
        if isinstance(held, Interval):
            end = held.high if (coefficient > 0) == up else held.low
            if end is None:
                return None
            return extreme(rest.offset(coefficient * end), over, ranges, up)
        if (coefficient > 0) == up:
            rest = rest.plus(linear_form(held).offset(-1), coefficient)
        return extreme(rest, over, ranges, up)
    return form_to_expr(form)

"""Minima and maxima: the extremes of a linear form over loops, and the simplified minimum or maximum of forms."""

from __future__ import annotations

from .affine import LinearForm, atom_form, form_to_expr, linear_form, single_atom
from .bounds import Interval, Ranges, form_interval, interval
from .expr import (
    Binary,
    Const,
    Expr,
    Var,
    binary,
    maximum,
    minimum,
)
from .expression_printer import format_expr
from .visit import free_vars


def extreme(form: LinearForm, over: Ranges, ranges: Ranges, up: bool) -> Expr | None:
    """The greatest (`up`) or least value of a form over the loops `over`, in terms of the other variables, or an upper
    or lower bound of this value; None if unknown. `ranges`: ranges of the other variables.
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


def simplify_extremum(op: str, forms: list[LinearForm], ranges: Ranges) -> LinearForm:
    """The minimum or maximum (`op`) of forms as a linear form: nested minima or maxima are flattened, dominated forms
    dropped, the rest in canonical order.
    """
    flat: list[LinearForm] = []
    while forms:
        form = forms.pop(0)
        match single_atom(form):
            case Binary(op=inner, a=a, b=b) if inner == op:
                forms[:0] = [linear_form(a), linear_form(b)]
            case _:
                flat.append(form)
    kept: list[LinearForm] = []
    for i, form in enumerate(flat):
        # An equal pair keeps its first member, so a later one is also dropped by a tie.
        others = [(j, f) for j, f in enumerate(flat) if j != i]
        if not any(_dominates(op, other, form, ranges, strict=j > i) for j, other in others):
            kept.append(form)
    if len(kept) == 1:
        return kept[0]
    exprs = sorted((form_to_expr(f) for f in kept), key=lambda e: (isinstance(e, Const), format_expr(e)))
    result = exprs[0]
    for expr in exprs[1:]:
        result = Binary("min" if op == "min" else "max", result, expr)
    return atom_form(result)


def _dominates(op: str, a: LinearForm, b: LinearForm, ranges: Ranges, *, strict: bool) -> bool:
    """Whether a always decides op(a, b), min or max, so that b can be dropped; with `strict` ties do not count (else
    both of two tied operands would be dropped).
    """
    held = form_interval(a.plus(b, -1), ranges)
    # a <= b everywhere and b <= a everywhere only if they are equal everywhere.
    if strict and held == Interval(0, 0):
        return False
    if op == "min":
        return held.high is not None and held.high <= 0
    return held.low is not None and held.low >= 0

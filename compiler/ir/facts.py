"""Bounds of indices that follow from facts (conditions, or extents of loops) and not from ranges of variables alone."""

from __future__ import annotations

from .affine import LinearForm, linear_form
from .bounds import Ranges, form_interval
from .expr import Binary, Const, Expr, dtype_of
from .types import DType

Facts = tuple[LinearForm, ...]
"""Linear forms known to be at least 0 where an expression is evaluated."""


def facts_of(condition: Expr) -> Facts:
    """Facts that follow from a condition: linear forms that are at least 0 if the condition holds."""
    match condition:
        case Binary(op="and", a=a, b=b):
            return *facts_of(a), *facts_of(b)
        case Binary(op="<" | "<=" | "==" as op, a=a, b=b) if dtype_of(a) is DType.INT64:
            form = linear_form(b).plus(linear_form(a), -1)
            if op == "==":
                return form, form.times(-1)
            return (form.offset(-1) if op == "<" else form,)
    return ()


def lower_bound(form: LinearForm, ranges: Ranges, facts: Facts) -> int | None:
    """A lower bound of a linear form, from the ranges alone or from the ranges and one fact: as fact >= 0, a lower
    bound of n * form - m * fact is also a lower bound of n * form.

    The factors n and m are both 1, or one of them is an integer that makes a term cancel. For example, a condition may
    count single elements while the form counts vectors of elements.
    """
    best = form_interval(form, ranges).low
    if best is not None and best >= 0:
        return best
    for fact in facts:
        scales = {(1, 1), *((n, 1) for n in _ratios(fact, form)), *((1, m) for m in _ratios(form, fact))}
        for scale, weight in scales:
            low = form_interval(form.times(scale).plus(fact, -weight), ranges).low
            if low is not None:
                low = -(-low // scale)
                best = low if best is None else max(best, low)
    if facts and (best is None or best < 0):
        # Facts about a dividend bound its quotient: c * (a // c) is within a - (c - 1) .. a.
        for atom, coefficient in form.terms.items():
            match atom:
                case Binary(op="//", a=a, b=Const(value=int(divisor))) if divisor > 0:
                    dividend = linear_form(a).offset(1 - divisor if coefficient > 0 else 0)
                    scaled = form.without(atom).times(divisor).plus(dividend, coefficient)
                    low = lower_bound(scaled, ranges, facts)
                    if low is not None:
                        low = -(-low // divisor)
                        best = low if best is None else max(best, low)
    return best


def _ratios(of: LinearForm, to: LinearForm) -> set[int]:
    """The positive integers among the ratios of coefficients: for each atom in both linear forms, its coefficient in
    `of` divided by its coefficient in `to`.
    """
    pairs = [(of.terms[atom], coefficient) for atom, coefficient in to.terms.items() if atom in of.terms]
    return {a // b for a, b in pairs if a % b == 0 and a // b > 0}

"""Intervals that contain the values of index expressions under loop ranges; extents may depend on other loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from .affine import LinearForm, linear_form
from .expr import COMPARISONS, Binary, Cast, Const, Expr, Select, Var, dtype_of
from .quick_init import quick_init
from .stmt import For
from .types import DType


@quick_init
@dataclass(frozen=True, slots=True)
class Interval:
    """All integers from `low` to `high`, both included; None means unbounded on that side."""

    low: int | None
    high: int | None

    def hull(self, other: Interval) -> Interval:
        """The least interval that contains both intervals."""
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Interval(low, high)


Ranges: TypeAlias = Mapping[str, Interval | Expr]
"""Ranges of variables, outermost loop first: an interval, or an extent E that depends on outer loops (0 .. E - 1)."""

UNKNOWN = Interval(None, None)
_BOOL = Interval(0, 1)


def loop_range(extent: Expr) -> Interval | Expr:
    """A loop variable's range, as an entry of `Ranges`: an interval if `extent` is constant, else the extent itself."""
    return _below(int(extent.value)) if isinstance(extent, Const) else extent


@lru_cache(maxsize=1024)
def _below(count: int) -> Interval:
    return Interval(0, count - 1)


def loop_ranges(loops: Iterable[For]) -> dict[str, Interval | Expr]:
    """The ranges of loops given outermost first, by names of the loops' variables."""
    return {loop.var.name: loop_range(loop.extent) for loop in loops}


def interval(expr: Expr, ranges: Ranges) -> Interval:
    """An interval that contains every value of an integer or bool expression while all loops of `ranges` run.

    Exact for affine expressions of independent loops and for the tails of splits (extent min(f, n - f*outer)).
    """
    if type(expr) is Var:
        # Most indices are loops with constant extents.
        held = ranges.get(expr.name)
        if type(held) is Interval and held.low is not None and held.high is not None:
            return held
    match expr:
        case Const(value=value):
            return Interval(int(value), int(value))
        case Binary(op="+" | "-" | "*" | "min" | "max") | Var():
            return form_interval(linear_form(expr), ranges)
    return _atom_interval(expr, ranges)


def form_interval(form: LinearForm, ranges: Ranges) -> Interval:
    """An interval that contains every value of a linear form while all loops of `ranges` run."""
    if not form.terms:
        return Interval(form.constant, form.constant)
    low = high = form.constant
    for atom, coefficient in form.terms.items():
        held = ranges.get(atom.name) if isinstance(atom, Var) else None
        if not isinstance(held, Interval) or held.low is None or held.high is None:
            return Interval(_extreme(form, ranges, up=False), _extreme(form, ranges, up=True))
        if coefficient > 0:
            low, high = low + coefficient * held.low, high + coefficient * held.high
        else:
            low, high = low + coefficient * held.high, high + coefficient * held.low
    return Interval(low, high)


def provably_at_least(expr: Expr, value: int, ranges: Ranges) -> bool:
    """Whether the loops' `ranges` prove that expr >= value in all iterations; False if this is unknown."""
    low = interval(expr, ranges).low
    return low is not None and low >= value


def _cancels(form: LinearForm, var: Var, ranges: Ranges) -> LinearForm | None:
    """The last value of `var` (its loop's extent - 1) as a linear form, if a `min` or `max` term of `form` cancels when
    this value replaces `var`; else None.
    """
    extent = ranges.get(var.name, UNKNOWN)
    if isinstance(extent, Interval):
        return None
    greatest = linear_form(extent).offset(-1)
    for atom, coefficient in greatest.terms.items():
        if isinstance(atom, Binary) and atom.op in ("min", "max"):
            held = form.terms.get(atom)
            if held is not None and held == -coefficient * form.terms[var]:
                return greatest
    return None


def _quotient_ends(atom: Expr, ranges: Ranges) -> list[LinearForm]:
    """Upper bounds of `atom`, a quotient, as linear forms of outer loops' variables; [] if the ranges of its variables
    do not depend on outer loops. For example, v < min(4, 5 - 4*o) gives v // 2 <= 1 and v // 2 <= 2 - 2*o.
    """
    match atom:
        case Binary(op="//", a=a, b=Const(value=int(divisor))) if divisor > 0:
            ends = _upper_forms(linear_form(a), ranges)
        case _:
            return []
    if ends is None:
        return []
    return [
        LinearForm({a: c // divisor for a, c in end.terms.items()}, end.constant // divisor)
        for end in ends
        if all(c % divisor == 0 for c in end.terms.values())
    ]


def _upper_forms(form: LinearForm, ranges: Ranges) -> list[LinearForm] | None:
    """Upper bounds of `form`, free of minima and of variables with dependent ranges; None if `form` has neither."""
    for atom, coefficient in form.terms.items():
        if isinstance(atom, Binary) and atom.op == "min" and coefficient > 0:
            ends: list[LinearForm] = []
            for part in (atom.a, atom.b):
                shorter = form.without(atom).plus(linear_form(part), coefficient)
                ends += _upper_forms(shorter, ranges) or [shorter]
            return ends
    dependent = _innermost_dependent(form, ranges)
    if dependent is None:
        return None
    shorter = _without_dependent(form, dependent, ranges, up=True)
    return _upper_forms(shorter, ranges) or [shorter]


def _innermost_dependent(form: LinearForm, ranges: Ranges) -> Var | None:
    """The innermost of those variables in `form` whose ranges depend on other variables; None if there are none."""
    dependent = [
        a for a in form.terms if isinstance(a, Var) and not isinstance(ranges.get(a.name, UNKNOWN), Interval)
    ]
    if not dependent:
        return None
    order = {name: depth for depth, name in enumerate(ranges)}
    return max(dependent, key=lambda v: order[v.name])


def _without_dependent(form: LinearForm, var: Var, ranges: Ranges, up: bool) -> LinearForm:
    """The greatest (`up`) or least value of `form` over loop `var`, in terms of the loops that set `var`'s extent."""
    coefficient, rest = form.terms[var], form.without(var)
    if (coefficient > 0) == up:
        extent = ranges[var.name]
        assert not isinstance(extent, Interval)
        rest = rest.plus(linear_form(extent).offset(-1), coefficient)
    return rest


def _extreme(form: LinearForm, ranges: Ranges, up: bool) -> int | None:
    """An upper (`up`) or lower bound of a linear form as a number; None if none is known."""
    for atom, coefficient in form.terms.items():
        if isinstance(atom, Var) and (coefficient > 0) == up and (shared := _cancels(form, atom, ranges)):
            # e + v for v < n - e is at most n - 1; separate bounds of e and of v would not show this.
            return _extreme(form.without(atom).plus(shared, coefficient), ranges, up)
    for atom, coefficient in form.terms.items():
        if isinstance(atom, Binary) and atom.op in ("min", "max"):
            rest = form.without(atom)
            ends = [_extreme(rest.plus(linear_form(x), coefficient), ranges, up) for x in (atom.a, atom.b)]
            return _join(ends, lesser=(atom.op == "min") == (coefficient > 0), up=up)
    for atom, coefficient in form.terms.items():
        if (coefficient > 0) == up and (ends := _quotient_ends(atom, ranges)):
            # Each of several upper bounds is valid alone; other atoms may cancel with some of them.
            rest = form.without(atom)
            return _join([_extreme(rest.plus(e, coefficient), ranges, up) for e in ends], lesser=up, up=up)
    dependent = _innermost_dependent(form, ranges)
    if dependent is not None:
        return _extreme(_without_dependent(form, dependent, ranges, up), ranges, up)
    total = form.constant
    for atom, coefficient in form.terms.items():
        held = _atom_interval(atom, ranges)
        end = held.high if (coefficient > 0) == up else held.low
        if end is None:
            return None
        total += coefficient * end
    return total


def _join(ends: list[int | None], *, lesser: bool, up: bool) -> int | None:
    """A bound (upper if `up`) on min(a, b) if `lesser`, else on max(a, b). `ends`: bounds on a and on b, or None."""
    known = [e for e in ends if e is not None]
    if lesser == up:  # one known end is enough: min(a, b) <= a, max(a, b) >= a
        return None if not known else min(known) if up else max(known)
    return None if len(known) < len(ends) else max(known) if up else min(known)


def _atom_interval(atom: Expr, ranges: Ranges) -> Interval:
    match atom:
        case Const(value=value):
            return Interval(int(value), int(value))
        case Var(name=name, dtype=dtype):
            held = ranges.get(name)
            if isinstance(held, Interval):
                return held
            if held is not None:
                high = interval(held, ranges).high
                return Interval(0, None if high is None else high - 1)
            return _BOOL if dtype is DType.BOOL else UNKNOWN
        case Binary(op="//", a=a, b=Const(value=int(divisor))) if divisor > 0:
            held = interval(a, ranges)
            return Interval(
                None if held.low is None else held.low // divisor,
                None if held.high is None else held.high // divisor,
            )
        case Binary(op="%", a=a, b=Const(value=int(divisor))) if divisor > 0:
            held = interval(a, ranges)
            if held.low is not None and held.high is not None and held.low // divisor == held.high // divisor:
                return Interval(held.low % divisor, held.high % divisor)
            return Interval(0, divisor - 1)
        case Binary(op="*", a=a, b=b):
            x, y = interval(a, ranges), interval(b, ranges)
            if x.low is None or x.high is None or y.low is None or y.high is None:
                return UNKNOWN
            corners = [p * q for p in (x.low, x.high) for q in (y.low, y.high)]
            return Interval(min(corners), max(corners))
        case Binary(op="+" | "-" | "min" | "max"):
            return interval(atom, ranges)
        case Binary(op=op) if op in COMPARISONS or op in ("and", "or"):
            return _BOOL
        case Select(then=then, otherwise=otherwise):
            return interval(then, ranges).hull(interval(otherwise, ranges))
        case Cast(value=value, dtype=dtype) if not dtype_of(value).is_float and not dtype.is_float:
            held, (low, high) = interval(value, ranges), dtype.limits
            if held.low is not None and held.high is not None and low <= held.low and held.high <= high:
                return held
    dtype = dtype_of(atom)
    # An index read from memory has no useful bound, except for narrow integers, which have their type's.
    return UNKNOWN if dtype.is_float or dtype is DType.INT64 else Interval(*dtype.limits)

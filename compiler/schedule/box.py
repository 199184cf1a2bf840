"""Intersection and containment of boxes of elements whose starts and extents depend on loops."""

from __future__ import annotations

from ..ir.affine import linear_form
from ..ir.bounds import Interval, Ranges, form_interval, interval
from ..ir.expr import Expr, maximum, minimum
from ..ir.simplify import simplify
from .tree import minus, plus


def intersect(start: Expr, extent: Expr, first: Expr, count: Expr, ranges: Ranges) -> tuple[Expr, Expr]:
    """The part of [start, start + extent) within [first, first + count), as start and extent."""
    if lies_inside(start, extent, first, count, ranges):
        return start, extent
    low = simplify(maximum(start, first), ranges)
    high = minimum(plus(start, extent), plus(first, count))
    return low, simplify(minus(high, low), ranges)


def lies_inside(start: Expr, extent: Expr, first: Expr, count: Expr, ranges: Ranges) -> bool:
    """Whether [start, start + extent) is provably within [first, first + count)."""
    if start == first and extent == count:
        return True
    a, b = linear_form(start), linear_form(first)
    low = form_interval(a.plus(b, -1), ranges).low
    if low is None or low < 0:
        return False
    gap = b.plus(linear_form(count)).plus(a, -1).plus(linear_form(extent), -1)
    room = form_interval(gap, ranges).low
    return room is not None and room >= 0


def greatest_extent(extent: Expr, ranges: Ranges, size: int) -> int:
    """The greatest value of an extent, at most the whole dimension and at least 1."""
    held: Interval = interval(extent, ranges)
    return max(1, size if held.high is None else min(held.high, size))

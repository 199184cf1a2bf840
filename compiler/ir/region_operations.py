"""Relations and combinations of regions: whether one contains another or shares elements with it, their union, and the
part of a region inside its buffer.
"""

from __future__ import annotations

from .affine import linear_form
from .bounds import Ranges, form_interval
from .expr import Expr, binary, maximum, minimum
from .regions import NO_RANGES, box_of, hull, region_of
from .simplify import simplify
from .stmt import Region


def clamp(region: Region, ranges: Ranges = NO_RANGES) -> Region:
    """The part of a region inside its buffer's shape; extents are 0 or less if no part is inside."""
    starts: list[Expr] = []
    extents: list[Expr] = []
    for start, extent, size in zip(region.starts, region.extents, region.buffer.shape, strict=True):
        low = simplify(maximum(start, 0), ranges)
        high = simplify(minimum(binary("+", start, extent), size), ranges)
        starts.append(low)
        extents.append(simplify(binary("-", high, low), ranges))
    return Region(buffer=region.buffer, starts=tuple(starts), extents=tuple(extents))


def union(a: Region, b: Region, ranges: Ranges = NO_RANGES) -> Region:
    """The least box (rectangle of elements) that contains both regions of one buffer."""
    return region_of(a.buffer, hull(box_of(a), box_of(b), ranges), ranges)


def disjoint(a: Region, b: Region, ranges: Ranges = NO_RANGES) -> bool:
    """Whether two regions provably share no element while all loops of `ranges` run."""
    if a.buffer.name != b.buffer.name:
        return True
    for p, n, q, m in zip(a.starts, a.extents, b.starts, b.extents, strict=True):
        for first, extent, second in ((p, n, q), (q, m, p)):
            gap = linear_form(second).plus(linear_form(first), -1).plus(linear_form(extent), -1)
            low = form_interval(gap, ranges).low
            if low is not None and low >= 0:
                return True
    return False


def contains(outer: Region, inner: Region, ranges: Ranges = NO_RANGES) -> bool:
    """Whether `inner` is provably within `outer` while all loops of `ranges` run."""
    if outer.buffer.name != inner.buffer.name:
        return False
    for p, n, q, m in zip(outer.starts, outer.extents, inner.starts, inner.extents, strict=True):
        below = form_interval(linear_form(q).plus(linear_form(p), -1), ranges).low
        end = linear_form(p).plus(linear_form(n)).plus(linear_form(q), -1).plus(linear_form(m), -1)
        above = form_interval(end, ranges).low
        if below is None or below < 0 or above is None or above < 0:
            return False
    return True

"""The union of two regions, and the part of a region inside its buffer."""

from __future__ import annotations

from .bounds import Ranges
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

"""Copies of a product's operand in panels (contiguous pieces, each for one tile)."""

from __future__ import annotations

from collections.abc import Sequence

from ....schedule import Schedule
from ..loops import peel_ragged
from .stages import Axle, Read


def copy_panels(
    s: Schedule, read: Read, vector: Axle, lanes: int, own: Sequence[str], around: Sequence[str]
) -> None:
    """Copies to a panel (contiguous buffer) the elements of a buffer that one tile reads; the dimension that is read in
    vectors becomes the innermost one.

    `vector`: the vectorized loop; `lanes`: elements of a vector. `own`: the loops on which these elements depend. The
    copy is placed in the innermost loop of `around` that is also in `own`.
    """
    at = max((k for k, loop in enumerate(around) if loop in own), default=None)
    copy = s.cache_read(read.buffer, None if at is None else around[at], "workspace")
    wide = next((d for d, steps in enumerate(read.steps) if dict(steps).get(vector.inner)), None)
    if wide is None or wide == len(read.shape) - 1:
        return
    s.expand_copy(copy)
    last = len(read.shape) - 1
    others = [d for d in range(last) if d != wide]
    s.pack(copy, (), (*others, last, wide))
    # Square tiles, which code generation transposes in registers.
    columns, column = s.split(f"{copy}.{wide}", lanes)
    rows, row = s.split(f"{copy}.{last}", lanes)
    s.reorder(*(f"{copy}.{d}" for d in others), rows, columns, row, column)
    s.unroll(row)
    s.vectorize(column)
    peel_ragged(s, rows, columns)

"""Groups of `TAPS` adjacent columns of a depthwise convolution's window. One operation of the accelerator's instruction
TAPS multiplies one group. `TapGroups.widened` extends a window to whole groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vdla.isa.array_modes import TAPS

from .blocks import Window, ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class TapGroups:
    """Divides the columns of a kernel row into `count` groups of `TAPS` adjacent columns. The beginnings of
    neighbouring groups are `step` columns apart, so groups may overlap: the weight of a column is in the first group
    that contains it.

    `span`: number of columns from the first to the last column of the kernel, including the gaps of a dilation. The
    groups together cover `columns` columns, which may be more than `span`.
    """

    span: int
    count: int
    step: int

    @staticmethod
    def of(window: Window) -> TapGroups | None:
        """The groups of the columns of a window; None if grouping the columns saves no operations."""
        columns = window.kernel[1]
        span = (columns - 1) * window.dilations[1] + 1
        count = ceil_div(span, TAPS)
        if count >= columns:
            return None
        step = ceil_div(span - TAPS, count - 1) if count > 1 else TAPS
        return TapGroups(span=span, count=count, step=step)

    @property
    def columns(self) -> int:
        """Number of columns that the groups of a row read."""
        return (self.count - 1) * self.step + TAPS

    def widened(self, window: Window) -> Window:
        """The window with its kernel columns replaced by the `columns` adjacent columns that the groups cover. Right
        pads are added, so that the number of outputs stays.
        """
        top, left, bottom, right = window.pads
        return replace(
            window,
            kernel=(window.kernel[0], self.columns),
            pads=(top, left, bottom, right + self.columns - self.span),
            dilations=(window.dilations[0], 1),
        )

    def rows(self, weight: np.ndarray, dilation: int) -> np.ndarray:
        """Distributes int8 weights [..., kernel columns] over the groups: [..., count, TAPS]. `dilation`: distance of
        two kernel columns. The result is zero in gaps of the dilation, beyond the kernel, and where an earlier group
        has the column.
        """
        spread = np.zeros((*weight.shape[:-1], self.columns), dtype=np.int8)
        spread[..., : self.span : dilation] = weight
        groups = np.zeros((*weight.shape[:-1], self.count, TAPS), dtype=np.int8)
        for group in range(self.count):
            start = group * self.step
            seen = 0 if group == 0 else TAPS - self.step
            groups[..., group, seen:] = spread[..., start + seen : start + TAPS]
        return groups

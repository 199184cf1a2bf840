"""Live taps: the taps of a window that read the input, for tiles of output positions; dead taps read only pads."""

from __future__ import annotations

from dataclasses import dataclass

from ...te.blocks import Window

LEAST_DEAD = 0.08
"""Least share of products with pads only at which skipping them pays for its branches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taps:
    """The taps of a window along rows or columns: `outputs` positions of `size` inputs with `pad` before them."""

    outputs: int
    size: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    def live(self, tile: int, block: int) -> float:
        """The share of products that is computed with tiles of `tile` outputs in blocks of `block`; 1 if skipping does
        not pay. A tile computes a tap for all its outputs if one of them reads the input with it."""
        computed = 0
        for begin in range(0, self.outputs, block):
            end = min(begin + block, self.outputs)
            for first in range(begin, end, tile):
                last = min(first + tile, end) - 1
                taps = sum(
                    first * self.stride + offset < self.size and last * self.stride + offset >= 0
                    for offset in range(-self.pad, self.kernel * self.dilation - self.pad, self.dilation)
                )
                computed += taps * (last - first + 1)
        share = computed / (self.outputs * self.kernel)
        return share if 1 - share >= LEAST_DEAD else 1.0


def taps_of(window: Window, height: int, width: int) -> tuple[Taps, Taps]:
    """The taps of a window on `height` x `width` positions, along rows and along columns."""
    outputs = window.outputs(height, width)
    rows, columns = (
        Taps(
            outputs=outputs[axis],
            size=size,
            kernel=window.kernel[axis],
            stride=window.strides[axis],
            dilation=window.dilations[axis],
            pad=window.pads[axis],
        )
        for axis, size in enumerate((height, width))
    )
    return rows, columns

"""Knobs of convolutions on a CPU, the loops of their sums, and the taps (positions in the window) that need not be
skipped.

For a tile of output pixels, live taps read the input; dead taps read only pads and can be skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...ir.stmt import Program
from ...te.blocks import Window
from .loops import part_size

COPY_BYTES_CYCLE = 16.0
"""Bytes per cycle when copying an input into its padded form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Knobs of a convolution: a tile is `rows` x `columns` output pixels x `vectors` blocks of filters.

    A block of output pixels has `row_block` rows and `column_block` columns (None: all). `panels`: where the loop over
    panels (packed filters of one tile) is: "inside" the loops over blocks, "outside" of them, or "between" the loops
    over blocks of rows and of columns. `tiles`: which of the two loops over a block's tiles is the outer loop. `copy`:
    the part of the input that is copied at a time, with pads: "rows" of a block, its rows and "columns", the "whole"
    input or "none" (None: "rows" with pads, else "none"). `reduction`: the reduction loops, outermost first; `unroll`
    of their steps are unrolled; `part` iterations of the outermost loop form a partial sum (None: `part_blocks`).
    `lanes`: lanes of a block of filters in a vector (None: all). `inner`: the innermost loop of a step.

    `strips`: None for sums in registers. Otherwise sums are in memory, for a block of output pixels and the filters of
    `strips` tiles; a partial sum is added to all of them before the next partial sum, so that its weights and inputs
    stay in the caches.
    """

    rows: int
    columns: int
    vectors: int
    row_block: int
    column_block: int | None = None
    panels: Literal["inside", "between", "outside"] = "inside"
    tiles: Literal["rows", "columns"] = "rows"
    copy: Literal["rows", "columns", "whole", "none"] | None = None
    reduction: tuple[str, ...] = ("ic", "kh", "kw", "k")
    unroll: int = 1
    part: int | None = None
    lanes: int | None = None
    inner: Literal["filters", "positions"] = "filters"
    strips: int | None = None


def flattened(window: Window, height: int, width: int) -> tuple[int, int]:
    """Height and width with which a convolution's output is computed: all pixels in one row for a 1x1 convolution
    without strides and pads, else unchanged.
    """
    alone = window.kernel == (1, 1) and window.strides == (1, 1) and not any(window.pads)
    return (1, height * width) if alone else (height, width)


def part_blocks(program: Program) -> int | None:
    """Default number of blocks of channels in a partial sum; None if the sum is too short to be cut."""
    shapes = {b.name: b.shape for b in program.parameters}
    blocks, lanes = shapes["X"][2], shapes["X"][5]
    products = lanes * shapes["W"][3] * shapes["W"][4]
    return part_size(blocks * products, products)


def reduction_loops(program: Program) -> dict[str, int]:
    """The iterations of each reduction loop, by name: blocks of channels, the window's rows and columns, channels of a
    block.
    """
    shapes = {b.name: b.shape for b in program.parameters}
    # In weights of quantized sums the channels of a block come after the window.
    kh, kw = shapes["W"][3:5]
    return {"ic": shapes["X"][2], "kh": kh, "kw": kw, "k": shapes["X"][5]}


LEAST_DEAD = 0.08
"""Least share of products with pads at which skipping these products saves more time than the branches for it cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taps:
    """The taps (positions in the window) along rows or along columns: `outputs` output rows (columns) read `size` input
    rows (columns), with `pad` rows (columns) of padding before them.
    """

    outputs: int
    size: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    def live(self, tile: int, block: int) -> float:
        """The share of products that is computed with tiles of `tile` outputs in blocks of `block` outputs, when taps
        (rows or columns of the window) that read only pads are skipped; 1 if skipping saves too little.

        A tile computes a tap for all its outputs if the tap reads the input for one of them.
        """
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
    """The taps (positions in the window) along rows and along columns, for a window on an input of `height` x
    `width`.
    """
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

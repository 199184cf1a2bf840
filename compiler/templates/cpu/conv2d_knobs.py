"""Knobs of convolutions on a CPU, and the loops of their sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...ir.stmt import Program
from ...te.blocks import Window
from .partial_sums import part_size

REMOTE_BYTES_CYCLE = 8.0
"""Bytes a cycle from beyond the second-level cache, as far as they do not hide behind the arithmetic."""
COPY_BYTES_CYCLE = 16.0
"""Bytes a cycle of copying an input into its padded form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A tile is `rows` x `columns` output positions x `vectors` blocks of filters.

    `row_block` rows, and of them `column_block` columns (None: all), pass over all filters before the next ones where
    `panels` is "inside"; where it is "outside" all positions pass over a panel of filters before the next one, and
    "between" columns do so within their rows. `tiles`: which loop over the tiles of a block is the outer one.
    `copy`: what of the input is copied at a time, padded where there are pads (None: the rows of a block where there
    are pads, else nothing): the "columns" are those of a block's rows. `reduction`: the loops of the sum, outermost
    first, of which `unroll` steps are written out; `part` iterations of the outermost one are a part of the sum (None:
    `part_blocks`). `lanes` of a block of filters are a vector (None: all). `inner`: what a step goes through inside.
    `strips`: where they are given, sums lie in memory, those of a block of positions and of so many tiles' filters at a
    time, and a part of the sum is added to all of them before the next one, so that its weights and inputs stay near.
    None: sums stay in registers.
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
    """The height and width to compute a convolution with: one row, where every position is by itself."""
    alone = window.kernel == (1, 1) and window.strides == (1, 1) and not any(window.pads)
    return (1, height * width) if alone else (height, width)


def part_blocks(program: Program) -> int | None:
    """How many blocks of channels make a part of a sum; None where the sum is short."""
    shapes = {b.name: b.shape for b in program.parameters}
    blocks, lanes = shapes["X"][2], shapes["X"][5]
    products = lanes * shapes["W"][3] * shapes["W"][4]
    return part_size(blocks * products, products)


def reduction_loops(program: Program) -> dict[str, int]:
    """The iterations of the sum's loops: blocks of channels, the window's rows and columns, channels of a block."""
    shapes = {b.name: b.shape for b in program.parameters}
    # Weights of quantized sums have the channels of a block behind the window.
    kh, kw = shapes["W"][3:5]
    return {"ic": shapes["X"][2], "kh": kh, "kw": kw, "k": shapes["X"][5]}

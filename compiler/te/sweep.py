"""Sweeps: operations of the accelerator, each of which multiplies several rows of a depthwise convolution's window at
once.

This module groups the window's weights, and counts the operations of a tile of outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.array_modes import SWEEP_MODE

from .blocks import Window, ceil_div
from .taps import TapGroups

if TYPE_CHECKING:
    from vdla.isa.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A division of a kernel's `rows` into groups of `swept` rows (the first group may have fewer), and of its columns
    into `columns` groups.

    A sweep is a series of operations, each one input row below the one before. An operation multiplies the last `swept`
    input rows by the weights of one group: the newest input row by the group's last row of weights. `stride` and
    `dilation`: distances between windows and between kernel rows, in input rows.
    """

    rows: int
    swept: int
    columns: int
    stride: int
    dilation: int

    @staticmethod
    def of(config: Config, window: Window) -> Sweep | None:
        """The sweep (operations that multiply several rows of the window at once) for a window.

        None if the configuration has no sweeps, or if they save no operations. None also if the input rows of a window
        would fill more than half of the input scratchpad, because tiles would then have to end between rows of a
        window.
        """
        taps = TapGroups.of(window) if config.has("sweep") else None
        rows, swept = window.kernel[0], SWEEP_MODE.operations(config)
        if taps is None or min(rows, swept) == 1:
            return None
        if 2 * rows * taps.columns * config.position_inputs > config.inp_depth:
            return None
        return Sweep(
            rows=rows,
            swept=swept,
            columns=taps.count,
            stride=window.strides[0],
            dilation=window.dilations[0],
        )

    @property
    def groups(self) -> int:
        """Number of groups of kernel rows; the rows of a group are multiplied by one operation."""
        return ceil_div(self.rows, self.swept)

    @property
    def lead(self) -> int:
        """Number of rows that the first group lacks. Kernel rows are divided into groups of `swept` rows, but the first
        group may have fewer.
        """
        return self.groups * self.swept - self.rows

    def tiles(self, config: Config) -> int:
        """Number of weight tiles for a block of channels."""
        count = config.position_outputs * self.groups * self.columns
        return ceil_div(count * SWEEP_MODE.group(config), config.whole_tile_rows)

    def operations(self, heights: np.ndarray) -> np.ndarray:
        """Number of array operations for one column of output vectors, for each number of output rows in `heights`.

        A sweep is a run of operations along the rows. With dilation, output rows belong to different sweeps: two rows
        share a sweep if the distance of their input rows is a multiple of the dilation.
        """
        classes = self.dilation // gcd(self.stride, self.dilation)
        between = self.stride * classes // self.dilation
        total = np.zeros_like(heights)
        for first in range(classes):
            count = -(-np.maximum(heights - first, 0) // classes)
            for group in range(self.groups):
                rows = self.swept - (self.lead if group == 0 else 0)
                total = total + np.where(count > 0, rows + (count - 1) * min(rows, between), 0)
        return total * self.columns

    def of_tiles(self, extent: int, heights: np.ndarray) -> np.ndarray:
        """Number of operations for a column of `extent` output rows in tiles, for each tile height in `heights`."""
        whole, rest = np.divmod(extent, heights)
        return whole * self.operations(heights) + self.operations(rest)

    def packed(self, config: Config, weight: np.ndarray) -> np.ndarray:
        """Packs the weights of a depthwise convolution into weight tiles: int8 [ceil(channels / b), `tiles`, b, m],
        where b is the larger and m the smaller of block_in and block_out. `weight`: int8 (channels, kernel rows,
        `columns`, TAPS) from `TapGroups.rows`.

        An operation multiplies `swept` kernel rows of a group of columns. Its weights take `SWEEP_MODE.group` rows of a
        tile, each with m weights, and zeros at the end. Operations are in this order: by output vector of the block of
        channels, then by group of kernel rows, then by group of columns.
        """
        block, narrow = config.whole_tile_rows, min(config.block_in, config.block_out)
        blocks, inputs, parts = (
            ceil_div(len(weight), block),
            config.position_inputs,
            config.position_outputs,
        )
        taps = weight.shape[-1]
        full = np.zeros((blocks * block, self.groups * self.swept, self.columns, taps), dtype=np.int8)
        full[: len(weight), self.lead :] = weight
        split = full.reshape(blocks, parts, inputs, narrow, self.groups, self.swept, self.columns, taps)
        groups = split.transpose(0, 1, 4, 6, 5, 7, 2, 3)
        groups = groups.reshape(blocks, parts * self.groups * self.columns, -1, narrow)
        tiles = self.tiles(config)
        rows = np.zeros(
            (blocks, tiles * block // SWEEP_MODE.group(config), SWEEP_MODE.group(config), narrow), np.int8
        )
        rows[:, : groups.shape[1], : groups.shape[2]] = groups
        return rows.reshape(blocks, tiles, block, narrow)

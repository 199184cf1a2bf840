"""Packing of weights for three special kinds of convolutions on the accelerator. Some convolutions read patches (whole
windows) of an interleaved image. Depthwise convolutions are the second kind. Grouped or dilated convolutions may run as
dense convolutions with zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..te.blocks import Blocks, Window, ceil_div
from ..te.ops.depthwise import Filters, packed_rows
from ..te.ops.patch_layout import PatchLayout
from ..te.taps import TapGroups
from .layout import pack_weight

if TYPE_CHECKING:
    from vdla.isa.config import Config


def pack_patch_weight(config: Config, weight: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """Packs int8 weights (O, C, kh, kw) of a convolution that reads patches. A patch contains the elements of one
    window, or of neighbouring windows, of an interleaved image, in vectors of block_in elements. The result is [filter
    blocks, patch vectors, block_out, block_in], where patch vectors are the vectors that an output reads. Filters are
    padded to whole blocks.

    `cut` is int [5], the arguments of `PatchLayout.of`. An output may add the products of several patches. `apart`: the
    distance of these patches, in rows of patches; `count`: their number. `columns`: the number of adjacent output
    columns that read the same patch. The last two arguments are the window's strides. If `columns` is above 1, each
    column has its own copy of the weights, shifted inside the patch: [filter blocks, columns, patch vectors, block_out,
    block_in].
    """
    o, c, kh, kw = weight.shape
    apart, count, columns, down, right = cut.tolist()
    window = Window(kernel=(kh, kw), strides=(down, right))
    layout = PatchLayout.of(window, c, config.block_in, apart=apart, count=count, columns=columns)
    filters = ceil_div(o, Blocks.of(config).block) * Blocks.of(config).block
    lanes, run, rows = layout.products * config.block_in, layout.run, layout.first_rows
    padded = np.zeros((filters, columns, lanes), dtype=np.int8)
    taps = weight.transpose(0, 2, 3, 1).reshape(o, kh, kw * c)
    for column in range(columns):
        shifted = np.zeros((o, kh, run), dtype=np.int8)
        shifted[:, :, column * right * c :][:, :, : kw * c] = taps
        for patch in range(count):
            first = patch * rows
            last = kh if patch == count - 1 else first + rows
            start, size = patch * layout.each * config.block_in, (last - first) * run
            padded[:o, column, start : start + size] = shifted[:, first:last].reshape(o, size)
    split = padded.reshape(-1, config.block_out, columns, layout.products, config.block_in)
    packed = split.transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(packed if columns > 1 else packed[:, 0])


def pack_depthwise_weight(config: Config, weight: np.ndarray) -> np.ndarray:
    """Packs weights of a depthwise convolution: int8 (C, kh, kw) as the tiles of `packed_rows`."""
    return packed_rows(config, weight.reshape(len(weight), -1))


def pack_taps_weight(config: Config, weight: np.ndarray, dilation: np.ndarray) -> np.ndarray:
    """Packs int8 weights (C, kh, kw) of a depthwise convolution for the instruction TAPS, which multiplies several taps
    (elements of the window) at once.

    The taps of each kernel row are divided into the groups of `TapGroups`, each with as many taps as TAPS multiplies;
    zeros fill a group. The kernel rows are in order, and so are the groups within a row. The result has the tiles of
    `pack_depthwise_weight`; a machine whose operations multiply several kernel rows has another order of rows
    (`Filters.packed`).

    `dilation`: int [1], the dilation of columns. Raises ValueError if the columns cannot be divided into such groups.
    """
    _, kh, kw = weight.shape
    window = Window(kernel=(kh, kw), dilations=(1, int(dilation[0])))
    groups = TapGroups.of(window)
    if groups is None:
        raise ValueError(
            f"the columns of a {kh}x{kw} window cannot be divided into groups for the instruction TAPS"
        )
    return Filters.of(config, window).packed(config, groups.rows(weight, int(dilation[0])))


def dilated_columns(weight: np.ndarray, dilation: int) -> np.ndarray:
    """A kernel with zeros inserted between its columns in place of a column dilation: int8 (O, C, kh, (kw - 1) *
    dilation + 1).
    """
    if dilation == 1:
        return weight
    *outer, columns = weight.shape
    spread = np.zeros((*outer, (columns - 1) * dilation + 1), dtype=np.int8)
    spread[..., ::dilation] = weight
    return spread


def dense_groups(weight: np.ndarray, groups: int) -> np.ndarray:
    """The dense weight (O, C, kh, kw) of a grouped convolution: an ordinary convolution with this weight gives the same
    results. `weight`: the weight of the grouped convolution, int8 (O, C / groups, kh, kw).
    """
    if groups == 1:
        return weight
    o, per_group, kh, kw = weight.shape
    dense = np.zeros((groups, o // groups, groups, per_group, kh, kw), dtype=np.int8)
    split = weight.reshape(groups, o // groups, per_group, kh, kw)
    for group in range(groups):
        dense[group, :, group] = split[group]
    return dense.reshape(o, groups * per_group, kh, kw)


def pack_spread_weight(config: Config, weight: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Packs weights of a grouped or dilated convolution as dense tiles (`pack_weight`). Zeros stand for weights of
    channels in other groups, and for the gaps between dilated columns.

    `spread` is int [2]: the number of groups, and the dilation of columns.
    """
    groups, dilation = spread.tolist()
    return pack_weight(config, dilated_columns(dense_groups(weight, groups), dilation))

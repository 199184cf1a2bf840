"""Depthwise convolution over blocked activations: one filter a channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.array_modes import SWEEP_MODE, TAPS

from ...ir.expr import Buffer, Const, Var, all_of, cast, equal
from ...ir.stmt import Alloc, Program, Reduce, nest, parameters_of, seq
from ...ir.types import DType
from ..blocks import Blocks, Pair, Window, ceil_div
from ..post import Post
from ..sweep import Sweep
from ..taps import TapGroups
from .common import WHOLE, Outputs, Part, Placement, filter_vectors, padded_input, vectors_of
from .convolution import Convolution

if TYPE_CHECKING:
    from vdla.isa.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The weights of a depthwise convolution, which has one filter for each channel, and the window positions that one
    operation multiplies.

    W consists of weight tiles int8[co, ci], for vectors of ci input lanes and co output lanes; CB is the number of
    blocks of channels. By default W is int8[CB, T, co, ci] with T = ceil(KH * KW / co). The weights of window position
    t = kh * KW + kw are in row t % co of tile t // co, one weight for each of ci channels. If `shared`, all positions
    and channels have the same weights (the ones of an average pool): W is int8[1, 1, co, ci], and its row 0 holds these
    weights.

    With `taps` (groups of neighbouring columns of the window), loop kw becomes two loops, g over the groups and t
    inside a group. The weights of column g * step + t are in row (kh * count + g) * TAPS + t. If `shared`, W has only
    the rows of kh = 0, which are used for every kh.

    With a `sweep` in addition (operations that multiply several rows of the window at once), W is int8[CB, T, max(ci,
    co), min(ci, co)], shared or not: T tiles for each channel block, packed by `Sweep.packed`. `sweep_rows`: number of
    rows of a tile that the weights of one such operation take."""

    shared: bool = False
    taps: TapGroups | None = None
    sweep: Sweep | None = None
    sweep_rows: int = 0

    @staticmethod
    def of(config: Config, window: Window) -> Filters:
        """The filters of a depthwise convolution with `window`. How many positions of the window an operation
        multiplies, and thus the layout of the weights, depends on the machine `config`.
        """
        taps = TapGroups.of(window) if config.has("taps") else None
        return Filters(taps=taps, sweep=Sweep.of(config, window), sweep_rows=SWEEP_MODE.group(config))

    def packed(self, config: Config, rows: np.ndarray) -> np.ndarray:
        """The weights W of the machine `config`. `rows`: int8 (channels, kernel rows, groups, TAPS), the weights of
        each kernel row as `TapGroups.rows` divides them into groups.
        """
        if self.sweep is not None:
            return self.sweep.packed(config, rows)
        return packed_rows(config, rows.reshape(len(rows), -1))

    def ones(self, config: Config, window: Window) -> np.ndarray:
        """The weights W of an average pool with `window` on the machine `config`: ones, which all channels share."""
        if self.taps is None:
            return np.ones((1, 1, config.block_out, config.block_in), dtype=np.int8)
        rows = 1 if self.sweep is None else window.kernel[0]
        weight = np.ones((Blocks.of(config).block, rows, window.kernel[1]), dtype=np.int8)
        return self.packed(config, self.taps.rows(weight, window.dilations[1]))


def packed_rows(config: Config, weight: np.ndarray) -> np.ndarray:
    """Packs int8 weights (C, taps) of a depthwise convolution as tiles [ceil(C / block), T, block_out, block_in]. Each
    tap (element of the window) is a row of a tile, with the weights of the block's channels.

    T = ceil(taps / m), where a tile holds m = min(block_in, block_out) rows.
    """
    channels, taps = weight.shape
    block, rows = Blocks.of(config).block, min(config.block_in, config.block_out)
    cb, tiles = ceil_div(channels, block), ceil_div(taps, rows)
    padded = np.zeros((cb * block, tiles * rows), dtype=np.int8)
    padded[:channels, :taps] = weight
    by_row = padded.reshape(cb, block, tiles, rows).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(by_row).reshape(cb, tiles, config.block_out, config.block_in)


CHANNEL_FILTERS = Filters()
"""A filter for each channel, with one operation for each position of the kernel."""


def depthwise_conv2d(
    *,
    blocks: Blocks,
    convolution: Convolution,
    pad_value: int,
    post: Post,
    filters: Filters = CHANNEL_FILTERS,
    placement: Placement = WHOLE,
    zero_points: Pair = (0, 0),
    name: str = "depthwise_conv2d",
) -> Program:
    """Y[c] = post(bias[c] + sum over the window of W[c] * X[c]), where positions outside X read as `pad_value`.

    Parameters are those of `conv2d`, except for W, whose layout `filters` describes; `placement` is as in `conv2d`.
    `zero_points`: values that are subtracted from the elements of X and of W.

    An input vector has ci = `blocks.block_in` lanes, an output vector co = `blocks.block_out`. If co = r * ci, the
    weights of a window position take r rows of a weight tile. If ci = r * co, a block of channels has r output vectors:
    the sums get a dimension of r (loop q) after the dimension of blocks. Raises ValueError if there is not one filter
    for each channel, or if a window does not fit.
    """
    if not convolution.groups == convolution.channels == convolution.filters:
        raise ValueError(
            f"a depthwise convolution must have as many groups and filters as channels, not {convolution.groups} "
            f"groups and {convolution.filters} filters for {convolution.channels} channels"
        )
    nb, cb = ceil_div(convolution.batch, blocks.batch), ceil_div(convolution.channels, blocks.block)
    own, taps, sweep = convolution.window, filters.taps, filters.sweep
    wide = in_vectors(blocks, own if taps is None else taps.widened(own))
    height, width = convolution.height, convolution.width * blocks.inputs
    part = Part.of(wide, height, width, placement.area)
    oh, ow = part.outputs
    vector, sums = (blocks.batch, blocks.block_in), (blocks.batch, blocks.block_out)
    names = (
        *(f"conv.{v}" for v in ("n", "o", "q", "y", "x", "b", "j", "kh")),
        f"conv.{'g' if taps else 'kw'}",
    )
    n, o, q, y, x, b, j, kh, kw = (Var(name) for name in names)
    # The taps of a kernel row; with `taps` each operation multiplies several positions together.
    step, count, together = (
        (own.dilations[1], own.kernel[1], 1) if taps is None else (taps.step, taps.count, TAPS)
    )
    inner = [] if taps is None else [(Var("conv.t"), TAPS)]
    # Number of groups of weights; an average pool has the same weights in all rows of the kernel.
    rows = together * blocks.inputs
    of_tile = blocks.block_out // rows
    group = kh * count + kw
    tiles = ceil_div(own.kernel[0] * count, of_tile)
    if filters.shared:
        group, tiles = (Const(0), 1) if taps is None else (kw, ceil_div(count, of_tile))
    column, row = (x * own.strides[1] + kw * step), group % of_tile * rows
    for t, _ in inner:
        column, row = column + t, row + t * blocks.inputs
    lane = j
    if blocks.inputs > 1:
        column, row, lane = column * blocks.inputs + j // vector[1], row + j // vector[1], j % vector[1]
    if blocks.outputs > 1:
        lane = q * sums[1] + j

    tile = (blocks.block_out, blocks.block_in)
    place, weight_lane = (group // of_tile, row), lane
    if sweep is not None:
        tile = (blocks.block, min(tile))
        of_tile = blocks.block // filters.sweep_rows
        group, inside = kw, (kh + sweep.lead) % sweep.swept if sweep.groups > 1 else kh + sweep.lead
        if sweep.groups > 1:
            group = (kh + sweep.lead) // sweep.swept * count + kw
        if blocks.outputs > 1:
            group = q * (sweep.groups * count) + group
        tiles = ceil_div(blocks.outputs * sweep.groups * count, of_tile)
        row, weight_lane = inside * rows + inner[0][0] * blocks.inputs, j
        if blocks.inputs > 1:
            row, weight_lane = row + j // vector[1], lane
        place = (group // of_tile, group % of_tile * filters.sweep_rows + row)
    shape = (1 if filters.shared else cb, tiles, *tile)
    weight = Buffer(name="W", shape=shape, dtype=DType.INT8)
    x_in, padded, pads = padded_input(
        wide, part, (nb, cb, height, width), vector, pad_value=pad_value, resident=placement.resident
    )
    filled, _ = filter_vectors(blocks, convolution.filters)
    parts = [(q, vectors_of(o, blocks.outputs, filled))] if blocks.outputs > 1 else []
    acc_shape = (nb, cb, *(blocks.outputs for _ in parts), oh, ow, *sums)
    acc = Buffer(name="acc", shape=acc_shape, dtype=DType.INT32)
    data = padded[n, o, y * own.strides[0] + kh * own.dilations[0], column, b, lane]
    taken = weight[(0 if filters.shared else o, *place, weight_lane)]
    place = (n, o, *(var for var, _ in parts), y, x, b, j)
    conv = Reduce.into(
        "conv",
        "add",
        acc[place],
        (cast(data, DType.INT32) - zero_points[0]) * (cast(taken, DType.INT32) - zero_points[1]),
        all_of(*(equal(var, 0) for var in (kh, kw, *(t for t, _ in inner)))),
    )
    # The window's loops are outside the lanes: one operation of the array multiplies one position (with `taps`
    # several).
    loops = [(n, nb), (o, cb), *parts, (y, oh), (x, ow), (kh, own.kernel[0]), (kw, count), *inner]
    loops += [(b, blocks.batch), (j, sums[1])]
    size = wide.outputs(height, width) if placement.spread is None else placement.spread.plane
    outputs = Outputs.of(blocks, (nb, cb * blocks.outputs, *size), post, placement)
    finish = outputs.finish(acc, filters=filled)
    body = Alloc(buffer=acc, body=seq(*pads, nest(loops, conv), finish))
    return Program(
        name=name,
        parameters=parameters_of(x_in, weight, *outputs.buffers),
        body=body if placement.resident else Alloc(buffer=padded, body=body),
    )


def in_vectors(blocks: Blocks, window: Window) -> Window:
    """`window` with columns counted in input vectors: a column of pixels is `blocks.inputs` vectors. If this number is
    above 1, the result has no dilated columns; its kernel is wider and includes the gaps between them.
    """
    wide, (top, left, bottom, right) = blocks.inputs, window.pads
    if wide == 1:
        return window
    columns = (window.kernel[1] - 1) * window.dilations[1] + 1
    return Window(
        kernel=(window.kernel[0], columns * wide),
        strides=(window.strides[0], window.strides[1] * wide),
        pads=(top, left * wide, bottom, right * wide),
        dilations=(window.dilations[0], 1),
    )

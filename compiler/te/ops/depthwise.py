"""Depthwise convolution over blocked activations: one filter a channel."""

from __future__ import annotations

from vdla.isa.extensions import TAPS

from ...ir.expr import Buffer, Const, Var, all_of, cast, equal
from ...ir.stmt import Alloc, Program, Reduce, nest, seq
from ...ir.types import DType
from ..blocks import Blocks, Pads, ceil_div
from ..post import Post
from ..taps import TapGroups
from .common import (
    Area,
    Part,
    Spread,
    activation,
    output_buffers,
    padded_input,
    parameters_of,
    post_nest,
    table_of,
)
from .convolution import Convolution


def depthwise_conv2d(
    *,
    blocks: Blocks,
    convolution: Convolution,
    pad_value: int,
    post: Post,
    shared_weights: bool = False,
    taps: TapGroups | None = None,
    area: Area | None = None,
    resident: bool = False,
    margins: Pads | None = None,
    spread: Spread | None = None,
    name: str = "depthwise_conv2d",
) -> Program:
    """Y[c] = post(bias[c] + sum over the window of W[c] * X[c]), positions outside X reading as `pad_value`.

    Parameters as of `conv2d` but for W int8[CB, T, co, ci]: the window's position t = kh * KW + kw is row t % co of
    tile t // co, T = ceil(KH * KW / co); lanes of a row are channels. With `shared_weights` it is int8[1, 1, co, ci],
    whose row 0 serves every position of every channel block (an average pool's ones). `area`, `resident`, `margins`
    and `spread` as of `conv2d`.

    With `taps`, the groups of the window's columns, the loop kw becomes two, g over groups and t inside of one: row
    (kh * count + g) * TAPS + t holds the weight of column g * step + t. Shared weights are then those of kh = 0.
    ValueError if block_in and block_out differ, if there is not one filter a channel, or if a window does not fit.
    """
    if blocks.block_in != blocks.block_out:
        raise ValueError("a depthwise convolution needs block_in equal to block_out")
    if not convolution.groups == convolution.channels == convolution.filters:
        raise ValueError("a depthwise convolution has one filter a channel")
    batch, channels = convolution.batch, convolution.channels
    height, width = convolution.height, convolution.width
    window = convolution.window if taps is None else taps.widened(convolution.window)
    b_size, lanes = blocks.batch, blocks.block_out
    nb, cb = ceil_div(batch, b_size), ceil_div(channels, lanes)
    (kh_size, kw_size), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    part = Part.of(window, height, width, area)
    oh, ow = part.outputs
    n, o, y, x, b, j, kh = (Var(f"conv.{v}") for v in ("n", "o", "y", "x", "b", "j", "kh"))
    # The operations of a row of the kernel; with TAPS each multiplies several rows of weights together.
    step, count, together = (dx, kw_size, 1) if taps is None else (taps.step, taps.count, TAPS)
    kw = Var("conv.kw" if taps is None else "conv.g")
    inner = [] if taps is None else [(Var("conv.t"), TAPS)]
    # Of the weights' rows a tile has so many groups; those of an average pool are alike in all rows of the kernel.
    of_tile = lanes // together
    group = kh * count + kw
    tiles = ceil_div(kh_size * count, of_tile)
    if shared_weights:
        group, tiles = (Const(0), 1) if taps is None else (kw, ceil_div(count, of_tile))
    column, row = kw * step, group % of_tile * together
    for t, _ in inner:
        column, row = column + t, row + t

    weight = Buffer(name="W", shape=(1 if shared_weights else cb, tiles, lanes, lanes), dtype=DType.INT8)
    x_in, padded, pads = padded_input(
        window, part, (nb, cb, height, width), (b_size, lanes), pad_value=pad_value, resident=resident
    )
    acc = activation("acc", (nb, cb, oh, ow), (b_size, lanes), DType.INT32)
    data = padded[n, o, y * sy + kh * dy, x * sx + column, b, j]
    filters = weight[0 if shared_weights else o, group // of_tile, row, j]
    conv = Reduce(
        name="conv",
        op="add",
        buffer=acc,
        indices=acc[n, o, y, x, b, j].indices,
        value=cast(data, DType.INT32) * cast(filters, DType.INT32),
        first=all_of(*(equal(var, 0) for var in (kh, kw, *(t for t, _ in inner)))),
    )
    # The window's loops lie outside the lanes: one operation of the array is one position, or TAPS, for all lanes.
    loops = [(n, nb), (o, cb), (y, oh), (x, ow), (kh, kh_size), (kw, count), *inner, (b, b_size), (j, lanes)]
    size = window.outputs(height, width) if spread is None else spread.plane
    outputs = output_buffers(blocks, (nb, cb, *size), post, margins=margins)
    parameters, out, operand = outputs
    finish = post_nest(blocks, acc, outputs, post, area=area, margins=margins, spread=spread)
    body = Alloc(buffer=acc, body=seq(*pads, nest(loops, conv), finish))
    return Program(
        name=name,
        parameters=parameters_of(x_in, weight, parameters, table_of(post), operand, out),
        body=body if resident else Alloc(buffer=padded, body=body),
    )

"""Depthwise convolution over blocked activations: one filter a channel."""

from __future__ import annotations

from ...ir.expr import Buffer, Var, all_of, cast, equal
from ...ir.stmt import Alloc, Program, Reduce, nest, seq
from ...ir.types import DType
from ..blocks import Blocks, Pads, ceil_div
from ..post import Post
from .common import Area, Part, activation, output_buffers, padded_input, parameters_of, post_nest, table_of
from .convolution import Convolution


def depthwise_conv2d(
    *,
    blocks: Blocks,
    convolution: Convolution,
    pad_value: int,
    post: Post,
    shared_weights: bool = False,
    area: Area | None = None,
    resident: bool = False,
    margins: Pads | None = None,
    name: str = "depthwise_conv2d",
) -> Program:
    """Y[c] = post(bias[c] + sum over the window of W[c] * X[c]), positions outside X reading as `pad_value`.

    Parameters as of `conv2d` but for W int8[CB, T, co, ci]: the window's position t = kh * KW + kw is row t % co of
    tile t // co, T = ceil(KH * KW / co); lanes of a row are channels. With `shared_weights` it is int8[1, 1, co, ci],
    whose row 0 serves every position of every channel block (an average pool's ones). `area`, `resident` and `margins`
    as of `conv2d`.
    ValueError if block_in and block_out differ, if there is not one filter a channel, or if a window does not fit.
    """
    if blocks.block_in != blocks.block_out:
        raise ValueError("a depthwise convolution needs block_in equal to block_out")
    if not convolution.groups == convolution.channels == convolution.filters:
        raise ValueError("a depthwise convolution has one filter a channel")
    batch, channels = convolution.batch, convolution.channels
    height, width, window = convolution.height, convolution.width, convolution.window
    b_size, lanes = blocks.batch, blocks.block_out
    nb, cb = ceil_div(batch, b_size), ceil_div(channels, lanes)
    (kh_size, kw_size), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    part = Part.of(window, height, width, area)
    oh, ow = part.outputs
    tiles = 1 if shared_weights else ceil_div(kh_size * kw_size, lanes)

    weight = Buffer(name="W", shape=(1 if shared_weights else cb, tiles, lanes, lanes), dtype=DType.INT8)
    x_in, padded, pads = padded_input(
        window, part, (nb, cb, height, width), (b_size, lanes), pad_value=pad_value, resident=resident
    )
    acc = activation("acc", (nb, cb, oh, ow), (b_size, lanes), DType.INT32)
    n, o, y, x, b, j, kh, kw = (Var(f"conv.{v}") for v in ("n", "o", "y", "x", "b", "j", "kh", "kw"))
    tap = kh * kw_size + kw
    data = padded[n, o, y * sy + kh * dy, x * sx + kw * dx, b, j]
    filters = weight[0, 0, 0, j] if shared_weights else weight[o, tap // lanes, tap % lanes, j]
    conv = Reduce(
        name="conv",
        op="add",
        buffer=acc,
        indices=acc[n, o, y, x, b, j].indices,
        value=cast(data, DType.INT32) * cast(filters, DType.INT32),
        first=all_of(equal(kh, 0), equal(kw, 0)),
    )
    # The window's loops lie outside the lanes: one operation of the array is one position for all lanes.
    loops = [(n, nb), (o, cb), (y, oh), (x, ow), (kh, kh_size), (kw, kw_size), (b, b_size), (j, lanes)]
    outputs = output_buffers(blocks, (nb, cb, *window.outputs(height, width)), post, margins=margins)
    parameters, out, operand = outputs
    finish = post_nest(blocks, acc, outputs, post, area=area, margins=margins)
    body = Alloc(buffer=acc, body=seq(*pads, nest(loops, conv), finish))
    return Program(
        name=name,
        parameters=parameters_of(x_in, weight, parameters, table_of(post), operand, out),
        body=body if resident else Alloc(buffer=padded, body=body),
    )

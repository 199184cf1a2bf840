"""Convolution of the accelerator, over activations in blocks of channels."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.expr import Buffer, Var, all_of, cast, equal
from ...ir.stmt import Alloc, Program, Reduce, nest, parameters_of, seq
from ...ir.types import DType
from ..blocks import Blocks, Pair, ceil_div
from ..post import Post
from .common import (
    WHOLE,
    Outputs,
    Part,
    Placement,
    activation,
    filter_vectors,
    padded_input,
    vectors_of,
)
from .convolution import Convolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """Properties of the factors of a convolution's products, if X or W is not an ordinary activation or constant.

    `tiles`: W is an activation, int8[CB, tiles, KH, KW, co, ci]. It has `tiles` weight tiles for each block of
    channels; the products use the first OB of them (OB: number of filter blocks). `zero_points` are subtracted from X
    and W. `last_columns`: in the last block of channels, how many columns of the kernel are multiplied (None: all).
    """

    tiles: int | None = None
    zero_points: Pair = (0, 0)
    last_columns: int | None = None


PLAIN_FACTORS = Factors()
"""The default of `conv2d`: X holds activations, W constant weights, and all columns of the kernel are multiplied."""


def conv2d(
    *,
    blocks: Blocks,
    convolution: Convolution,
    pad_value: int,
    post: Post,
    placement: Placement = WHOLE,
    factors: Factors = PLAIN_FACTORS,
    name: str = "conv2d",
) -> Program:
    """Y = post(bias + sum over the window of W * X), where positions outside X read as `pad_value`.

    Let B, ci, co be the fields of `blocks`, NB = ceil(batch / B), CB and OB the channel blocks. Parameters: X int8[NB,
    CB, H, W, B, ci]; W int8[OB, CB, KH, KW, co, ci]; P int32[OB, 2, co] (row 0: biases, row 1: bits of float32 scales);
    R int8, shaped like Y, if `post` combines with an operand; Y int8[NB, OB, OH, OW, B, co]. If a block of activations
    is m = `blocks.outputs` output vectors, R and Y are [NB, OB / m, OH, OW * m, B, co], and OB is a multiple of m; Y
    stays unchanged in vectors without filters. Statement "pad" fills `padded`, "conv" fills `acc`.

    `placement` and `factors` change these tensors. With `placement.spread` the size of Y is `spread.plane`. There is no
    `padded` for a resident X, which is in the on-chip chain memory. Raises ValueError if a window does not fit.
    """
    batch, channels, filters = convolution.batch, convolution.channels, convolution.filters
    height, width, window = convolution.height, convolution.width, convolution.window
    b_size, ci, co = blocks.batch, blocks.block_in, blocks.block_out
    nb, cb = ceil_div(batch, b_size), ceil_div(channels, ci)
    own, ob = filter_vectors(blocks, filters)
    (kh_size, kw_size), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    part = Part.of(window, height, width, placement.area)
    oh, ow = part.outputs

    tiles, zero_points, last_columns = factors.tiles, factors.zero_points, factors.last_columns
    order = (ob, cb) if tiles is None else (cb, tiles)
    weight = Buffer(name="W", shape=(*order, kh_size, kw_size, co, ci), dtype=DType.INT8)
    x_in, padded, pads = padded_input(
        window,
        part,
        (nb, cb, height, width),
        (b_size, ci),
        pad_value=pad_value,
        resident=placement.resident,
    )

    acc = activation("acc", (nb, ob, oh, ow), (b_size, co), DType.INT32)
    n, o, y, x, b, j = (Var(f"conv.{v}") for v in ("n", "o", "y", "x", "b", "j"))
    ic, kh, kw, k = (Var(f"conv.{v}") for v in ("ic", "kh", "kw", "k"))
    at = (o, ic) if tiles is None else (ic, o)
    data = padded[n, ic, y * sy + kh * dy, x * sx + kw * dx, b, k]
    conv = Reduce.into(
        "conv",
        "add",
        acc[n, o, y, x, b, j],
        (cast(data, DType.INT32) - zero_points[0])
        * (cast(weight[(*at, kh, kw, j, k)], DType.INT32) - zero_points[1]),
        all_of(equal(ic, 0), equal(kh, 0), equal(kw, 0), equal(k, 0)),
    )
    spatial = [(n, nb), (o, own), (y, oh), (x, ow), (b, b_size), (j, co)]
    columns = kw_size if last_columns is None else vectors_of(ic, kw_size, (cb - 1) * kw_size + last_columns)
    summed = nest([*spatial, (ic, cb), (kh, kh_size), (kw, columns), (k, ci)], conv)

    size = window.outputs(height, width) if placement.spread is None else placement.spread.plane
    outputs = Outputs.of(blocks, (nb, ob, *size), post, placement)
    finish = outputs.finish(acc, filters=own)
    body = Alloc(buffer=acc, body=seq(*pads, summed, finish))
    return Program(
        name=name,
        parameters=parameters_of(x_in, weight, *outputs.buffers),
        body=body if placement.resident else Alloc(buffer=padded, body=body),
    )

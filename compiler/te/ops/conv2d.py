"""Convolution over blocked activations."""

from __future__ import annotations

from ...ir.expr import Buffer, Var, all_of, cast, equal
from ...ir.stmt import Alloc, Program, Reduce, nest, seq
from ...ir.types import DType
from ..blocks import Blocks, Pads, Pair, Window, ceil_div
from ..post import Post
from .common import (
    Area,
    Part,
    Spread,
    activation,
    filter_vectors,
    output_buffers,
    padded_input,
    parameters_of,
    post_nest,
    table_of,
    vectors_of,
)
from .convolution import Convolution
from .ring import INT32_MIN as INT32_MIN
from .ring import Ring


def conv2d(
    *,
    blocks: Blocks,
    convolution: Convolution,
    pad_value: int,
    post: Post,
    pool: Window | None = None,
    area: Area | None = None,
    resident: bool = False,
    margins: Pads | None = None,
    spread: Spread | None = None,
    planes: bool = False,
    tiles: int | None = None,
    zero_points: Pair = (0, 0),
    turned: bool = False,
    last_columns: int | None = None,
    name: str = "conv2d",
) -> Program:
    """Y = post(bias + sum over the window of W * X), positions outside X reading as `pad_value`.

    Parameters, with B, ci, co = `blocks`, NB = ceil(batch / B), CB and OB the channel blocks: X int8[NB, CB, H, W, B,
    ci], W int8[OB, CB, KH, KW, co, ci], P int32[OB, 2, co] (row 0 the biases, row 1 the bits of the float32 scales), R
    int8 like Y where `post` combines with an operand, Y int8[NB, OB, OH, OW, B, co] (R and Y [NB, OB / m, OH, OW * m,
    B, co] if a block of activations is m = `blocks.outputs` output vectors, OB a multiple of m; vectors without filters
    are not computed, and Y is unchanged there). Intermediates: `padded` (statement "pad") and `acc` (statement "conv").

    With `pool` the maximum over its windows (dilation 1) comes before `post`, and Y has the pool's size. `acc` then
    holds the pool's pads too: statements "border.top", "border.left", … fill them with the least int32. With `area`
    (not together with `pool`) only that part of Y is computed; with `spread` too it is spread over Y, whose size is
    `spread.plane`. With `resident` X is in the chain memory, pads included, and is read there: there is no `padded`.
    With `margins` Y is in the chain memory (`common.output_buffers`). With `planes` R has one vector for each plane of
    Y. With `tiles` W is an activation, int8[CB, tiles, KH, KW, co, ci]: `tiles` tiles for each block of channels, the
    first OB of which are used. `zero_points` are subtracted from X and W. With `turned` P belongs to the columns
    (`common.output_buffers`). For the last block of channels only the kernel's first `last_columns` are multiplied.
    Raises ValueError if a window does not fit.
    """
    batch, channels, filters = convolution.batch, convolution.channels, convolution.filters
    height, width, window = convolution.height, convolution.width, convolution.window
    b_size, ci, co = blocks.batch, blocks.block_in, blocks.block_out
    nb, cb = ceil_div(batch, b_size), ceil_div(channels, ci)
    own, ob = filter_vectors(blocks, filters)
    (kh_size, kw_size), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    part = Part.of(window, height, width, area)
    oh, ow = part.outputs

    order = (ob, cb) if tiles is None else (cb, tiles)
    weight = Buffer(name="W", shape=(*order, kh_size, kw_size, co, ci), dtype=DType.INT8)
    x_in, padded, pads = padded_input(
        window, part, (nb, cb, height, width), (b_size, ci), pad_value=pad_value, resident=resident
    )

    ring = Ring.of(pool, oh, ow)
    acc = activation("acc", (nb, ob, *ring.shape), (b_size, co), DType.INT32)
    n, o, y, x, b, j = (Var(f"conv.{v}") for v in ("n", "o", "y", "x", "b", "j"))
    ic, kh, kw, k = (Var(f"conv.{v}") for v in ("ic", "kh", "kw", "k"))
    at = (o, ic) if tiles is None else (ic, o)
    data = padded[n, ic, y * sy + kh * dy, x * sx + kw * dx, b, k]
    conv = Reduce(
        name="conv",
        op="add",
        buffer=acc,
        indices=acc[n, o, y + ring.top, x + ring.left, b, j].indices,
        value=(cast(data, DType.INT32) - zero_points[0])
        * (cast(weight[(*at, kh, kw, j, k)], DType.INT32) - zero_points[1]),
        first=all_of(equal(ic, 0), equal(kh, 0), equal(kw, 0), equal(k, 0)),
    )
    spatial = [(n, nb), (o, own), (y, ring.rows), (x, ring.columns), (b, b_size), (j, co)]
    columns = kw_size if last_columns is None else vectors_of(ic, kw_size, (cb - 1) * kw_size + last_columns)
    summed = nest([*spatial, (ic, cb), (kh, kh_size), (kw, columns), (k, ci)], conv)

    size = window.outputs(height, width) if pool is None else pool.outputs(oh, ow)
    size = size if spread is None else spread.plane
    outputs = output_buffers(blocks, (nb, ob, *size), post, margins=margins, planes=planes, turned=turned)
    finish = post_nest(
        blocks,
        acc,
        outputs,
        post,
        window=(1, 1) if pool is None else pool.kernel,
        strides=(1, 1) if pool is None else pool.strides,
        area=area,
        margins=margins,
        spread=spread,
        turned=turned,
        filters=own,
    )
    body = Alloc(buffer=acc, body=seq(*pads, *ring.fills(acc), summed, finish))
    parameters, out, operand = outputs
    return Program(
        name=name,
        parameters=parameters_of(x_in, weight, parameters, table_of(post), operand, out),
        body=body if resident else Alloc(buffer=padded, body=body),
    )

"""Quantized convolutions for GPUs over activations in channels-last layout: as matrix products, or, for small groups,
as separate sums for each element of the output.

A row of the left-hand matrix is the window of an output position, gathered from the input. A schedule gathers it tile
by tile, so that the matrix is never stored as a whole.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir.expr import Buffer, Const, Expr, Var, cast, minimum
from ...ir.stmt import Assign, Copy, Program, Stmt, nest, region, whole
from ...ir.types import DType
from ..post import Post, post_value
from .blocked_convolution import Layout, Place, QuantizedSums, convolution_program
from .convolution import Convolution
from .gemm_convolution import is_pointwise
from .quantization import stored_value, unsigned_activation
from .sums import program_of, summed


def int8_product(shape: Convolution, *, lanes: tuple[int, int], pad_value: int, post: Post) -> Program:
    """Y = `post` of the sums over the window and the group's channels of W * X; positions outside X read as
    `pad_value`.

    `lanes`: number of stored channels at a position of X and of Y. C and F are the channels and filters of a group, or
    the two `lanes` without groups. Parameters: uint8 X [images, height, width, lanes], or [positions, lanes] if
    pointwise without groups; int8 W [groups, F, KH * KW * C] (`product_weights`); int32 P [2, lanes] (row 0: biases,
    row 1: bits of the float32 scales); uint8 R, shaped like Y, if `post` combines with an operand; uint8 Y [positions,
    groups, F]. Without groups, W and Y lack the dimension `groups`. Raises ValueError if the filters of all groups do
    not fill the lanes of Y.

    The stages are those of `te.ops.product`: copies `a` [groups, positions, KH * KW * C] of X and `b` of W, the sum
    "gemm" (loops gemm.b0 over groups, gemm.i, gemm.j, gemm.k), and the statement "post" in loops b0, i, j.
    """
    groups = shape.groups
    channels, filters = lanes if groups == 1 else (shape.group_channels, shape.group_filters)
    outputs = shape.outputs
    depth = prod(shape.window.kernel) * channels
    positions = shape.batch * prod(outputs)
    pointwise = groups == 1 and is_pointwise(shape.window)
    batch = () if groups == 1 else (groups,)
    if groups * filters != lanes[1]:
        raise ValueError(
            f"{groups} groups of {filters} filters are {groups * filters} channels, but Y has {lanes[1]} lanes; the "
            "two numbers must be equal"
        )

    def buffer(name: str, dtype: DType, *sizes: int) -> Buffer:
        return Buffer(name=name, shape=sizes, dtype=dtype)

    image = (positions,) if pointwise else (shape.batch, shape.height, shape.width)
    x = buffer("X", DType.UINT8, *image, lanes[0])
    w = buffer("W", DType.INT8, *batch, filters, depth)
    parameters = buffer("P", DType.INT32, 2, lanes[1])
    y = buffer("Y", DType.UINT8, positions, *batch, filters)
    operand = buffer("R", DType.UINT8, *y.shape) if post.has_operand else None
    a, b = buffer("a", DType.UINT8, *batch, positions, depth), buffer("b", DType.INT8, *w.shape)
    total = buffer("sum", DType.INT32, *batch, positions, filters)

    if pointwise:
        left: Stmt = Copy(name="a", destination=whole(a), source=whole(x))
    else:
        left = _gathered(shape, channels, pad_value, x, a)
    right = Copy(name="b", destination=whole(b), source=whole(w))

    def product(*at: Var) -> Expr:
        *group, i, j, k = at
        return cast(a[*group, i, k], DType.INT32) * cast(b[*group, j, k], DType.INT32)

    outputs = {**({} if groups == 1 else {"b0": groups}), "i": positions, "j": filters}
    at = [Var(loop) for loop in outputs]
    channel = at[-1] if groups == 1 else at[0] * filters + at[-1]
    place = (at[-2], *at[:-2], at[-1])
    second = None if operand is None else stored_value(operand[place])
    result = post_value(total[tuple(at)] + parameters[0, channel], parameters[1, channel], second, post)
    stage = Assign.to("post", y[place], unsigned_activation(result))
    return program_of(
        "int8_conv2d",
        (x, w, parameters, operand, y),
        [a, b, total],
        left,
        right,
        summed("gemm", total, outputs, {"k": depth}, product),
        nest(list(zip(at, outputs.values(), strict=True)), stage),
    )


def product_weights(weight: np.ndarray, groups: int, lanes: tuple[int, int]) -> np.ndarray:
    """The parameter W of `int8_product` from int8 weights [filters, channels of a group, KH, KW]. Without groups, W is
    padded with zeros to the `lanes` of X (channels) and of Y (filters).
    """
    filters, channels = weight.shape[:2]
    if groups == 1:
        weight = np.pad(weight, ((0, lanes[1] - filters), (0, lanes[0] - channels), (0, 0), (0, 0)))
    ordered = weight.transpose(0, 2, 3, 1)
    batch = () if groups == 1 else (groups,)
    return np.ascontiguousarray(ordered).reshape(*batch, len(ordered) // groups, -1)


def _gathered(shape: Convolution, channels: int, pad_value: int, x: Buffer, a: Buffer) -> Stmt:
    """Copies the window of X for each output position to a row of `a`. Loops: a.b0 over groups, a.i over positions, a.k
    over the elements of a window (rows of taps, then columns of taps, then channels).
    """
    *batch, positions, depth = a.shape
    (sy, sx), (dy, dx), (top, left, _, _) = shape.window.strides, shape.window.dilations, shape.window.pads
    oh, ow = shape.outputs
    own = [Var(f"a.b{d}") for d in range(len(batch))]
    i, k = Var("a.i"), Var("a.k")
    tap, channel = k // channels, k % channels
    kh, kw = tap // shape.window.kernel[1], tap % shape.window.kernel[1]
    row, column = i // ow % oh, i % ow
    first: Expr = own[0] * channels if own else Const(0)
    source = (i // (oh * ow), row * sy + kh * dy - top, column * sx + kw * dx - left, first + channel)
    copy = Copy(
        name="a",
        destination=region(a, *[(at, 1) for at in (*own, i, k)]),
        source=region(x, *[(at, 1) for at in source]),
        # Without pads only rows that a schedule adds are outside: zeros, which asynchronous copies fill in.
        pad=Const(pad_value if any(shape.window.pads) else 0, x.dtype),
    )
    return nest([*zip(own, batch, strict=True), (i, positions), (k, depth)], copy)


def channels_last_convolution(shape: Convolution, *, lanes: tuple[int, int], sums: QuantizedSums) -> Program:
    """`blocked_convolution` of quantized tensors with groups. One block of X holds all channels, and one block of Y all
    filters.

    `lanes`: channels in the blocks of X and of Y. Parameters: uint8 X [batch, 1, height, width, lanes]; int8 W [lanes
    of Y, KH, KW, channels of a group], zero in lanes without a filter; int32 P [1, 2, lanes] (row 0 the biases, row 1
    the bits of the float32 scales); uint8 Y [batch, 1, OH, OW, lanes]. Intermediates as in `blocked_convolution`, with
    loops conv.n, conv.o, conv.y, conv.x, conv.j, conv.ic, conv.kh, conv.kw, conv.k and n, o, y, x, j. Raises ValueError
    if the window does not fit.
    """
    held, made = lanes
    channels, filters = shape.group_channels, shape.group_filters

    def factors(data: Buffer, weight: Buffer, at: Place) -> tuple[Expr, Expr]:
        (n, o), (_, k), j = at.outer, at.channel, at.lane
        # Lanes without a filter multiply channels of the last group.
        group = minimum(j // filters, shape.groups - 1) if made > shape.filters else j // filters
        return data[n, o, *at.position, group * channels + k], weight[j, *at.tap, k]

    layout = Layout(
        data=(shape.batch, 1, shape.height, shape.width, held),
        weight=(made, *shape.window.kernel, channels),
        outer={"n": shape.batch, "o": 1},
        lanes=made,
        channels=(1, channels),
        factors=factors,
        channel=lambda n, o, y, x, j: (j,),
        block=lambda n, o, y, x, j: o,
        bias=(made,),
        filters=shape.filters,
    )
    return convolution_program("int8_grouped", shape, layout, sums)

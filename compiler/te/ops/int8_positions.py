"""Operators that move positions (pixels) of quantized tensors on processors, and interpolation along an axis with
constant weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Buffer, Call, Const, Expr, Var, cast, minimum, select
from ...ir.stmt import Program, each
from ...ir.types import DType
from ..post import Post
from .movement import clamped
from .quantization import unsigned_activation

Shape = tuple[int, ...]


def int8_positions(parts: Sequence[Shape], result: Shape, *, fill: int) -> Program:
    """Moves whole vectors of channels: Y[n, o, p] is block o of the channels at the input position with number I[n * P
    + p], or `fill` where the number is -1.

    `parts` and `result` are the shapes [batch, blocks, height, width, block] of the inputs and of Y; P is height *
    width of Y. Parameters: the inputs uint8 X0, X1, ... with height and width merged; int64 I [batch * P], whose
    elements are indices into the positions of all images of X0, then of X1 and so on, or -1 for `fill` (a uint8
    activation); uint8 Y with height and width merged. Loops n, o, p, j contain the statement "move".
    """
    batch, blocks, oh, ow, block = result
    places = oh * ow
    index = Buffer(name="I", shape=(batch * places,), dtype=DType.INT64)
    y_out = Buffer(name="Y", shape=(batch, blocks, places, block), dtype=DType.UINT8)
    n, o, p, j = (Var(v) for v in ("n", "o", "p", "j"))
    place = index[n * places + p]
    value: Expr = Const(fill, DType.UINT8)
    inputs: list[Buffer] = []
    start = 0
    for i, (images, _, height, width, _) in enumerate(parts):
        plane = height * width
        x_in = Buffer(name=f"X{i}", shape=(images, blocks, plane, block), dtype=DType.UINT8)
        inside = clamped(place - start, images * plane)
        value = select(place < start, value, x_in[inside // plane, o, inside % plane, j])
        start += images * plane
        inputs.append(x_in)
    return Program(
        name="int8_positions", parameters=(*inputs, index, y_out), body=each("move", y_out[n, o, p, j], value)
    )


def int8_swap(data: Shape, result: Shape) -> Program:
    """Y[n, p, c] = X[n, c, p]: exchanges channels and positions.

    `data` and `result` are the shapes [batch, blocks, height, width, block] of X and Y. The parameters, uint8 X and Y,
    have height and width merged. Loops n, o, c, j contain the statement "move".
    """
    images, blocks, height, width, block = data
    batch, others, oh, ow, lanes = result
    plane, channels = height * width, oh * ow
    x_in = Buffer(name="X", shape=(images, blocks, plane, block), dtype=DType.UINT8)
    y_out = Buffer(name="Y", shape=(batch, others, channels, lanes), dtype=DType.UINT8)
    n, o, c, j = (Var(v) for v in ("n", "o", "c", "j"))
    # Lanes of Y beyond X's positions hold copies of the last position, which no kernel reads.
    value = x_in[n, c // block, minimum(o * lanes + j, plane - 1), c % block]
    return Program(name="int8_swap", parameters=(x_in, y_out), body=each("move", y_out[n, o, c, j], value))


def int8_resample(
    shape: tuple[int, int, int], weights: tuple[int, int], *, bias: int, scale: float, post: Post
) -> Program:
    """Y[i, p, j] = requantize(bias + sum over taps t of W[p, t] * X[i, F[p] + t, j], scale), with the zero point and
    limits of `post`.

    Parameters: uint8 X of `shape` [outer, size, inner]; int64 F [outputs], the first input of each output; int32 W of
    shape `weights` [outputs, taps]; uint8 Y [outer, outputs, inner]. Indices of X are clamped to 0 .. size - 1. `bias`
    is int32, for uint8 activations. Loops n, p, j contain the statement "resample".
    """
    (outer, size, inner), (outputs, taps) = shape, weights
    x_in = Buffer(name="X", shape=(outer, size, inner), dtype=DType.UINT8)
    first = Buffer(name="F", shape=(outputs,), dtype=DType.INT64)
    weight = Buffer(name="W", shape=(outputs, taps), dtype=DType.INT32)
    y_out = Buffer(name="Y", shape=(outer, outputs, inner), dtype=DType.UINT8)
    n, p, j = (Var(v) for v in ("n", "p", "j"))
    total: Expr = Const(bias, DType.INT32)
    for tap in range(taps):
        inside = clamped(first[p] + tap, size)
        total = total + cast(x_in[n, inside, j], DType.INT32) * weight[p, tap]
    limits = [Const(value, DType.INT8) for value in (post.zero_point, post.low, post.high)]
    value = unsigned_activation(Call("requantize", (total, Const(scale, DType.FLOAT32), *limits), DType.INT8))
    return Program(
        name="int8_resample",
        parameters=(x_in, first, weight, y_out),
        body=each("resample", y_out[n, p, j], value),
    )

"""Operators that move positions (pixels) of quantized tensors on processors, and interpolation between positions."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.isa.arithmetic import UNSIGNED_OFFSET

from ...ir.expr import Buffer, Call, Const, Expr, Var, cast, maximum, minimum, select
from ...ir.stmt import Program, each
from ...ir.types import DType
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


def int8_interpolation(
    shape: tuple[int, int, int, int],
    outputs: tuple[int, int],
    *,
    source: tuple[float, int],
    grid: tuple[float, int],
    limits: tuple[int, int],
) -> Program:
    """Y = the real values of X, interpolated between two rows and two columns, quantized.

    Parameters: uint8 X of `shape` [outer, height, width, inner]; int64 RF and CF, the first input row and column of
    each output; float32 RW and CW [outputs, 2], the weights of this first row or column and of the next one; uint8 Y
    [outer, rows, columns, inner], where `outputs` is (rows, columns). Indices of X are clamped to its plane. `source`
    and `grid`: scale and int8 zero point of X and of Y; `limits`: the least and the largest int8 value of Y. The
    float32 sum adds the first row before the second row, and within a row the first column before the second. Loops n,
    p, q, j contain the statement "resample".
    """
    outer, height, width, inner = shape
    x_in = Buffer(name="X", shape=shape, dtype=DType.UINT8)
    y_out = Buffer(name="Y", shape=(outer, *outputs, inner), dtype=DType.UINT8)
    row, column = (
        Buffer(name=f"{axis}F", shape=(size,), dtype=DType.INT64)
        for axis, size in zip("RC", outputs, strict=True)
    )
    of_row, of_column = (
        Buffer(name=f"{axis}W", shape=(size, 2), dtype=DType.FLOAT32)
        for axis, size in zip("RC", outputs, strict=True)
    )
    n, p, q, j = (Var(v) for v in ("n", "p", "q", "j"))

    def weighted(down: int, along: int) -> Expr:
        read = x_in[n, clamped(row[p] + down, height), clamped(column[q] + along, width), j]
        difference = cast(read, DType.INT32) - (source[1] + UNSIGNED_OFFSET)
        real = cast(difference, DType.FLOAT32) * Const(source[0], DType.FLOAT32)
        return of_row[p, down] * of_column[q, along] * real

    total = weighted(0, 0) + weighted(0, 1) + weighted(1, 0) + weighted(1, 1)
    constants = (Const(grid[0], DType.FLOAT32), Const(grid[1], DType.INT8))
    value = unsigned_activation(Call("quantize", (total, *constants), DType.INT8))
    low, high = (limit + UNSIGNED_OFFSET for limit in limits)
    value = value if low == 0 else maximum(value, Const(low, DType.UINT8))
    value = value if high == 255 else minimum(value, Const(high, DType.UINT8))
    parameters = (x_in, row, of_row, column, of_column, y_out)
    return Program(
        name="int8_interpolation", parameters=parameters, body=each("resample", y_out[n, p, q, j], value)
    )

"""LayerNormalization and InstanceNormalization of float32 tensors: rows are normalized by their mean and variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...ir.expr import Buffer, Var
from ...ir.stmt import Assign, Program, nest, parameters_of
from ...ir.types import DType
from ..rows import fold_row, row_loops, row_width
from ..scalars import divide, sqrt


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalized:
    """Sizes and parameters of a normalization of `channels` rows of `size` elements in each of `outer` images.

    The scale S is [size] if `by` is "row" (ONNX's LayerNormalization of the last axes, channels = 1), or [channels] if
    `by` is "channel" (InstanceNormalization; also the first step of GroupNormalization, with groups as channels). With
    `bias`, the bias B has the same shape. `epsilon` is added to the variance.
    """

    outer: int
    channels: int
    size: int
    epsilon: float
    by: Literal["row", "channel"] = "row"
    bias: bool = True

    @property
    def buffers(self) -> tuple[Buffer, Buffer, Buffer | None, Buffer]:
        """The parameters X, S, B (None without a bias) and Y; X and Y are [outer, channels, size]."""
        x, y = (
            Buffer(name=n, shape=(self.outer, self.channels, self.size), dtype=DType.FLOAT32) for n in "XY"
        )
        shape = (self.size,) if self.by == "row" else (self.channels,)
        scale, shift = (Buffer(name=n, shape=shape, dtype=DType.FLOAT32) for n in "SB")
        return x, scale, shift if self.bias else None, y


def normalize(sizes: Normalized, *, width: int = 1) -> Program:
    """Y = (X - m) / sqrt(v + sizes.epsilon) * S + B, with the mean m and the variance v of each row.

    Parameters: the buffers `sizes.buffers`. The variance is computed as the mean of (X - m)^2, which avoids
    cancellation. Loops "image" and "row" contain two reductions by `te.rows.fold_row`, "sum" and "square", with `width`
    partial results (a power of two), and then the statement "scale".
    """
    x, scale, shift, y = sizes.buffers
    size = sizes.size
    image, row = Var("image"), Var("row")
    width = row_width(size, width)
    total = fold_row("sum", "add", size, width, lambda p: x[image, row, p])
    mean = divide(total.result, float(size))
    squares = fold_row(
        "square", "add", size, width, lambda p: (x[image, row, p] - mean) * (x[image, row, p] - mean)
    )
    deviation = sqrt(divide(squares.result, float(size)) + sizes.epsilon)
    position, loops = row_loops("scale", size, width)
    at = position if sizes.by == "row" else row
    value = divide(x[image, row, position] - mean, deviation) * scale[at]
    if shift is not None:
        value = value + shift[at]
    finish = Assign.to("scale", y[image, row, position], value)
    body = total.around(squares.around(nest(loops, finish)))
    return Program(
        name="normalize",
        parameters=parameters_of(x, scale, shift, y),
        body=nest([(image, sizes.outer), (row, sizes.channels)], body),
    )

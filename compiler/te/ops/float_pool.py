"""Pools over windows, in plain and in blocked layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ...ir.expr import Buffer, Const, Expr, ExprLike, Var, cast, maximum, minimum
from ...ir.stmt import Program
from ...ir.types import DType
from ..blocks import Pads, Window
from ..post import PoolOperator
from ..scalars import divide
from .sums import padded_input, program_of, stored, summed

Storage = tuple[int, int, int, int]
"""Shape [outer, height, width, lanes] of a tensor whose windows a pool reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSums:
    """The sum ("add") or maximum ("max") of a window's elements, in the type `dtype`. Elements outside of the input
    count as `outside`.
    """

    op: PoolOperator
    dtype: DType
    outside: float


def float_pool(
    shape: Storage,
    window: Window,
    kind: Literal["max", "average"],
    *,
    counted: Pads = (0, 0, 0, 0),
    dtype: DType = DType.FLOAT32,
) -> Program:
    """Y = the maximum or the average of each window, in float32. The maximum of a window that contains a NaN is NaN.
    `dtype`: type of X, a float of 16 or 32 bits.

    Parameters: X of `shape` [outer, height, width, lanes]; Y [outer, OH, OW, lanes]. A tensor (N, C, H, W) has outer =
    N * C and lanes = 1; a tensor (N, H, W, C) has outer = N and lanes = C; tensors in the blocks of
    `blocked_convolution` have outer = batch * groups * CB and lanes = ci.

    Positions outside X are ignored. A window entirely outside X (pads and dilations can cause one) has the maximum
    -inf. An average is divided by a number of window positions: those in X, and those in a border of `counted` (top,
    left, bottom, right) rows and columns around X. `counted` is the model's pads for ONNX's count_include_pad, and
    otherwise zeros. If the number is 0, the average is NaN.

    If there are pads, statement "pad" first fills `padded`. Statement "pool" (loops pool.n, pool.y, pool.x, pool.j,
    pool.kh, pool.kw) computes `window`; loops n, y, x, j around the statement "post" store Y. Raises ValueError if the
    window does not fit.
    """
    x_in = Buffer(name="X", shape=shape, dtype=dtype)
    f32, (_, height, width, _) = DType.FLOAT32, shape
    if kind == "max":
        greatest = WindowSums(op="max", dtype=f32, outside=float("-inf"))
        return pooled("pool", x_in, window, greatest, lambda value, *_: value, y_type=f32)

    def average(total: Expr, y: Var, x: Var) -> Expr:
        top, left, bottom, right = counted
        rows = _inside(y, window, 0, -top, height + bottom)
        columns = _inside(x, window, 1, -left, width + right)
        return divide(total, cast(rows * columns, f32))

    total = WindowSums(op="add", dtype=f32, outside=0.0)
    return pooled("pool", x_in, window, total, average, y_type=f32)


def pooled(
    name: str,
    x_in: Buffer,
    window: Window,
    sums: WindowSums,
    finish: Callable[[Expr, Var, Var], Expr],
    *,
    beside: Buffer | None = None,
    y_type: DType | None = None,
) -> Program:
    """A pool: Y[n, y, x, j] = finish(s, y, x), where s is the sum or maximum of X over the window (`sums` says which).
    Y has the type `y_type` (None: the type of X).

    Parameter `x_in` is X [outer, height, width, lanes]. `beside`: a further parameter of the program, which `finish`
    may read. Intermediates and loops are as in `float_pool`.
    """
    outer, height, width, lanes = x_in.shape
    oh, ow = window.outputs(height, width)
    y_out = Buffer(name="Y", shape=(outer, oh, ow, lanes), dtype=y_type or x_in.dtype)
    data, pad = padded_input(x_in, window, sums.outside)
    total = Buffer(name="window", shape=y_out.shape, dtype=sums.dtype)
    (rows, columns), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations

    def value(n: Var, y: Var, x: Var, j: Var, kh: Var, kw: Var) -> Expr:
        return cast(data[n, y * sy + kh * dy, x * sx + kw * dx, j], sums.dtype)

    outputs = {"n": outer, "y": oh, "x": ow, "j": lanes}
    return program_of(
        name,
        (x_in, beside, y_out),
        (data, total) if pad else (total,),
        *pad,
        summed("pool", total, outputs, {"kh": rows, "kw": columns}, value, op=sums.op),
        stored(y_out, outputs, lambda n, y, x, j: finish(total[n, y, x, j], y, x)),
    )


def _inside(position: Expr, window: Window, axis: int, low: int, high: int) -> Expr:
    """Number of positions of window number `position` along `axis` (0: rows, 1: columns) that are within low .. high -
    1 of the input.
    """
    size, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
    start: Expr = position * stride - window.pads[axis]
    first: ExprLike = maximum((low + (dilation - 1) - start) // dilation, 0)
    last = minimum((high - 1 - start) // dilation, size - 1)
    return last - first + Const(1)

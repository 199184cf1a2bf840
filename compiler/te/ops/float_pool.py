"""Floating-point pools over windows, in plain and in blocked layouts."""

from __future__ import annotations

from typing import Literal

from ...ir.expr import Buffer, Const, Expr, ExprLike, Var, all_of, cast, equal, maximum, minimum
from ...ir.stmt import Alloc, Assign, Program, Reduce, Stmt, nest, seq
from ...ir.types import DType
from ..blocks import Pads, Pair, Window, ceil_div
from ..scalars import divide
from .float_conv2d import padded_input


def pool_window(
    *,
    kernel: Pair,
    strides: Pair,
    pads: Pads,
    dilations: Pair = (1, 1),
    height: int,
    width: int,
    ceil_mode: bool = False,
) -> Window:
    """A pool's window; with ONNX's `ceil_mode`, pads below and right are those that the last partial window needs.

    The last window starts inside the input or the pads before it, as in ONNX and PyTorch.
    """
    top, left, bottom, right = pads
    if not ceil_mode:
        return Window(kernel=kernel, strides=strides, pads=pads, dilations=dilations)
    ends: list[int] = []
    for size, before, after, k, s, d in zip(
        (height, width), (top, left), (bottom, right), kernel, strides, dilations, strict=True
    ):
        span = (k - 1) * d + 1
        count = ceil_div(size + before + after - span, s) + 1
        if (count - 1) * s >= size + before:
            count -= 1
        ends.append(max(after, (count - 1) * s + span - size - before))
    return Window(kernel=kernel, strides=strides, pads=(top, left, ends[0], ends[1]), dilations=dilations)


def float_pool(
    *,
    outer: int,
    height: int,
    width: int,
    lanes: int,
    window: Window,
    kind: Literal["max", "average"],
    counted: Pads = (0, 0, 0, 0),
    name: str = "pool",
) -> Program:
    """Y = the greatest value or the average of each window, in float32; NaN in a window is its greatest value.

    Parameters X [outer, height, width, lanes], Y [outer, OH, OW, lanes]: NCHW is outer = N * C, lanes = 1, NHWC is
    outer = N, lanes = C, the blocks of `float_conv2d` are outer = batch * groups * CB, lanes = ci.
    Positions outside X never win and add nothing; a window of nothing else (pads and dilations may leave one) has the
    greatest value -inf. Averages divide by the window's positions inside X and `counted`
    around it (top, left, bottom, right): the model's pads for ONNX's count_include_pad, else zeros. Of none it is NaN.
    Intermediates: `padded` (statement "pad") where there are pads, `window` (statement "pool", loops pool.n, pool.y,
    pool.x, pool.j, pool.kh, pool.kw); loops n, y, x, j around "post" follow. ValueError if the window does not fit.
    """
    oh, ow = window.outputs(height, width)
    x_in = Buffer(name="X", shape=(outer, height, width, lanes), dtype=DType.FLOAT32)
    y_out = Buffer(name="Y", shape=(outer, oh, ow, lanes), dtype=DType.FLOAT32)
    data, pad = padded_input(x_in, window, float("-inf") if kind == "max" else 0.0)
    total = Buffer(name="window", shape=y_out.shape, dtype=DType.FLOAT32)
    (kh_size, kw_size), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    n, y, x, j, kh, kw = (Var(f"pool.{v}") for v in ("n", "y", "x", "j", "kh", "kw"))
    pool = Reduce(
        name="pool",
        op="max" if kind == "max" else "add",
        buffer=total,
        indices=(n, y, x, j),
        value=data[n, y * sy + kh * dy, x * sx + kw * dx, j],
        first=all_of(equal(kh, 0), equal(kw, 0)),
    )
    around = [(n, outer), (y, oh), (x, ow), (j, lanes)]
    pooled = nest([*around, (kh, kh_size), (kw, kw_size)], pool)
    n, y, x, j = (Var(v) for v in ("n", "y", "x", "j"))
    value: Expr = total[n, y, x, j]
    if kind == "average":
        top, left, bottom, right = counted
        rows = _inside(y, window, 0, -top, height + bottom)
        columns = _inside(x, window, 1, -left, width + right)
        value = divide(value, cast(rows * columns, DType.FLOAT32))
    post = Assign(name="post", buffer=y_out, indices=(n, y, x, j), value=value)
    finish = nest([(n, outer), (y, oh), (x, ow), (j, lanes)], post)
    body: Stmt = Alloc(buffer=total, body=seq(*pad, pooled, finish))
    if pad:
        body = Alloc(buffer=data, body=body)
    return Program(name=name, parameters=(x_in, y_out), body=body)


def _inside(position: Expr, window: Window, axis: int, low: int, high: int) -> Expr:
    """How many positions of a window along an axis lie within low .. high - 1 of the input."""
    size, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
    start: Expr = position * stride - window.pads[axis]
    first: ExprLike = maximum((low + (dilation - 1) - start) // dilation, 0)
    last = minimum((high - 1 - start) // dilation, size - 1)
    return last - first + Const(1)

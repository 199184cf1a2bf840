"""Pools of quantized networks over activations in blocks of channels, as processors compute them."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.expr import Buffer, Call, Const, Expr, Var, all_of, cast, equal
from ...ir.stmt import Alloc, Assign, Program, Reduce, Stmt, nest, seq
from ...ir.types import DType
from ..blocks import Window
from ..post import PoolOperator
from .common import parameters_of
from .float_conv2d import padded_input
from .int8_conv2d import held


def int8_max_pool(
    *, outer: int, height: int, width: int, lanes: int, window: Window, name: str = "int8_max_pool"
) -> Program:
    """Y = the greatest value of each window; positions outside X never win.

    Parameters uint8, each the stored value plus 128: X [outer, height, width, lanes], Y [outer, OH, OW, lanes].
    Intermediates: `padded` (statement "pad") where there are pads, `window` (statement "pool", loops pool.n, pool.y,
    pool.x, pool.j, pool.kh, pool.kw); loops n, y, x, j around "post" follow. ValueError if the window does not fit.
    """
    x_in = Buffer(name="X", shape=(outer, height, width, lanes), dtype=DType.UINT8)
    return _pool(name, x_in, window, 0, "max", DType.UINT8, None, lambda value, *_: value)


def int8_average_pool(
    *,
    outer: int,
    height: int,
    width: int,
    lanes: int,
    window: Window,
    pad_value: int,
    bias: int,
    zero_point: int,
    low: int,
    high: int,
    name: str = "int8_average_pool",
) -> Program:
    """Y = requantize(bias + sum over the window, S): a scale for each position. X reads `pad_value` outside.

    Parameters X and Y as of `int8_max_pool`, S float32[OH, OW]; `pad_value` is an activation (0 to 255), `bias` int32.
    """
    x_in = Buffer(name="X", shape=(outer, height, width, lanes), dtype=DType.UINT8)
    scales = Buffer(name="S", shape=window.outputs(height, width), dtype=DType.FLOAT32)

    def finish(total: Expr, y: Var, x: Var) -> Expr:
        limits = [Const(v, DType.INT8) for v in (zero_point, low, high)]
        return held(Call("requantize", (total + bias, scales[y, x], *limits), DType.INT8))

    return _pool(name, x_in, window, pad_value, "add", DType.INT32, scales, finish)


def _pool(
    name: str,
    x_in: Buffer,
    window: Window,
    pad_value: int,
    op: PoolOperator,
    dtype: DType,
    scales: Buffer | None,
    finish: Callable[[Expr, Var, Var], Expr],
) -> Program:
    """A pool in `dtype`, whose results `finish` makes activations of, given row and column."""
    outer, height, width, lanes = x_in.shape
    oh, ow = window.outputs(height, width)
    y_out = Buffer(name="Y", shape=(outer, oh, ow, lanes), dtype=DType.UINT8)
    data, pad = padded_input(x_in, window, pad_value)
    total = Buffer(name="window", shape=y_out.shape, dtype=dtype)
    (kh_size, kw_size), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    n, y, x, j, kh, kw = (Var(f"pool.{v}") for v in ("n", "y", "x", "j", "kh", "kw"))
    pool = Reduce(
        name="pool",
        op=op,
        buffer=total,
        indices=(n, y, x, j),
        value=cast(data[n, y * sy + kh * dy, x * sx + kw * dx, j], dtype),
        first=all_of(equal(kh, 0), equal(kw, 0)),
    )
    around = [(n, outer), (y, oh), (x, ow), (j, lanes)]
    pooled = nest([*around, (kh, kh_size), (kw, kw_size)], pool)
    n, y, x, j = (Var(v) for v in ("n", "y", "x", "j"))
    post = Assign(name="post", buffer=y_out, indices=(n, y, x, j), value=finish(total[n, y, x, j], y, x))
    last = nest([(n, outer), (y, oh), (x, ow), (j, lanes)], post)
    body: Stmt = Alloc(buffer=total, body=seq(*pad, pooled, last))
    if pad:
        body = Alloc(buffer=data, body=body)
    return Program(name=name, parameters=parameters_of(x_in, scales, y_out), body=body)

"""Pools of quantized networks over activations in blocks of channels, for processors."""

from __future__ import annotations

from ...ir.expr import Buffer, Call, Const, Expr, Var
from ...ir.stmt import Program
from ...ir.types import DType
from ..blocks import Window
from ..post import Post
from .float_pool import pooled
from .unsigned import held

Storage = tuple[int, int, int, int]
"""[outer, height, width, lanes]: outer is of images and blocks of channels."""


def int8_max_pool(shape: Storage, window: Window, name: str = "int8_max_pool") -> Program:
    """Y = the greatest value of each window of X [outer, height, width, lanes]; positions outside X never win.

    Parameters uint8, each the stored value plus 128: X of this shape, Y [outer, OH, OW, lanes]. Intermediates: `padded`
    (statement "pad") where there are pads, `window` (statement "pool", loops pool.n, pool.y, pool.x, pool.j, pool.kh,
    pool.kw); loops n, y, x, j around "post" follow. ValueError if the window does not fit.
    """
    x_in = Buffer(name="X", shape=shape, dtype=DType.UINT8)
    return pooled(name, x_in, window, "max", DType.UINT8, lambda value, *_: value, outside=0)


def int8_average_pool(
    shape: Storage, window: Window, *, pad_value: int, bias: int, post: Post, name: str = "int8_average_pool"
) -> Program:
    """Y = requantize(bias + sum over the window, S): a scale for each position. X reads `pad_value` outside.

    Parameters X and Y as of `int8_max_pool`, S float32[OH, OW]; `pad_value` is an activation (0 to 255), `bias` int32,
    `post` has the zero point and limits of stage A.
    """
    x_in = Buffer(name="X", shape=shape, dtype=DType.UINT8)
    scales = Buffer(name="S", shape=window.outputs(*shape[1:3]), dtype=DType.FLOAT32)

    def finish(total: Expr, y: Var, x: Var) -> Expr:
        limits = [Const(v, DType.INT8) for v in (post.zero_point, post.low, post.high)]
        return held(Call("requantize", (total + bias, scales[y, x], *limits), DType.INT8))

    return pooled(name, x_in, window, "add", DType.INT32, finish, outside=pad_value, beside=scales)

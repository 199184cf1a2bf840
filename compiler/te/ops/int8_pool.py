"""Pools of quantized networks over activations in blocks of channels, for processors."""

from __future__ import annotations

from ...ir.expr import Buffer, Call, Const, Expr, Var
from ...ir.stmt import Program
from ...ir.types import DType
from ..blocks import Window
from ..post import Post
from .float_pool import Storage, WindowSums, pooled
from .quantization import unsigned_activation


def int8_max_pool(shape: Storage, window: Window) -> Program:
    """Y = the greatest value of each window of X; positions outside X are ignored.

    Parameters: X uint8 [outer, height, width, lanes] and Y uint8 [outer, OH, OW, lanes], both int8 values plus 128. If
    there are pads, statement "pad" first fills `padded`. Statement "pool" (loops pool.n, pool.y, pool.x, pool.j,
    pool.kh, pool.kw) computes `window`; loops n, y, x, j around the statement "post" store Y. Raises ValueError if the
    window does not fit.
    """
    x_in = Buffer(name="X", shape=shape, dtype=DType.UINT8)
    greatest = WindowSums(op="max", dtype=DType.UINT8, outside=0)
    return pooled("int8_max_pool", x_in, window, greatest, lambda value, *_: value)


def int8_average_pool(shape: Storage, window: Window, *, pad_value: int, bias: int, post: Post) -> Program:
    """An average pool: Y[y, x] = requantize(bias + sum of X over the window, scale S[y, x]).

    Parameters: X uint8 of `shape`; S float32 [OH, OW], a scale for each output position; Y. Shapes of X and Y, and the
    statements, are those of `int8_max_pool`. Positions outside X read as `pad_value`, a uint8 activation. `bias` is
    int32; `post` has the zero point and limits of the result.
    """
    x_in = Buffer(name="X", shape=shape, dtype=DType.UINT8)
    scales = Buffer(name="S", shape=window.outputs(*shape[1:3]), dtype=DType.FLOAT32)

    def finish(total: Expr, y: Var, x: Var) -> Expr:
        limits = [Const(v, DType.INT8) for v in (post.zero_point, post.low, post.high)]
        return unsigned_activation(Call("requantize", (total + bias, scales[y, x], *limits), DType.INT8))

    total = WindowSums(op="add", dtype=DType.INT32, outside=pad_value)
    return pooled("int8_average_pool", x_in, window, total, finish, beside=scales)

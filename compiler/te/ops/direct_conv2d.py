"""Convolutions over plain activations whose operands are staged, as GPUs compute them without matrices.

Tiles of the input keep their shape on the way through shared memory, so that each element is fetched once for all taps
of a window that read it.
"""

from __future__ import annotations

from ...ir.expr import Buffer, Const, Var, all_of, equal
from ...ir.stmt import Alloc, Assign, Copy, Program, Reduce, nest, region, seq, whole
from ...ir.types import DType
from ..blocks import Window
from ..epilogue import Epilogue
from .common import parameters_of


def direct_conv2d(
    *,
    batch: int,
    channels: int,
    height: int,
    width: int,
    filters: int,
    window: Window,
    epilogue: Epilogue | None = None,
    name: str = "direct_conv2d",
) -> Program:
    """Y = epilogue(sum over the window and all channels of W * X) in float32, of one group; X reads 0 outside.

    Parameters X [batch, channels, height, width], W [channels, KH * KW, filters], B [filters] with a bias, R like Y
    with an operand, Y [batch, filters, OH, OW]. Stages: copies `a` of W, as it lies, and `b` [batch, channels,
    (OH - 1) * SY + (KH - 1) * DY + 1, …] of X with its pads, but without what no window reads; `sum` like Y (statement
    "conv", loops conv.n, conv.f, conv.y, conv.x, conv.c, conv.kh, conv.kw); loops n, f, y, x around "post" follow. The
    sizes are the true ones: `schedule.pad` makes them multiples of tiles. ValueError if the window does not fit.
    """
    epilogue = epilogue or Epilogue()
    (taps_y, taps_x), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    (top, left, _, _), (oh, ow) = window.pads, window.outputs(height, width)
    rows, columns = (oh - 1) * sy + (taps_y - 1) * dy + 1, (ow - 1) * sx + (taps_x - 1) * dx + 1

    def buffer(name: str, *shape: int) -> Buffer:
        return Buffer(name=name, shape=shape, dtype=DType.FLOAT32)

    x_in, b = buffer("X", batch, channels, height, width), buffer("b", batch, channels, rows, columns)
    weight, a = (buffer(name, channels, taps_y * taps_x, filters) for name in ("W", "a"))
    y_out, total = (buffer(name, batch, filters, oh, ow) for name in ("Y", "sum"))
    bias = buffer("B", filters) if epilogue.bias else None
    operand = buffer("R", *y_out.shape) if epilogue.operand else None

    left_operand = Copy(name="a", destination=whole(a), source=whole(weight))
    right_operand = Copy(
        name="b",
        destination=whole(b),
        source=region(x_in, (0, batch), (0, channels), (-top, rows), (-left, columns)),
        pad=Const(0.0, DType.FLOAT32),
    )
    n, f, y, x, c, kh, kw = (Var(f"conv.{v}") for v in ("n", "f", "y", "x", "c", "kh", "kw"))
    conv = Reduce(
        name="conv",
        op="add",
        buffer=total,
        indices=(n, f, y, x),
        value=a[c, kh * taps_x + kw, f] * b[n, c, y * sy + kh * dy, x * sx + kw * dx],
        first=all_of(equal(c, 0), equal(kh, 0), equal(kw, 0)),
    )
    outputs = ((n, batch), (f, filters), (y, oh), (x, ow))
    summed = nest([*outputs, (c, channels), (kh, taps_y), (kw, taps_x)], conv)

    n, f, y, x = (Var(v) for v in ("n", "f", "y", "x"))
    value = epilogue.value(
        total[n, f, y, x],
        None if bias is None else bias[f],
        None if operand is None else operand[n, f, y, x],
    )
    post = Assign(name="post", buffer=y_out, indices=(n, f, y, x), value=value)
    finish = nest([(n, batch), (f, filters), (y, oh), (x, ow)], post)
    body = seq(left_operand, right_operand, summed, finish)
    for stage in (total, b, a):
        body = Alloc(buffer=stage, body=body)
    return Program(name=name, parameters=parameters_of(x_in, weight, bias, operand, y_out), body=body)

"""Direct convolutions for GPUs, without matrix products, over activations in plain NCHW.

Tiles of the input have the input's layout in shared memory, so that each element is loaded once for all taps that read
it.
"""

from __future__ import annotations

from ...ir.expr import Buffer, Const, Expr, Var
from ...ir.stmt import Copy, Program, region, whole
from ...ir.types import DType
from .convolution import Convolution
from .sums import Epilogue, program_of, stored, summed


def direct_conv2d(shape: Convolution, *, epilogue: Epilogue | None = None) -> Program:
    """A direct convolution in float32, for one group: Y = epilogue(sum over the window and all channels of W * X),
    where X is 0 outside.

    Parameters: X [batch, channels, height, width]; W [channels, KH * KW, filters]; B [filters] if the epilogue adds a
    bias; R, of Y's shape, if the epilogue adds an operand; Y [batch, filters, OH, OW].

    The program has four stages. Statement "a" copies W to the buffer `a`, in the same layout. Statement "b" copies X
    with its pads to the buffer `b` [batch, channels, rows, columns], as far as windows read them: (OH - 1) * SY + (KH -
    1) * DY + 1 rows for stride SY and dilation DY, and columns likewise. Statement "conv" computes the buffer `sum`
    (shaped like Y) in loops conv.n, conv.f, conv.y, conv.x, conv.c, conv.kh, conv.kw. Statement "post" stores Y, in
    loops n, f, y, x.

    Sizes are not rounded up: `schedule.pad` makes them multiples of tiles. Raises ValueError if the window does not
    fit, for several groups or a transposed convolution.
    """
    if shape.groups > 1:
        raise ValueError(f"a direct convolution must have one group, not {shape.groups}")
    if shape.transposed:
        raise ValueError("a direct convolution cannot be transposed")
    window, batch, channels, filters = shape.window, shape.batch, shape.channels, shape.filters
    (taps_y, taps_x), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    (top, left, _, _), (oh, ow) = window.pads, shape.outputs
    rows, columns = (oh - 1) * sy + (taps_y - 1) * dy + 1, (ow - 1) * sx + (taps_x - 1) * dx + 1

    def buffer(name: str, *shape: int) -> Buffer:
        return Buffer(name=name, shape=shape, dtype=DType.FLOAT32)

    x_in = buffer("X", batch, channels, shape.height, shape.width)
    weight, a = (buffer(name, channels, taps_y * taps_x, filters) for name in ("W", "a"))
    b = buffer("b", batch, channels, rows, columns)
    y_out, total = (buffer(name, batch, filters, oh, ow) for name in ("Y", "sum"))
    operands = (epilogue or Epilogue()).buffers((filters,), y_out)
    padded = Copy(
        name="b",
        destination=whole(b),
        source=region(x_in, (0, batch), (0, channels), (-top, rows), (-left, columns)),
        pad=Const(0.0, DType.FLOAT32),
    )

    def value(n: Var, f: Var, y: Var, x: Var, c: Var, kh: Var, kw: Var) -> Expr:
        return a[c, kh * taps_x + kw, f] * b[n, c, y * sy + kh * dy, x * sx + kw * dx]

    def finish(*at: Var) -> Expr:
        return operands.value(total[at], (at[1],), at)

    outputs = {"n": batch, "f": filters, "y": oh, "x": ow}
    return program_of(
        "direct_conv2d",
        (x_in, weight, operands.bias, operands.operand, y_out),
        (a, b, total),
        Copy(name="a", destination=whole(a), source=whole(weight)),
        padded,
        summed("conv", total, outputs, {"c": channels, "kh": taps_y, "kw": taps_x}, value),
        stored(y_out, outputs, finish),
    )

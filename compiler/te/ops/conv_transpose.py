"""Floating-point transposed convolutions over activations in blocks of channels.

Outputs whose rows and columns leave the same rest modulo the strides (a phase) use the same weights: each phase is a
dense convolution of the input with every stride-th tap, and no product with an inserted zero is ever computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ...ir.expr import Buffer, Const, Expr, Var
from ...ir.limits import MOST_PHASES
from ...ir.stmt import Alloc, Assign, Program, Stmt, nest, seq
from ...ir.types import DType
from ..blocks import Pair, Window, ceil_div
from ..epilogue import Epilogue
from .common import parameters_of
from .convolution import Convolution
from .padded import padded_input
from .sums import summed


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Along one axis, the outputs t * stride + `rest` for t below `outputs`.

    Each is the sum over m below `taps` of weight `first` + m * `step` times input t + `base` - m * `back`.
    """

    rest: int
    outputs: int
    taps: int
    first: int
    step: int
    base: int
    back: int


def phases(outputs: int, kernel: int, stride: int, dilation: int, before: int) -> tuple[Phase, ...]:
    """The phases of an axis with `before` pads in front, those without taps included."""
    # Tap k of output y reads input (y + before - k * dilation) / stride, where that is whole.
    common = gcd(stride, dilation)
    step = stride // common
    found: list[Phase] = []
    for rest in range(min(stride, outputs)):
        first = next(
            (k for k in range(min(step, kernel)) if (rest + before - k * dilation) % stride == 0), None
        )
        found.append(
            Phase(
                rest=rest,
                outputs=ceil_div(outputs - rest, stride),
                taps=0 if first is None else ceil_div(kernel - first, step),
                first=first or 0,
                step=step,
                base=0 if first is None else (rest + before - first * dilation) // stride,
                back=dilation // common,
            )
        )
    return tuple(found)


def transposed_outputs(window: Window, height: int, width: int, output_padding: Pair = (0, 0)) -> Pair:
    """Output rows and columns of a transposed convolution; ValueError where nothing is left or strides are too long."""
    top, left, bottom, right = window.pads
    sizes: list[int] = []
    for size, kernel, stride, dilation, pads, more in zip(
        (height, width),
        window.kernel,
        window.strides,
        window.dilations,
        (top + bottom, left + right),
        output_padding,
        strict=True,
    ):
        outputs = (size - 1) * stride + (kernel - 1) * dilation + 1 + more - pads
        if outputs < 1:
            raise ValueError(f"pads of {pads} leave nothing of {outputs + pads} outputs")
        sizes.append(outputs)
    rows, columns = (min(stride, size) for stride, size in zip(window.strides, sizes, strict=True))
    if rows * columns > MOST_PHASES:
        raise ValueError(
            f"strides {window.strides} make {rows * columns:,} convolutions, more than {MOST_PHASES:,}"
        )
    return sizes[0], sizes[1]


def conv_transpose(
    shape: Convolution,
    *,
    block_in: int,
    block_out: int,
    output_padding: Pair = (0, 0),
    epilogue: Epilogue | None = None,
    name: str = "conv_transpose",
) -> Program:
    """Y = epilogue(transposed convolution of X with W) in float32, as ONNX's ConvTranspose.

    Parameters as of `blocked_conv2d`: X [batch, groups, CB, height, width, ci], W [groups, OB * co, CB * ci, KH, KW]
    (so ONNX's W with its first two dimensions exchanged within each group), B [groups, OB * co], R like Y,
    Y [batch, groups, OB, OH, OW, co] with OH, OW = `transposed_outputs`. Intermediates: `padded` (statement "pad")
    where taps reach beyond X, and for each phase y, x with taps `sum.y.x` (statement "conv.y.x", loops conv.y.x.n, g,
    o, y, x, j, ic, kh, kw, k); loops n.y.x, g, o, y, x, j around "post.y.x" follow.
    On an input of one position without pads this is the `product` of ONNX's W as [channels, filters * KH * KW], which
    computes no taps in vain.
    ValueError where nothing is left between the pads.
    """
    epilogue = epilogue or Epilogue()
    ci, co, batch, groups = block_in, block_out, shape.batch, shape.groups
    window, height, width = shape.window, shape.height, shape.width
    cb, ob = ceil_div(shape.group_channels, ci), ceil_div(shape.group_filters, co)
    oh, ow = transposed_outputs(window, height, width, output_padding)
    x_in = Buffer(name="X", shape=(batch, groups, cb, height, width, ci), dtype=DType.FLOAT32)
    weight = Buffer(name="W", shape=(groups, ob * co, cb * ci, *window.kernel), dtype=DType.FLOAT32)
    y_out = Buffer(name="Y", shape=(batch, groups, ob, oh, ow, co), dtype=DType.FLOAT32)
    bias = Buffer(name="B", shape=(groups, ob * co), dtype=DType.FLOAT32) if epilogue.bias else None
    operand = Buffer(name="R", shape=y_out.shape, dtype=DType.FLOAT32) if epilogue.operand else None

    axes = [
        phases(outputs, kernel, stride, dilation, before)
        for outputs, kernel, stride, dilation, before in zip(
            (oh, ow), window.kernel, window.strides, window.dilations, window.pads[:2], strict=True
        )
    ]
    (top, bottom), (left, right) = (
        _margins(of_axis, size) for of_axis, size in zip(axes, (height, width), strict=True)
    )
    data, pad = padded_input(x_in, Window(kernel=(1, 1), pads=(top, left, bottom, right)))
    stages: list[Stmt] = list(pad)
    for rows in axes[0]:
        for columns in axes[1]:
            tag = f"{rows.rest}.{columns.rest}"
            extents = (*y_out.shape[:3], rows.outputs, columns.outputs, co)
            n, g, o, y, x, j = (Var(f"{v}.{tag}") for v in ("n", "g", "o", "y", "x", "j"))
            at = (
                n,
                g,
                o,
                y * window.strides[0] + rows.rest,
                x * window.strides[1] + columns.rest,
                j,
            )
            total = Buffer(name=f"sum.{tag}", shape=extents, dtype=DType.FLOAT32)
            summed = rows.taps > 0 and columns.taps > 0
            value: Expr = total[n, g, o, y, x, j] if summed else Const(0.0, DType.FLOAT32)
            value = epilogue.value(
                value,
                None if bias is None else bias[g, o * co + j],
                None if operand is None else operand[at],
            )
            post = Assign(name=f"post.{tag}", buffer=y_out, indices=y_out[at].indices, value=value)
            finish = nest(list(zip((n, g, o, y, x, j), extents, strict=True)), post)
            if summed:
                conv = _phase(tag, total, data, weight, (rows, columns), (top, left), (cb, ci))
                finish = Alloc(buffer=total, body=seq(conv, finish))
            stages.append(finish)
    body = seq(*stages)
    if pad:
        body = Alloc(buffer=data, body=body)
    return Program(name=name, parameters=parameters_of(x_in, weight, bias, operand, y_out), body=body)


def _margins(of_axis: tuple[Phase, ...], size: int) -> Pair:
    """How far the taps of all phases reach beyond an input of `size`, before and behind it."""
    used = [p for p in of_axis if p.taps]
    before = max((-(p.base - (p.taps - 1) * p.back) for p in used), default=0)
    behind = max((p.outputs + p.base - size for p in used), default=0)
    return max(before, 0), max(behind, 0)


def _phase(
    tag: str,
    total: Buffer,
    data: Buffer,
    weight: Buffer,
    phase: tuple[Phase, Phase],
    margins: Pair,
    blocks: Pair,
) -> Stmt:
    """The sums of one phase."""
    rows, columns = phase
    cb, ci = blocks
    co = total.shape[-1]

    def value(*at: Var) -> Expr:
        n, g, o, y, x, j, ic, kh, kw, k = at
        row = y + (rows.base + margins[0]) - kh * rows.back
        column = x + (columns.base + margins[1]) - kw * columns.back
        taps = (kh * rows.step + rows.first, kw * columns.step + columns.first)
        return data[n, g, ic, row, column, k] * weight[g, o * co + j, ic * ci + k, *taps]

    outputs = dict(zip("ngoyxj", total.shape, strict=True))
    return summed(
        f"conv.{tag}", total, outputs, {"ic": cb, "kh": rows.taps, "kw": columns.taps, "k": ci}, value
    )

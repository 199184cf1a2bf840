"""Floating-point convolutions over activations in blocks of channels, as processors compute them."""

from __future__ import annotations

from ...ir.expr import Buffer, Const, Var, all_of, equal, select
from ...ir.stmt import Alloc, Assign, Copy, Program, Reduce, Stmt, nest, region, seq, whole
from ...ir.types import DType
from ..blocks import Window, ceil_div
from ..epilogue import Epilogue
from .common import parameters_of


def float_conv2d(
    *,
    batch: int,
    channels: int,
    height: int,
    width: int,
    filters: int,
    window: Window,
    block_in: int,
    block_out: int,
    groups: int = 1,
    epilogue: Epilogue | None = None,
    name: str = "conv2d",
) -> Program:
    """Y = epilogue(sum over the window and the group's channels of W * X) in float32; X reads 0 outside.

    Parameters, with ci, co = block_in, block_out, CB and OB the blocks of a group's channels and filters:
    X [batch, groups, CB, height, width, ci], W [groups, OB * co, CB * ci, KH, KW], B [groups, OB * co] with a bias,
    R like Y with an operand, Y [batch, groups, OB, OH, OW, co]. Where ci or co does not divide a group's channels or
    filters, X, W, B and R are zero beyond them, and so is Y, whatever else they hold. A block of 1 is plain NCHW.
    Intermediates: `padded` (statement "pad") where there are pads, `sum` (statement "conv", loops conv.n, conv.g,
    conv.o, conv.y, conv.x, conv.j, conv.ic, conv.kh, conv.kw, conv.k); loops n, g, o, y, x, j around "post" follow.
    ValueError if `groups` does not divide channels and filters, or the window does not fit.
    """
    epilogue = epilogue or Epilogue()
    if channels % groups or filters % groups:
        raise ValueError(f"{groups} groups do not divide {channels} channels and {filters} filters")
    ci, co = block_in, block_out
    cb, ob = ceil_div(channels // groups, ci), ceil_div(filters // groups, co)
    (kh_size, kw_size), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    oh, ow = window.outputs(height, width)
    x_in = Buffer(name="X", shape=(batch, groups, cb, height, width, ci), dtype=DType.FLOAT32)
    weight = Buffer(name="W", shape=(groups, ob * co, cb * ci, kh_size, kw_size), dtype=DType.FLOAT32)
    y_out = Buffer(name="Y", shape=(batch, groups, ob, oh, ow, co), dtype=DType.FLOAT32)
    bias = Buffer(name="B", shape=(groups, ob * co), dtype=DType.FLOAT32) if epilogue.bias else None
    operand = Buffer(name="R", shape=y_out.shape, dtype=DType.FLOAT32) if epilogue.operand else None

    data, pad = padded_input(x_in, window)
    total = Buffer(name="sum", shape=y_out.shape, dtype=DType.FLOAT32)
    n, g, o, y, x, j = (Var(f"conv.{v}") for v in ("n", "g", "o", "y", "x", "j"))
    ic, kh, kw, k = (Var(f"conv.{v}") for v in ("ic", "kh", "kw", "k"))
    conv = Reduce(
        name="conv",
        op="add",
        buffer=total,
        indices=(n, g, o, y, x, j),
        value=data[n, g, ic, y * sy + kh * dy, x * sx + kw * dx, k]
        * weight[g, o * co + j, ic * ci + k, kh, kw],
        first=all_of(equal(ic, 0), equal(kh, 0), equal(kw, 0), equal(k, 0)),
    )
    outer = [(n, batch), (g, groups), (o, ob), (y, oh), (x, ow), (j, co)]
    summed = nest([*outer, (ic, cb), (kh, kh_size), (kw, kw_size), (k, ci)], conv)

    n, g, o, y, x, j = (Var(v) for v in ("n", "g", "o", "y", "x", "j"))
    at = y_out[n, g, o, y, x, j].indices
    value = epilogue.value(
        total[n, g, o, y, x, j],
        None if bias is None else bias[g, o * co + j],
        None if operand is None else operand[at],
    )
    if (filters // groups) % co:
        # 0 * infinity is no zero, and an epilogue may make something else of one.
        value = select(o * co + j < filters // groups, value, 0.0)
    post = Assign(name="post", buffer=y_out, indices=at, value=value)
    finish = nest([(n, batch), (g, groups), (o, ob), (y, oh), (x, ow), (j, co)], post)
    body: Stmt = Alloc(buffer=total, body=seq(*pad, summed, finish))
    if pad:
        body = Alloc(buffer=data, body=body)
    return Program(name=name, parameters=parameters_of(x_in, weight, bias, operand, y_out), body=body)


def float_depthwise(
    *,
    batch: int,
    channels: int,
    height: int,
    width: int,
    window: Window,
    block: int,
    epilogue: Epilogue | None = None,
    name: str = "depthwise",
) -> Program:
    """Y = epilogue(sum over the window of W * X), each channel by itself, in float32; X reads 0 outside.

    Parameters, with CB the blocks of channels: X [batch, CB, height, width, block], W [KH, KW, CB * block], B [CB *
    block] with a bias, R like Y with an operand, Y [batch, CB, OH, OW, block]. Intermediates as of `float_conv2d`, with
    loops conv.n, conv.c, conv.y, conv.x, conv.j, conv.kh, conv.kw and n, c, y, x, j. Y is zero beyond the channels.
    """
    epilogue = epilogue or Epilogue()
    cb = ceil_div(channels, block)
    (kh_size, kw_size), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    oh, ow = window.outputs(height, width)
    x_in = Buffer(name="X", shape=(batch, cb, height, width, block), dtype=DType.FLOAT32)
    weight = Buffer(name="W", shape=(kh_size, kw_size, cb * block), dtype=DType.FLOAT32)
    y_out = Buffer(name="Y", shape=(batch, cb, oh, ow, block), dtype=DType.FLOAT32)
    bias = Buffer(name="B", shape=(cb * block,), dtype=DType.FLOAT32) if epilogue.bias else None
    operand = Buffer(name="R", shape=y_out.shape, dtype=DType.FLOAT32) if epilogue.operand else None

    data, pad = padded_input(x_in, window)
    total = Buffer(name="sum", shape=y_out.shape, dtype=DType.FLOAT32)
    n, c, y, x, j, kh, kw = (Var(f"conv.{v}") for v in ("n", "c", "y", "x", "j", "kh", "kw"))
    conv = Reduce(
        name="conv",
        op="add",
        buffer=total,
        indices=(n, c, y, x, j),
        value=data[n, c, y * sy + kh * dy, x * sx + kw * dx, j] * weight[kh, kw, c * block + j],
        first=all_of(equal(kh, 0), equal(kw, 0)),
    )
    loops = [(n, batch), (c, cb), (y, oh), (x, ow), (j, block), (kh, kh_size), (kw, kw_size)]
    summed = nest(loops, conv)
    n, c, y, x, j = (Var(v) for v in ("n", "c", "y", "x", "j"))
    value = epilogue.value(
        total[n, c, y, x, j],
        None if bias is None else bias[c * block + j],
        None if operand is None else operand[n, c, y, x, j],
    )
    if channels % block:
        value = select(c * block + j < channels, value, 0.0)
    post = Assign(name="post", buffer=y_out, indices=(n, c, y, x, j), value=value)
    finish = nest([(n, batch), (c, cb), (y, oh), (x, ow), (j, block)], post)
    body: Stmt = Alloc(buffer=total, body=seq(*pad, summed, finish))
    if pad:
        body = Alloc(buffer=data, body=body)
    return Program(name=name, parameters=parameters_of(x_in, weight, bias, operand, y_out), body=body)


def padded_input(x_in: Buffer, window: Window, value: float = 0.0) -> tuple[Buffer, tuple[Stmt, ...]]:
    """What a window operator reads: X itself, or `padded` with the statement "pad" that fills it, `value` outside X."""
    if not any(window.pads):
        return x_in, ()
    *outer, height, width, lanes = x_in.shape
    top, left, _, _ = window.pads
    rows, columns = window.padded(height, width)
    padded = Buffer(name="padded", shape=(*outer, rows, columns, lanes), dtype=x_in.dtype)
    copy = Copy(
        name="pad",
        destination=whole(padded),
        source=region(x_in, *((0, size) for size in outer), (-top, rows), (-left, columns), (0, lanes)),
        pad=Const(value, x_in.dtype),
    )
    return padded, (copy,)

"""Convolutions of quantized networks over activations in blocks of channels, as processors compute them.

Activations are uint8: the stored int8 value plus 128, so that products are of uint8 and int8, as dot product
instructions have them. The caller's bias makes up for it: `biases_of_unsigned`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from vdla.isa.arithmetic import UNSIGNED_OFFSET

from ...ir.expr import Buffer, Const, Expr, Load, Var, all_of, cast, equal
from ...ir.stmt import Alloc, Assign, Program, Reduce, Stmt, nest, seq
from ...ir.types import DType
from ..blocks import Window
from ..post import Post, post_value
from .common import parameters_of
from .float_conv2d import padded_input

OFFSET = Const(UNSIGNED_OFFSET, DType.UINT8)


def stored(value: Expr) -> Expr:
    """The stored int8 value of an activation."""
    return cast(value - OFFSET, DType.INT8)


def held(value: Expr) -> Expr:
    """The activation of a stored int8 value."""
    return cast(value, DType.UINT8) + OFFSET


def biases_of_unsigned(bias: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """int32 biases for activations that are 128 more, `weight` int8[O, ...]; they wrap as sums do."""
    sums = weight.astype(np.int64).sum(axis=tuple(range(1, weight.ndim)))
    return (bias.astype(np.int64) - UNSIGNED_OFFSET * sums).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """What a convolution computes before "post": `statements` fill `padded`, where there are pads, and `total`."""

    inputs: tuple[Buffer, Buffer]
    padded: Buffer | None
    total: Buffer
    statements: tuple[Stmt, ...]


def int8_conv2d(
    *,
    batch: int,
    groups: int,
    channel_blocks: int,
    filter_blocks: int,
    height: int,
    width: int,
    window: Window,
    block_in: int,
    block_out: int,
    pad_value: int,
    post: Post,
    name: str = "int8_conv2d",
) -> Program:
    """Y = post(bias + sum over the window and the group's channels of W * X); X reads `pad_value` outside.

    Parameters, with ci, co = block_in, block_out, CB and OB the blocks of a group's channels and filters:
    X uint8[batch, groups, CB, height, width, ci], W int8[groups, OB * co, CB, KH, KW, ci], P int32[groups * OB, 2, co]
    (row 0 the biases, row 1 the bits of the float32 scales), R like Y where `post` combines with an operand,
    Y uint8[batch, groups, OB, OH, OW, co]. Beyond a group's channels W is zero.
    Intermediates: `padded` (statement "pad") where there are pads, `sum` (statement "conv", loops conv.n, conv.g,
    conv.o, conv.y, conv.x, conv.j, conv.ic, conv.kh, conv.kw, conv.k); loops n, g, o, y, x, j around "post" follow.
    ValueError if the window does not fit.
    """
    ci, co, cb, ob = block_in, block_out, channel_blocks, filter_blocks
    (kh_size, kw_size), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    oh, ow = window.outputs(height, width)
    x_in = Buffer(name="X", shape=(batch, groups, cb, height, width, ci), dtype=DType.UINT8)
    weight = Buffer(name="W", shape=(groups, ob * co, cb, kh_size, kw_size, ci), dtype=DType.INT8)
    y_out = Buffer(name="Y", shape=(batch, groups, ob, oh, ow, co), dtype=DType.UINT8)
    data, pad = padded_input(x_in, window, pad_value)
    total = Buffer(name="sum", shape=y_out.shape, dtype=DType.INT32)
    n, g, o, y, x, j = (Var(f"conv.{v}") for v in ("n", "g", "o", "y", "x", "j"))
    ic, kh, kw, k = (Var(f"conv.{v}") for v in ("ic", "kh", "kw", "k"))
    conv = Reduce(
        name="conv",
        op="add",
        buffer=total,
        indices=(n, g, o, y, x, j),
        value=_product(
            data[n, g, ic, y * sy + kh * dy, x * sx + kw * dx, k], weight[g, o * co + j, ic, kh, kw, k]
        ),
        first=all_of(equal(ic, 0), equal(kh, 0), equal(kw, 0), equal(k, 0)),
    )
    outer = [(n, batch), (g, groups), (o, ob), (y, oh), (x, ow), (j, co)]
    summed = nest([*outer, (ic, cb), (kh, kh_size), (kw, kw_size), (k, ci)], conv)
    n, g, o, y, x, j = (Var(v) for v in ("n", "g", "o", "y", "x", "j"))
    sums = _Sums(inputs=(x_in, weight), padded=data if pad else None, total=total, statements=(*pad, summed))
    return _finished(name, sums, y_out, (n, g, o, y, x, j), g * ob + o, j, post)


def int8_depthwise(
    *,
    batch: int,
    channel_blocks: int,
    height: int,
    width: int,
    window: Window,
    block: int,
    pad_value: int,
    post: Post,
    name: str = "int8_depthwise",
) -> Program:
    """Y = post(bias + sum over the window of W * X), each channel by itself; X reads `pad_value` outside.

    Parameters, with CB the blocks of channels: X uint8[batch, CB, height, width, block], W int8[KH, KW, CB * block],
    P int32[CB, 2, block] as of `int8_conv2d`, R like Y where `post` combines with an operand, Y uint8[batch, CB, OH,
    OW, block]. Intermediates as of `int8_conv2d`, with loops conv.n, conv.c, conv.y, conv.x, conv.j, conv.kh, conv.kw
    and n, c, y, x, j. ValueError if the window does not fit.
    """
    (kh_size, kw_size), (sy, sx), (dy, dx) = window.kernel, window.strides, window.dilations
    oh, ow = window.outputs(height, width)
    cb = channel_blocks
    x_in = Buffer(name="X", shape=(batch, cb, height, width, block), dtype=DType.UINT8)
    weight = Buffer(name="W", shape=(kh_size, kw_size, cb * block), dtype=DType.INT8)
    y_out = Buffer(name="Y", shape=(batch, cb, oh, ow, block), dtype=DType.UINT8)
    data, pad = padded_input(x_in, window, pad_value)
    total = Buffer(name="sum", shape=y_out.shape, dtype=DType.INT32)
    n, c, y, x, j, kh, kw = (Var(f"conv.{v}") for v in ("n", "c", "y", "x", "j", "kh", "kw"))
    conv = Reduce(
        name="conv",
        op="add",
        buffer=total,
        indices=(n, c, y, x, j),
        value=_product(data[n, c, y * sy + kh * dy, x * sx + kw * dx, j], weight[kh, kw, c * block + j]),
        first=all_of(equal(kh, 0), equal(kw, 0)),
    )
    loops = [(n, batch), (c, cb), (y, oh), (x, ow), (j, block), (kh, kh_size), (kw, kw_size)]
    summed = nest(loops, conv)
    n, c, y, x, j = (Var(v) for v in ("n", "c", "y", "x", "j"))
    sums = _Sums(inputs=(x_in, weight), padded=data if pad else None, total=total, statements=(*pad, summed))
    return _finished(name, sums, y_out, (n, c, y, x, j), c, j, post)


def _product(data: Load, weight: Load) -> Expr:
    return cast(data, DType.INT32) * cast(weight, DType.INT32)


def _finished(
    name: str, sums: _Sums, out: Buffer, indices: tuple[Var, ...], block: Expr, lane: Var, post: Post
) -> Program:
    """The program that ends with "post": Y at `indices`, its bias and scale at `block` and `lane` of P."""
    parameters = Buffer(name="P", shape=(prod(out.shape[1:-3]), 2, out.shape[-1]), dtype=DType.INT32)
    operand = Buffer(name="R", shape=out.shape, dtype=DType.UINT8) if post.has_operand else None
    value = post_value(
        sums.total[indices] + parameters[block, 0, lane],
        parameters[block, 1, lane],
        None if operand is None else stored(operand[indices]),
        post,
    )
    finish = Assign(name="post", buffer=out, indices=indices, value=held(value))
    loops = list(zip(indices, out.shape, strict=True))
    body: Stmt = Alloc(buffer=sums.total, body=seq(*sums.statements, nest(loops, finish)))
    if sums.padded is not None:
        body = Alloc(buffer=sums.padded, body=body)
    return Program(name=name, parameters=parameters_of(*sums.inputs, parameters, operand, out), body=body)

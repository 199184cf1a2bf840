"""Convolutions over activations in blocks of channels, as processors compute them, in float32 or quantized.

Activations of quantized networks are unsigned (`te.ops.unsigned`), so that products are of uint8 and int8, as dot
product instructions have them. The caller's bias makes up for it: `biases_of_unsigned`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from ...ir.expr import Buffer, Expr, Var, cast, select
from ...ir.stmt import Program
from ...ir.types import DType
from ..blocks import Window, ceil_div
from ..epilogue import Epilogue
from ..post import Post, post_value
from .convolution import Convolution
from .padded import padded_input
from .sums import Loops, program_of, stored, summed
from .unsigned import held, stored_value


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatSums:
    """Sums in float32, of what reads 0 outside the input.

    Weights are [groups, filters, channels, KH, KW]. Parameters: B [channels of the output] with a bias, R like Y with
    an operand. Y is zero beyond the filters, whatever the parameters hold there.
    """

    epilogue: Epilogue = field(default_factory=Epilogue)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedSums:
    """Sums in int32, of what reads `pad_value` (an activation) outside the input, and the store pipeline's `post`.

    Weights are int8[groups, filters, blocks of channels, KH, KW, channels of a block]. Parameters: P int32[blocks of Y,
    2, lanes] (row 0 the biases, row 1 the bits of the float32 scales), R like Y where `post` combines with an operand.
    """

    pad_value: int
    post: Post


Sums: TypeAlias = FloatSums | QuantizedSums


def blocked_conv2d(
    shape: Convolution, *, block_in: int, block_out: int, sums: Sums | None = None, name: str = "conv2d"
) -> Program:
    """Y = what `sums` (by default `FloatSums()`) makes of the sum over the window and the group's channels of W * X.

    Parameters, with ci, co = block_in, block_out, CB and OB the blocks of a group's channels and filters: X [batch,
    groups, CB, height, width, ci], W [groups, OB * co, CB * ci, KH, KW] (of quantized networks [groups, OB * co, CB,
    KH, KW, ci]), those of `sums` (B [groups, OB * co], P [groups * OB, 2, co]), Y [batch, groups, OB, OH, OW, co].
    Where ci or co does not divide a group's channels or filters, X, W and what else is read are zero beyond them.
    A block of 1 is plain NCHW. Intermediates: `padded` (statement "pad") where there are pads, `sum` (statement "conv",
    loops conv.n, conv.g, conv.o, conv.y, conv.x, conv.j, conv.ic, conv.kh, conv.kw, conv.k); loops n, g, o, y, x, j
    around "post" follow. ValueError if the window does not fit.
    """
    ci, co, groups = block_in, block_out, shape.groups
    cb, ob = ceil_div(shape.group_channels, ci), ceil_div(shape.group_filters, co)
    (rows, columns), (sy, sx), (dy, dx) = shape.window.kernel, shape.window.strides, shape.window.dilations
    oh, ow = shape.outputs
    sums = sums or FloatSums()
    quantized = isinstance(sums, QuantizedSums)
    channels = (cb, rows, columns, ci) if quantized else (cb * ci, rows, columns)

    def factors(data: Buffer, weight: Buffer, *at: Var) -> tuple[Expr, Expr]:
        n, g, o, y, x, j, ic, kh, kw, k = at
        tap = (ic, kh, kw, k) if quantized else (ic * ci + k, kh, kw)
        return data[n, g, ic, y * sy + kh * dy, x * sx + kw * dx, k], weight[g, o * co + j, *tap]

    return _program(
        name,
        _Sizes(
            window=shape.window,
            data=(shape.batch, groups, cb, shape.height, shape.width, ci),
            weight=(groups, ob * co, *channels),
            outputs={"n": shape.batch, "g": groups, "o": ob, "y": oh, "x": ow, "j": co},
            terms={"ic": cb, "kh": rows, "kw": columns, "k": ci},
            channel=lambda n, g, o, y, x, j: (g, o * co + j),
            block=lambda n, g, o, y, x, j: g * ob + o,
            bias=(groups, ob * co),
            filters=shape.group_filters,
        ),
        factors,
        sums,
    )


def blocked_depthwise(
    shape: Convolution, *, block: int, sums: Sums | None = None, name: str = "depthwise"
) -> Program:
    """`blocked_conv2d` of each channel by itself, which `shape` says by its groups.

    Parameters, with CB the blocks of channels: X [batch, CB, height, width, block], W [KH, KW, CB * block], those of
    `sums` (B [CB * block], P [CB, 2, block]), Y [batch, CB, OH, OW, block]. Intermediates as of `blocked_conv2d`, with
    loops conv.n, conv.c, conv.y, conv.x, conv.j, conv.kh, conv.kw and n, c, y, x, j. ValueError for a channel that has
    not one filter of its own, or if the window does not fit.
    """
    if not shape.groups == shape.channels == shape.filters:
        raise ValueError(
            f"a depthwise convolution has a filter for each channel, not {shape.filters} in {shape.groups} groups "
            f"for {shape.channels}"
        )
    blocks = ceil_div(shape.channels, block)
    (rows, columns), (sy, sx), (dy, dx) = shape.window.kernel, shape.window.strides, shape.window.dilations
    oh, ow = shape.outputs

    def factors(data: Buffer, weight: Buffer, *at: Var) -> tuple[Expr, Expr]:
        n, c, y, x, j, kh, kw = at
        return data[n, c, y * sy + kh * dy, x * sx + kw * dx, j], weight[kh, kw, c * block + j]

    return _program(
        name,
        _Sizes(
            window=shape.window,
            data=(shape.batch, blocks, shape.height, shape.width, block),
            weight=(rows, columns, blocks * block),
            outputs={"n": shape.batch, "c": blocks, "y": oh, "x": ow, "j": block},
            terms={"kh": rows, "kw": columns},
            channel=lambda n, c, y, x, j: (c * block + j,),
            block=lambda n, c, y, x, j: c,
            bias=(blocks * block,),
            filters=shape.channels,
        ),
        factors,
        sums or FloatSums(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """Shapes of X and W, loops, and where an output's bias lies: at `channel` of B, in block `block` of P.

    `filters` are a group's, without those that fill up the last block.
    """

    window: Window
    data: tuple[int, ...]
    weight: tuple[int, ...]
    outputs: Loops
    terms: Loops
    channel: Callable[..., tuple[Expr, ...]]
    block: Callable[..., Expr]
    bias: tuple[int, ...]
    filters: int


def _program(name: str, sizes: _Sizes, factors: Callable[..., tuple[Expr, Expr]], sums: Sums) -> Program:
    """The program of a convolution whose factors of a product are `factors` of X or `padded`, W and all loops."""
    quantized = isinstance(sums, QuantizedSums)
    types = (DType.UINT8, DType.INT8, DType.INT32) if quantized else (DType.FLOAT32,) * 3
    x_in = Buffer(name="X", shape=sizes.data, dtype=types[0])
    weight = Buffer(name="W", shape=sizes.weight, dtype=types[1])
    y_out = Buffer(name="Y", shape=tuple(sizes.outputs.values()), dtype=types[0])
    total = Buffer(name="sum", shape=y_out.shape, dtype=types[2])
    data, pad = padded_input(x_in, sizes.window, sums.pad_value if isinstance(sums, QuantizedSums) else 0.0)

    def value(*at: Var) -> Expr:
        of_data, of_weight = factors(data, weight, *at)
        return cast(of_data, total.dtype) * cast(of_weight, total.dtype)

    match sums:
        case FloatSums():
            parameters, result = _float_finish(sums, sizes, total, y_out)
        case QuantizedSums():
            parameters, result = _quantized_finish(sums, sizes, total, y_out)
    return program_of(
        name,
        (x_in, weight, *parameters, y_out),
        [data, total] if pad else [total],
        *pad,
        summed("conv", total, sizes.outputs, sizes.terms, value),
        stored(y_out, sizes.outputs, result),
    )


_Finished: TypeAlias = tuple[tuple[Buffer | None, ...], Callable[..., Expr]]
"""Parameters of what follows a sum, and an output's value at its indices."""


def _float_finish(sums: FloatSums, sizes: _Sizes, total: Buffer, out: Buffer) -> _Finished:
    epilogue = sums.epilogue
    bias = Buffer(name="B", shape=sizes.bias, dtype=DType.FLOAT32) if epilogue.bias else None
    operand = Buffer(name="R", shape=out.shape, dtype=DType.FLOAT32) if epilogue.operand else None

    def value(*at: Var) -> Expr:
        channel = sizes.channel(*at)
        result = epilogue.value(
            total[at],
            None if bias is None else bias[channel],
            None if operand is None else operand[at],
        )
        if sizes.filters % out.shape[-1]:
            # 0 * infinity is no zero, and an epilogue may make something else of one.
            return select(channel[-1] < sizes.filters, result, 0.0)
        return result

    return (bias, operand), value


def _quantized_finish(sums: QuantizedSums, sizes: _Sizes, total: Buffer, out: Buffer) -> _Finished:
    parameters = Buffer(name="P", shape=(prod(out.shape[1:-3]), 2, out.shape[-1]), dtype=DType.INT32)
    operand = Buffer(name="R", shape=out.shape, dtype=DType.UINT8) if sums.post.has_operand else None

    def value(*at: Var) -> Expr:
        block, lane = sizes.block(*at), at[-1]
        second = None if operand is None else stored_value(operand[at])
        return held(
            post_value(total[at] + parameters[block, 0, lane], parameters[block, 1, lane], second, sums.post)
        )

    return (parameters, operand), value

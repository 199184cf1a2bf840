"""Convolutions for processors over activations in blocks of channels, in float32 or quantized.

Activations of quantized networks are unsigned (`quantization.py`), so that products are of uint8 and int8, as dot
product instructions require. The caller passes a bias that compensates for the offset of 128: `biases_of_unsigned`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from ...ir.expr import Buffer, Const, Expr, Var, cast, select
from ...ir.stmt import Alloc, Assign, Program, Stmt, allocated, nest, parameters_of, seq
from ...ir.types import DType
from ..blocks import Window, ceil_div
from ..post import Post, post_value
from .convolution import Convolution, Phase
from .quantization import stored_value, unsigned_activation
from .sums import Epilogue, Loops, padded_input, summed


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatSums:
    """A convolution with sums in float32; positions outside the input read as 0.

    The functions below state the layout of the weights. Further parameters: B, with an element for each channel of the
    output, if `epilogue` adds a bias; R, of Y's shape, if `epilogue` adds an operand. The last block of Y may have more
    lanes than filters: Y is zero in these lanes. `dtype`: type of X and the weights, a float of 16 or 32 bits.
    """

    epilogue: Epilogue = field(default_factory=Epilogue)
    dtype: DType = DType.FLOAT32


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedSums:
    """A convolution with sums in int32, followed by the requantization and combination `post` of the store pipeline.

    Positions outside the input read as `pad_value` (a uint8 activation). Weights are int8[groups, filters, blocks of
    channels, KH, KW, channels of a block]. Parameters: P int32[blocks of Y, 2, lanes] (row 0 the biases, row 1 the bits
    of the float32 scales), and R, of Y's shape, if `post` combines with an operand.
    """

    pad_value: int
    post: Post


Sums: TypeAlias = FloatSums | QuantizedSums


def blocked_convolution(
    shape: Convolution,
    *,
    block_in: int,
    block_out: int,
    sums: Sums | None = None,
    name: str | None = None,
) -> Program:
    """Y = the epilogue of `sums` (default `FloatSums()`) on the sum over the window and the group's channels of W * X.

    Let ci, co = block_in, block_out, and CB, OB the blocks of a group's channels and filters. Parameters: X [batch,
    groups, CB, height, width, ci]; W [groups, OB * co, CB * ci, KH, KW]; the parameters of `sums` (B [groups, OB * co]
    or P [groups * OB, 2, co]); Y [batch, groups, OB, OH, OW, co]. W of quantized networks is [groups, OB * co, CB, KH,
    KW, ci]; W of transposed convolutions has channels and filters of each group exchanged, as in ONNX. All inputs must
    be zero beyond the channels and filters of a group. Blocks of 1 are plain NCHW. Intermediates: `padded` (statement
    "pad") if taps reach beyond X; `sum` (statement "conv", loops conv.n, conv.g, conv.o, conv.y, conv.x, conv.j,
    conv.ic, conv.kh, conv.kw, conv.k). Statement "post" in loops n, g, o, y, x, j stores Y. A transposed convolution
    has these stages for each of its phases y, x, with .y.x after all names ("conv.0.1", "conv.0.1.n", "n.0.1"). For an
    input of one position without pads, `product` with ONNX's W as [channels, filters * KH * KW] is better: it computes
    no useless taps. Raises ValueError if the window does not fit, or if pads leave no output.
    """
    ci, co, groups = block_in, block_out, shape.groups
    cb, ob = ceil_div(shape.group_channels, ci), ceil_div(shape.group_filters, co)
    quantized = isinstance(sums, QuantizedSums)
    kernel = shape.window.kernel
    channels = (cb, *kernel, ci) if quantized else (cb * ci, *kernel)

    def factors(data: Buffer, weight: Buffer, at: Place) -> tuple[Expr, Expr]:
        (n, g, o), (ic, k), j = at.outer, at.channel, at.lane
        tap = (ic, *at.tap, k) if quantized else (ic * ci + k, *at.tap)
        return data[n, g, ic, *at.position, k], weight[g, o * co + j, *tap]

    layout = Layout(
        data=(shape.batch, groups, cb, shape.height, shape.width, ci),
        weight=(groups, ob * co, *channels),
        outer={"n": shape.batch, "g": groups, "o": ob},
        lanes=co,
        channels=(cb, ci),
        factors=factors,
        channel=lambda n, g, o, y, x, j: (g, o * co + j),
        block=lambda n, g, o, y, x, j: g * ob + o,
        bias=(groups, ob * co),
        filters=shape.group_filters,
    )
    return convolution_program(
        name or ("conv_transpose" if shape.transposed else "conv2d"), shape, layout, sums or FloatSums()
    )


def blocked_depthwise(
    shape: Convolution, *, block: int, sums: Sums | None = None, name: str = "depthwise"
) -> Program:
    """`blocked_convolution` for a depthwise `shape`: each channel is a group.

    Parameters, with CB the blocks of channels: X [batch, CB, height, width, block]; W [KH, KW, CB * block]; the
    parameters of `sums` (B [CB * block] or P [CB, 2, block]); Y [batch, CB, OH, OW, block]. Intermediates as in
    `blocked_convolution`, with loops conv.n, conv.c, conv.y, conv.x, conv.j, conv.kh, conv.kw and n, c, y, x, j. Raises
    ValueError if a group has several channels or filters, or if the window does not fit.
    """
    if not shape.groups == shape.channels == shape.filters:
        raise ValueError(
            f"a depthwise convolution has one filter and one group per channel, not {shape.filters} filters in "
            f"{shape.groups} groups for {shape.channels} channels"
        )
    blocks = ceil_div(shape.channels, block)

    def factors(data: Buffer, weight: Buffer, at: Place) -> tuple[Expr, Expr]:
        (n, c), j = at.outer, at.lane
        return data[n, c, *at.position, j], weight[*at.tap, c * block + j]

    layout = Layout(
        data=(shape.batch, blocks, shape.height, shape.width, block),
        weight=(*shape.window.kernel, blocks * block),
        outer={"n": shape.batch, "c": blocks},
        lanes=block,
        channels=None,
        factors=factors,
        channel=lambda n, c, y, x, j: (c * block + j,),
        block=lambda n, c, y, x, j: c,
        bias=(blocks * block,),
        filters=shape.channels,
    )
    return convolution_program(name, shape, layout, sums or FloatSums())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """Indices of one product of X and W. `outer`: loops around the rows and columns of outputs. `lane`: lane of the
    output. `channel`: block and lane of the input channel. `position`: row, column in X. `tap`: row, column of the
    weight.
    """

    outer: tuple[Expr, ...]
    lane: Expr
    channel: tuple[Expr, ...]
    position: tuple[Expr, Expr]
    tap: tuple[Expr, Expr]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """The layout of a convolution's tensors.

    `data`, `weight`, `bias`: shapes of X, W and B. `outer`: the loops around positions. `lanes`: lanes of an output
    vector. `channels`: the channels summed over, as (blocks, channels of a block), or None. Functions: `factors`
    returns the factors of a product, loads of X (or `padded`) and W; `channel` returns the indices of an output's
    channel in B; `block` returns the index of the channel's block in P. `filters`: filters of a group, without padding.
    """

    data: tuple[int, ...]
    weight: tuple[int, ...]
    outer: Loops
    lanes: int
    channels: tuple[int, int] | None
    factors: Callable[[Buffer, Buffer, Place], tuple[Expr, Expr]]
    channel: Callable[..., tuple[Expr, ...]]
    block: Callable[..., Expr]
    bias: tuple[int, ...]
    filters: int


def convolution_program(name: str, shape: Convolution, layout: Layout, sums: Sums) -> Program:
    """The program of a convolution whose tensors have the layout `layout`."""
    match sums:
        case FloatSums(dtype=dtype):
            types = (dtype, dtype, DType.FLOAT32, DType.FLOAT32)
        case QuantizedSums():
            types = (DType.UINT8, DType.INT8, DType.INT32, DType.UINT8)
    x_in = Buffer(name="X", shape=layout.data, dtype=types[0])
    weight = Buffer(name="W", shape=layout.weight, dtype=types[1])
    y_out = Buffer(name="Y", shape=(*layout.outer.values(), *shape.outputs, layout.lanes), dtype=types[3])
    pads = shape.pads
    outside = sums.pad_value if isinstance(sums, QuantizedSums) else 0.0
    data, pad = padded_input(x_in, Window(kernel=(1, 1), pads=pads), outside)
    match sums:
        case FloatSums():
            parameters, result = _float_finish(sums, layout, y_out)
        case QuantizedSums():
            parameters, result = _quantized_finish(sums, layout, y_out)
    stages: list[Stmt] = []
    totals: list[Buffer] = []
    for rows in shape.axes[0]:
        for columns in shape.axes[1]:
            tag = f".{rows.rest}.{columns.rest}" if shape.transposed else ""
            outputs = {**layout.outer, "y": rows.outputs, "x": columns.outputs, "j": layout.lanes}
            before, behind = ({}, {}) if layout.channels is None else _channel_loops(layout.channels)
            terms = {**before, "kh": rows.taps, "kw": columns.taps, **behind}
            total = Buffer(name=f"sum{tag}", shape=tuple(outputs.values()), dtype=types[2])

            def value(
                *at: Var,
                rows: Phase = rows,
                columns: Phase = columns,
                terms: Loops = terms,
                total: Buffer = total,
            ) -> Expr:
                *outer, y, x, j = at[: -len(terms)]
                of = dict(zip(terms, at[-len(terms) :], strict=True))
                place = Place(
                    outer=tuple(outer),
                    lane=j,
                    channel=tuple([of[loop] for loop in ("ic", "k") if loop in of]),
                    position=(rows.read(y, of["kh"], pads[0]), columns.read(x, of["kw"], pads[1])),
                    tap=(rows.weight(of["kh"]), columns.weight(of["kw"])),
                )
                of_data, of_weight = layout.factors(data, weight, place)
                return cast(of_data, total.dtype) * cast(of_weight, total.dtype)

            loops = [Var(f"{loop}{tag}") for loop in outputs]
            *outer, y, x, j = loops
            at = (*outer, rows.output(y), columns.output(x), j)
            summing = rows.taps > 0 and columns.taps > 0
            finished = result(total[tuple(loops)] if summing else Const(0, total.dtype), at)
            post = Assign.to(f"post{tag}", y_out[at], finished)
            stage = nest(list(zip(loops, outputs.values(), strict=True)), post)
            if summing:
                stage = seq(summed(f"conv{tag}", total, outputs, terms, value), stage)
                if shape.transposed:
                    stage = Alloc(buffer=total, body=stage)
                else:
                    totals.append(total)
            stages.append(stage)
    body = allocated([*([data] if pad else []), *totals], seq(*pad, *stages))
    return Program(name=name, parameters=parameters_of(x_in, weight, *parameters, y_out), body=body)


def _channel_loops(channels: tuple[int, int]) -> tuple[Loops, Loops]:
    """The loops over blocks of channels (outside of the loops over taps), and over channels of a block (innermost)."""
    return {"ic": channels[0]}, {"k": channels[1]}


_Finished: TypeAlias = tuple[tuple[Buffer | None, ...], Callable[[Expr, tuple[Expr, ...]], Expr]]
"""The parameters of the epilogue, and a function (sum, indices) -> the output's value."""


def _float_finish(sums: FloatSums, layout: Layout, out: Buffer) -> _Finished:
    operands = sums.epilogue.buffers(layout.bias, out)

    def value(total: Expr, at: tuple[Expr, ...]) -> Expr:
        channel = layout.channel(*at)
        result = operands.value(total, channel, at)
        if layout.filters % out.shape[-1]:
            # An output without a filter must be set to 0: its sum may be NaN (0 * infinity), and an epilogue may not
            # map 0 to 0.
            return select(channel[-1] < layout.filters, result, 0.0)
        return result

    return (operands.bias, operands.operand), value


def _quantized_finish(sums: QuantizedSums, layout: Layout, out: Buffer) -> _Finished:
    parameters = Buffer(name="P", shape=(prod(out.shape[1:-3]), 2, out.shape[-1]), dtype=DType.INT32)
    operand = Buffer(name="R", shape=out.shape, dtype=DType.UINT8) if sums.post.has_operand else None

    def value(total: Expr, at: tuple[Expr, ...]) -> Expr:
        block, lane = layout.block(*at), at[-1]
        second = None if operand is None else stored_value(operand[at])
        return unsigned_activation(
            post_value(total + parameters[block, 0, lane], parameters[block, 1, lane], second, sums.post)
        )

    return (parameters, operand), value

"""Conversion between the host's tensors and activations in blocks of channels: QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from ...ir.expr import Buffer, Call, Const, Expr, Var, cast, select
from ...ir.stmt import Assign, Program, nest
from ...ir.types import DType
from ..blocks import ceil_div
from .unsigned import OFFSET, held, stored_value


def store_activation(
    *,
    batch: int,
    channels: int,
    plane: int,
    block: int,
    dtype: DType,
    scale: float,
    zero_point: int,
    name: str = "store_activation",
) -> Program:
    """Y = X as activations: float32 quantized like `vdla.isa.arithmetic.quantize`, uint8 unchanged, int8 plus 128.

    Parameters X of `dtype` [batch, channels, plane], Y uint8[batch, ceil(channels / block), plane, block], Y zero
    beyond the channels; `zero_point` is that of the stored int8 tensor. The result for NaN is undefined. Loops n, o, p,
    j around "map".
    """
    x = Buffer(name="X", shape=(batch, channels, plane), dtype=dtype)
    y = Buffer(name="Y", shape=(batch, ceil_div(channels, block), plane, block), dtype=DType.UINT8)
    n, o, p, j = Var("n"), Var("o"), Var("p"), Var("j")
    channel = o * block + j
    value: Expr = x[n, channel, p]
    match dtype:
        case DType.FLOAT32:
            constants = (Const(float(scale), DType.FLOAT32), Const(zero_point, DType.INT8))
            value = held(Call("quantize", (value, *constants), DType.INT8))
        case DType.INT8:
            value = held(value)
    if channels % block:
        value = select(channel < channels, value, 0)
    store = Assign(name="map", buffer=y, indices=(n, o, p, j), value=value)
    return Program(
        name=name, parameters=(x, y), body=nest(list(zip((n, o, p, j), y.shape, strict=True)), store)
    )


def load_activation(
    *,
    batch: int,
    channels: int,
    plane: int,
    block: int,
    dtype: DType,
    scale: float,
    zero_point: int,
    name: str = "load_activation",
) -> Program:
    """Y = the activations X in the type that the model declares: float32 dequantized, uint8 unchanged, int8 minus 128.

    Parameters X uint8[batch, ceil(channels / block), plane, block], Y of `dtype` [batch, channels, plane]. Loops n, o,
    p around "map".
    """
    x = Buffer(name="X", shape=(batch, ceil_div(channels, block), plane, block), dtype=DType.UINT8)
    y = Buffer(name="Y", shape=(batch, channels, plane), dtype=dtype)
    n, o, p = Var("n"), Var("o"), Var("p")
    value: Expr = x[n, o // block, p, o % block]
    match dtype:
        case DType.FLOAT32:
            difference = cast(value, DType.INT32) - (zero_point + int(OFFSET.value))
            value = cast(difference, DType.FLOAT32) * Const(float(scale), DType.FLOAT32)
        case DType.INT8:
            value = stored_value(value)
    load = Assign(name="map", buffer=y, indices=(n, o, p), value=value)
    return Program(name=name, parameters=(x, y), body=nest(list(zip((n, o, p), y.shape, strict=True)), load))

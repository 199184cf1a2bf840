"""Activations on processors: uint8, 128 more than the int8 values that the model stores, in blocks of channels;
conversions from and to the host's tensors (QuantizeLinear, DequantizeLinear)."""

from __future__ import annotations

import numpy as np

from vdla.isa.arithmetic import UNSIGNED_OFFSET

from ...ir.expr import Buffer, Call, Const, Expr, Var, cast, select
from ...ir.stmt import Program, each
from ...ir.types import DType
from ..blocks import ceil_div

OFFSET = Const(UNSIGNED_OFFSET, DType.UINT8)


def stored_value(value: Expr) -> Expr:
    """The int8 value that the model stores, from a uint8 activation."""
    return cast(value - OFFSET, DType.INT8)


def unsigned_activation(value: Expr) -> Expr:
    """The uint8 activation of an int8 value that the model stores."""
    return cast(value, DType.UINT8) + OFFSET


def biases_of_unsigned(bias: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """int32 biases for uint8 activations, which are 128 larger than int8 ones; `weight` int8[O, ...]. Biases wrap."""
    sums = weight.astype(np.int64).sum(axis=tuple(range(1, weight.ndim)))
    return (bias.astype(np.int64) - UNSIGNED_OFFSET * sums).astype(np.int32)


def store_activation(
    *, batch: int, channels: int, plane: int, block: int, dtype: DType, scale: float, zero_point: int
) -> Program:
    """Y = X as a uint8 activation: float32 is quantized (`vdla.isa.scales.quantize`), int8 gets 128 added, uint8 stays.

    Parameters: X of `dtype` [batch, channels, plane]; Y uint8[batch, ceil(channels / block), plane, block], with zeros
    beyond the channels. `zero_point`: the zero point of the int8 tensor. The result for NaN is undefined. Loops n, o,
    p, j around the statement "map".
    """
    x = Buffer(name="X", shape=(batch, channels, plane), dtype=dtype)
    y = Buffer(name="Y", shape=(batch, ceil_div(channels, block), plane, block), dtype=DType.UINT8)
    n, o, p, j = Var("n"), Var("o"), Var("p"), Var("j")
    channel = o * block + j
    value: Expr = x[n, channel, p]
    match dtype:
        case DType.FLOAT32:
            constants = (Const(float(scale), DType.FLOAT32), Const(zero_point, DType.INT8))
            value = unsigned_activation(Call("quantize", (value, *constants), DType.INT8))
        case DType.INT8:
            value = unsigned_activation(value)
    if channels % block:
        value = select(channel < channels, value, 0)
    return Program(name="store_activation", parameters=(x, y), body=each("map", y[n, o, p, j], value))


def load_activation(
    *, batch: int, channels: int, plane: int, block: int, dtype: DType, scale: float, zero_point: int
) -> Program:
    """Y = the activations X in the type that the model declares: float32 dequantized, uint8 unchanged, int8 minus 128.

    Parameters: X uint8[batch, ceil(channels / block), plane, block]; Y of `dtype` [batch, channels, plane]. `scale` and
    `zero_point` of the int8 tensor are used for float32. Loops n, o, p contain the statement "map".
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
    return Program(name="load_activation", parameters=(x, y), body=each("map", y[n, o, p], value))

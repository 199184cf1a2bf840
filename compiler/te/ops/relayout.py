"""Conversion of a tensor between different blocks of channels, including the plain layout."""

from __future__ import annotations

from ...ir.expr import Buffer, Var, select, wrap
from ...ir.stmt import Program, each
from ...ir.types import DType
from ..blocks import ceil_div


def relayout(
    *, batch: int, channels: int, plane: int, block_in: int, block_out: int, dtype: DType = DType.FLOAT32
) -> Program:
    """Y = X with channels in blocks of another size; Y is zero beyond the channels.

    Parameters of type `dtype`: X, in blocks of `block_in` channels, and Y, in blocks of `block_out`. The shape for
    blocks of b channels is [batch, ceil(channels / b), plane, b], and [batch, channels, plane] for b = 1. Loops n, o,
    p, j contain the statement "map" (there is no loop j if block_out is 1).
    """
    x = Buffer(name="X", shape=_shape(batch, channels, plane, block_in), dtype=dtype)
    y = Buffer(name="Y", shape=_shape(batch, channels, plane, block_out), dtype=dtype)
    n, o, p, j = Var("n"), Var("o"), Var("p"), Var("j")
    channel = o * block_out + j if block_out > 1 else o
    value = x[n, channel // block_in, p, channel % block_in] if block_in > 1 else x[n, channel, p]
    if block_in > 1 and y.shape[1] * block_out > x.shape[1] * block_in:
        # The same condition on the block as the test below on the channel: bounds of a quotient cannot be derived from
        # that one.
        value = select(channel // block_in < x.shape[1], value, wrap(0, dtype))
    if channels % block_out:
        value = select(channel < channels, value, wrap(0, dtype))
    indices = (n, o, p, j) if block_out > 1 else (n, o, p)
    return Program(name="relayout", parameters=(x, y), body=each("map", y[indices], value))


def _shape(batch: int, channels: int, plane: int, block: int) -> tuple[int, ...]:
    if block == 1:
        return (batch, channels, plane)
    return (batch, ceil_div(channels, block), plane, block)

"""Softmax and normalizations over channels, and products of two activations, as nodes of the integer graph."""

from __future__ import annotations

import numpy as np

from vdla.isa.arithmetic import requantize_scale
from vdla.isa.rows import FRACTION_BITS, exponentials

from ..te.blocks import Pair
from ..te.post import Post
from .int8_operators import Products, Rows
from .onnx_append import Clamp, append
from .onnx_context import ImportContext
from .onnx_values import Multiplied, Pending, Shared
from .quantization import Quantization

LARGEST_BIAS = 1 << 30
"""A channel whose offset is more of its gain has a larger gain instead: below 2^-14 of the offset."""


def emit_shared(
    context: ImportContext, pending: Pending, shared: Shared, output: str, result: Quantization, clamp: Clamp
) -> str:
    """Adds the node of a softmax or a normalization; returns its output."""
    source = shared.data.quantization
    post = Post(zero_point=result.stored_zero_point, low=clamp[0], high=clamp[1])
    step = 2.0**-FRACTION_BITS / float(result.scale)
    if shared.gain is None or shared.offset is None:
        operator = Rows(
            entries=exponentials(float(source.scale)) if shared.entries is None else shared.entries,
            bias=np.zeros(1, np.int32),
            scale=np.array([step], np.float32),
            post=post,
        )
    else:
        bias, scale = parameters_of(shared.gain * step, shared.offset / float(result.scale))
        operator = Rows(
            entries=None,
            bias=bias,
            scale=scale,
            post=post,
            zero_point=source.stored_zero_point,
            centre=shared.centre,
            epsilon=epsilon_of(shared.epsilon, float(source.scale), len(bias)),
        )
    tensor = context.declare(output, pending.natural, result)
    return append(context, pending, pending.members[0], operator, (shared.data.tensor,), tensor)


def parameters_of(scale: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(bias int32, scale float32) with which (share + bias) * scale is share * `scale` + `offset`, float64 (C,).

    Where the bias would not fit, the scale is that of the largest one.
    """
    least = np.maximum(np.abs(offset) / LARGEST_BIAS, float(np.finfo(np.float32).tiny))
    own = np.where(np.abs(scale) < least, np.copysign(least, scale), scale)
    return np.rint(offset / own).astype(np.int64).astype(np.int32), own.astype(np.float32)


def epsilon_of(epsilon: float, scale: float, length: int) -> Pair:
    """The epsilon of a variance of numbers of `scale` as (mantissa, shift) of what the radicand adds."""
    whole = round(epsilon * (length / scale) ** 2)
    shift = max(0, whole.bit_length() - 16)
    return min(whole >> shift, (1 << 16) - 1), min(shift, 31)


def emit_multiplied(
    context: ImportContext,
    pending: Pending,
    product: Multiplied,
    output: str,
    result: Quantization,
    clamp: Clamp,
) -> str:
    """Adds the node of products of two activations; returns its output."""
    a, b = product.a.quantization, product.b.quantization
    operator = Products(
        groups=product.groups,
        rows=product.rows,
        columns=product.columns,
        depth=product.depth,
        zero_points=(a.stored_zero_point, b.stored_zero_point),
        scale=np.float32(requantize_scale(a.scale, b.scale, result.scale)),
        post=Post(zero_point=result.stored_zero_point, low=clamp[0], high=clamp[1]),
    )
    tensor = context.declare(output, pending.natural, result)
    inputs = (product.a.tensor, product.b.tensor)
    return append(context, pending, pending.members[0], operator, inputs, tensor)

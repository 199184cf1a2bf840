"""Scales, zero points and integers from ranges and weights: the rules of static quantization.

real = scale * (integer - zero point). Activations have one scale per tensor, and are uint8 with a zero point or int8
with zero point 0. Weights are int8 with zero point 0, and have one scale or one per output channel. Biases are int32;
their scale is the scale of the activation times the scale of the weights. The rules are those of Jacob et al.,
"Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference" (2018), sections 2.1 to
2.4, and of ONNX Runtime's static quantizer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vdla.isa.scales import checked_scales

from ..graph.int8_convolution import ActivationType, Quantization

RoundScale = Callable[[NDArray[np.float64]], NDArray[np.float32]]
"""A function that rounds the computed (float64) scales to the float32 scales that a quantized model stores."""

STEPS = {"uint8": 255, "int8": 127}
"""Number of quantization steps: for uint8 from the least to the greatest value, for int8 from zero to the greatest
value.
"""
WEIGHT_STEPS = 127
LEAST_SCALE = 2.0**-60
"""Least scale: products of two scales must be normal float32 numbers, and smaller scales represent rounding errors
only.
"""
MOST_BIAS = 2**30
"""Largest bias: half of the range of an int32 accumulator; the other half is for the sum of products."""


def nearest(scales: NDArray[np.float64]) -> NDArray[np.float32]:
    """Rounds to the nearest float32."""
    return scales.astype(np.float32)


def activation_quantization(
    low: float, high: float, dtype: ActivationType, *, round_scale: RoundScale = nearest
) -> Quantization:
    """The quantization to `dtype` of the range from `low` to `high`. The range is extended to contain 0, which has an
    exact integer. The range 0 to 0 gets scale 1. `round_scale` rounds the computed scale to float32.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    span = high - low if dtype == "uint8" else max(-low, high)
    ideal = np.array(max(span / STEPS[dtype], LEAST_SCALE) if span else 1.0)
    scale = np.float32(checked_scales(round_scale(ideal)))
    zero_point = int(np.clip(np.rint(-low / float(scale)), 0, 255)) if dtype == "uint8" else 0
    return Quantization(scale=scale, zero_point=zero_point, dtype=dtype)


def weight_scales(
    weight: NDArray[np.floating],
    axis: int | None,
    *,
    bias: NDArray[np.floating] | None = None,
    input_scale: float = 1.0,
    round_scale: RoundScale = nearest,
) -> NDArray[np.float32]:
    """The float32 scales of `weight` along `axis`, shape (channels,). Without an axis there is one scale for all
    weights, shape ().

    The scale of a channel maps the weight of largest magnitude to 127. A channel of zeros gets the largest scale of all
    channels, so that its bias has the same resolution. A larger scale is chosen if the channel's bias, in units of
    `input_scale` * scale, would otherwise exceed `MOST_BIAS`. `round_scale` rounds the computed scales to float32.
    """
    magnitude = np.abs(weight.astype(np.float64))
    others = tuple(position for position in range(weight.ndim) if position != axis)
    ideal = np.asarray(magnitude.max() if axis is None else magnitude.max(axis=others)) / WEIGHT_STEPS
    largest = ideal.max(initial=0.0) or 1.0 / WEIGHT_STEPS
    ideal = np.maximum(np.where(ideal > 0.0, ideal, largest), LEAST_SCALE)
    if bias is not None:
        needed = np.abs(bias.astype(np.float64)) / (input_scale * MOST_BIAS)
        ideal = np.maximum(ideal, needed.max(initial=0.0) if axis is None else needed)
    return checked_scales(round_scale(ideal))


def quantize_weights(
    weight: NDArray[np.floating], scale: NDArray[np.float32], axis: int | None
) -> NDArray[np.int8]:
    """`weight` in steps of `scale` (one, or one per index along `axis`), rounded half to even, from -127 to 127."""
    shape = [-1 if position == axis else 1 for position in range(weight.ndim)]
    steps = np.rint(weight.astype(np.float64) / scale.astype(np.float64).reshape(shape if scale.ndim else ()))
    return np.clip(steps, -WEIGHT_STEPS, WEIGHT_STEPS).astype(np.int8)


def bias_scales(input_scale: np.float32, weight_scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """`input_scale` * `weight_scale` in float32: an accumulator's unit. Raises ScaleError if it is not finite."""
    with np.errstate(over="ignore", under="ignore"):
        return checked_scales(np.float32(input_scale) * weight_scale)


def quantize_bias(bias: NDArray[np.floating], scale: ArrayLike) -> NDArray[np.int32]:
    """`bias` in steps of `scale`, rounded half to even, saturated at 32 bits."""
    steps = np.rint(bias.astype(np.float64) / np.asarray(scale, np.float64))
    return np.clip(steps, -(2**31), 2**31 - 1).astype(np.int32)

"""Quantization of reals into the stored domain (int8; uint8 less 128, see `arithmetic.py`), and tensors' scales."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vdla.util.errors import UserError

Int8Array = NDArray[np.int8]
Float32Array = NDArray[np.float32]

INT8_LOW, INT8_HIGH = -128, 127


class ScaleError(UserError):
    """Raised if a scale, ratio or zero point is out of range for the arithmetic."""


def saturate(values: Float32Array, zero_point: ArrayLike, low: int, high: int) -> Int8Array:
    """Rounds `values` half to even, adds the integer `zero_point` and clamps to ``[low, high]``; returns int8.

    The rounded value is clamped before the sum, so the sum is exact: limits and zero points are integers far below
    2^24. Infinities saturate.
    """
    zero = np.asarray(zero_point, np.float32)
    rounded = np.asarray(np.rint(values))
    np.maximum(rounded, low - zero, out=rounded)
    np.minimum(rounded, high - zero, out=rounded)
    return np.asarray((rounded + zero).astype(np.int8))


def quantize(values: Float32Array, scale: ArrayLike, zero_point: ArrayLike) -> Int8Array:
    """ONNX QuantizeLinear into the stored domain (int8; uint8 values less 128): ``clamp(rne(values / scale) +
    zero_point)``, where rne rounds half to even.

    `values` is float32 of any shape; the division rounds to float32 once. Raises `ScaleError` if a value is NaN;
    infinities saturate.
    """
    if np.isnan(values).any():
        raise ScaleError("an input contains NaN, which cannot be quantized; clean the input data first")
    with np.errstate(over="ignore"):
        return saturate(values / np.asarray(scale, np.float32), zero_point, INT8_LOW, INT8_HIGH)


def dequantize(values: NDArray[np.int8], scale: ArrayLike, zero_point: ArrayLike) -> Float32Array:
    """ONNX DequantizeLinear from the stored domain (int8; uint8 less 128): ``float32(values - zero_point) * scale``."""
    difference = values.astype(np.int32) - np.asarray(zero_point, np.int32)
    return np.asarray(difference.astype(np.float32) * np.asarray(scale, np.float32))


def requantize_scale(
    input_scale: float | np.float32, weight_scale: ArrayLike, output_scale: float | np.float32
) -> Float32Array:
    """The scale of `requantize`: float32 ``(input_scale * weight_scale) / output_scale``."""
    product = checked_scale(input_scale) * checked_scales(weight_scale)
    return checked_scales(product / checked_scale(output_scale))


def checked_scale(scale: float | np.float32) -> np.float32:
    """The scale as float32. Raises `ScaleError` unless it is finite, positive and not subnormal."""
    return np.float32(checked_scales(np.float32(scale)))


def checked_scales(scales: ArrayLike) -> Float32Array:
    """The scales as float32. Raises `ScaleError` unless all are finite, positive and not subnormal."""
    result = np.asarray(scales, np.float32)
    bad = ~(np.isfinite(result) & (result >= np.finfo(np.float32).smallest_normal))
    if bad.any():
        first = result[bad].flat[0] if result.ndim else result
        raise ScaleError(f"scale {first} is not a positive normal float32 number")
    return result

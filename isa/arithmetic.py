"""The definition of quantized arithmetic, which simulator, RTL, interpreters and all back ends implement.

**Stored domain.** Activations are stored as int8. An int8 tensor is stored unchanged. A uint8 tensor is stored as
``value - 128`` and its zero point as ``zero_point - 128``; functions to which this shift matters have a parameter
``unsigned``. The shift cancels in differences from the zero point. It matters to float operations on the values
themselves, because float32 sums round differently after a shift by 128.

**The store pipeline** of the accelerator, which turns accumulators into activations, has two stages:

* stage A, `requantize`: ``clamp(rne(float32(acc) * scale) + zero_point)``;
* stage B, optional, on the int8 result of stage A: `combine_add` or `combine_multiply` with a second int8
  tensor, or `rescale` without one.

``rne`` rounds half to even. Every float operation is IEEE-754 binary32 with one rounding; `combine_add` uses
fused multiply-add because ONNX Runtime's kernels do, and no other form gives the same bits.

**Source of the formulas.** Measured on ONNX Runtime 1.31 (CPU, x86-64): QLinearConv, QGemm, QLinearMatMul and
QLinearGlobalAveragePool equal stage A; QLinearAdd equals `combine_add` with `add_constants`; QLinearMul
equals `combine_multiply` with `multiply_ratio`, bit for bit (tests/isa/test_arithmetic.py).
QLinearAveragePool sums floats and adds the zero point before rounding; stage A is within one step of it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .scales import (
    INT8_HIGH,
    INT8_LOW,
    Float32Array,
    Int8Array,
    ScaleError,
    checked_scale,
    saturate,
)

CONSTANT_BITS = 16
"""Ratios and offset of stage B (the operation after requantization) may be at most 2^CONSTANT_BITS in magnitude; the
accelerator's adders are wide enough for such constants. A larger ratio of two scales would saturate every value except
the zero point.
"""
LARGEST_CONSTANT = 2.0**CONSTANT_BITS

Int32Array = NDArray[np.int32]

UNSIGNED_OFFSET = 128

# A ratio of two activation scales outside this range makes every output a constant or saturates all of them,
# and could overflow the float32 terms of `combine_add`.
SMALLEST_RATIO = 2.0**-64
LARGEST_RATIO = 2.0**24


def wrap_int32(values: NDArray[np.int64]) -> Int32Array:
    """The low 32 bits of int64 sums, as int32: the accumulators wrap around."""
    return values.astype(np.int32)


def fused_multiply_add(integers: ArrayLike, factor: ArrayLike, addend: ArrayLike) -> Float32Array:
    """Computes ``integers * factor + addend`` in float32 with a single rounding (IEEE-754 fusedMultiplyAdd).

    `integers` have at most 29 significant bits, so the product with a float32 is exact in float64. The sum is
    computed in float64 and rounded to odd (its exact error, by Knuth's two-sum, decides the last bit); then the
    conversion to float32 gives the correctly rounded result (Boldo and Melquiond, 2008).
    """
    product = np.asarray(integers, np.float64) * np.asarray(factor, np.float32).astype(np.float64)
    term = np.asarray(addend, np.float32).astype(np.float64)
    total = product + term
    carried = total - product
    error = (product - (total - carried)) + (term - carried)
    even = (total.view(np.int64) & 1) == 0
    step = np.where((error > 0) == (total > 0), 1, -1)
    odd = (total.view(np.int64) + np.where((error != 0) & even, step, 0)).view(np.float64)
    return np.asarray(odd.astype(np.float32))


def requantize(
    accumulator: NDArray[Any],
    scale: ArrayLike,
    zero_point: ArrayLike,
    low: int = INT8_LOW,
    high: int = INT8_HIGH,
) -> Int8Array:
    """Stage A (requantization): ``clamp(rne(float32(accumulator) * scale) + zero_point, low, high)``; rne rounds half
    to even.

    `accumulator`: int32 of any shape, with the bias. `scale`: float32, broadcast against it; scales of channels must
    have a shape that broadcasts along the channel axis. `zero_point`, `low` and `high` are in the stored domain (int8;
    uint8 values less 128). With ``low = zero_point`` the function includes a ReLU whose output has this quantization.
    """
    with np.errstate(over="ignore"):
        scaled = accumulator.astype(np.float32) * np.asarray(scale, np.float32)
    return saturate(scaled, zero_point, low, high)


def rescale(
    values: NDArray[np.int8],
    zero_point_in: int,
    ratio: ArrayLike,
    zero_point: int,
    low: int = INT8_LOW,
    high: int = INT8_HIGH,
) -> Int8Array:
    """Stage B (the operation after requantization) without operand: converts `values` (int8) to another scale; `ratio`
    = old scale / new scale.

    Equals stage A (requantization) applied to ``values - zero_point_in``, with the new `zero_point` and the result's
    limits `low` and `high`. With ``low = zero_point`` it includes a ReLU between the two quantizations.
    """
    return requantize(values.astype(np.int32) - zero_point_in, ratio, zero_point, low, high)


def combine_add(
    first: NDArray[np.int8],
    second: NDArray[np.int8],
    constants: "AddConstants",
    low: int = INT8_LOW,
    high: int = INT8_HIGH,
) -> Int8Array:
    """Stage B (the operation after requantization), ADD: ``clamp(rne(fma(a, ratio_a, fma(b, ratio_b, offset))), low,
    high)``; rne rounds half to even. `constants` has the ratios and the offset (`add_constants`).

    `first` and `second` are int8 in the stored domain (int8; uint8 values less 128), in the order of the ONNX node's
    inputs (the order of the two fused multiply-adds decides last bits). For uint8 models, a and b are the stored values
    plus 128, and 128 is subtracted from the rounded result. `low` and `high` are in the stored domain.
    """
    shift = UNSIGNED_OFFSET if constants.unsigned else 0
    a = first.astype(np.int32) + shift
    b = second.astype(np.int32) + shift
    inner = fused_multiply_add(b, constants.ratio_b, constants.offset)
    return saturate(fused_multiply_add(a, constants.ratio_a, inner), -shift, low, high)


def combine_multiply(
    first: NDArray[np.int8],
    second: NDArray[np.int8],
    zero_points: tuple[int, int],
    ratio: ArrayLike,
    zero_point: int,
    unsigned: bool,
    low: int = INT8_LOW,
    high: int = INT8_HIGH,
) -> Int8Array:
    """Stage B (the operation after requantization), MULTIPLY: ``clamp(rne(float32((a - zero_a) * (b - zero_b)) * ratio
    + zero_c), low, high)``; rne rounds half to even.

    Operands, their `zero_points` (of a, of b), the output's `zero_point`, `low` and `high` are in the stored domain
    (int8; uint8 values less 128); `unsigned`: the model's dtype is uint8. The product of the differences is an exact
    integer. The multiplication by `ratio` rounds to float32; then the addition of zero_c, the output's zero point in
    the model's own dtype, rounds to float32, before the rounding to an integer, as in ONNX Runtime. For uint8, 128 is
    then subtracted.
    """
    shift = UNSIGNED_OFFSET if unsigned else 0
    product = (first.astype(np.int32) - zero_points[0]) * (second.astype(np.int32) - zero_points[1])
    scaled = product.astype(np.float32) * np.asarray(ratio, np.float32) + np.float32(zero_point + shift)
    return saturate(scaled, -shift, low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddConstants:
    """Constants of `combine_add`: two float32 ratios, a float32 offset, and whether the model's dtype is unsigned."""

    ratio_a: np.float32
    ratio_b: np.float32
    offset: np.float32
    unsigned: bool


def add_constants(
    scale_a: float | np.float32,
    zero_point_a: int,
    scale_b: float | np.float32,
    zero_point_b: int,
    scale: float | np.float32,
    zero_point: int,
    unsigned: bool,
) -> AddConstants:
    """The constants of `combine_add` for the quantizations of inputs a and b and of the output (`scale`, `zero_point`).

    `unsigned`: the model's dtype is uint8. Zero points are in the stored domain (int8; uint8 values less 128). With
    zero points in the model's own dtype, ``offset = zero_c - fma(ratio_a, zero_a, ratio_b * zero_b)``, as the compiler
    of ONNX Runtime contracts the formula. Raises `ScaleError` for a scale or ratio out of range.
    """
    shift = UNSIGNED_OFFSET if unsigned else 0
    ratio_a = rescale_ratio(scale_a, scale)
    ratio_b = rescale_ratio(scale_b, scale)
    zeros = fused_multiply_add(zero_point_a + shift, ratio_a, ratio_b * np.float32(zero_point_b + shift))
    offset = np.float32(zero_point + shift) - np.float32(zeros)
    return AddConstants(ratio_a=ratio_a, ratio_b=ratio_b, offset=np.float32(offset), unsigned=unsigned)


def multiply_ratio(
    scale_a: float | np.float32, scale_b: float | np.float32, scale: float | np.float32
) -> np.float32:
    """The ratio of `combine_multiply`: float32 ``(scale_a * scale_b) / scale``, where `scale` is the output's. Raises
    `ScaleError` for a scale or ratio out of range.
    """
    product = checked_scale(scale_a) * checked_scale(scale_b)
    return _checked_ratio(product / checked_scale(scale))


def average_pool_scale(
    input_scale: float | np.float32, output_scale: float | np.float32, count: int
) -> np.float32:
    """The scale of `requantize` for an average: float32 ``input_scale / (output_scale * count)``, for sums of `count`
    differences from the zero point. Raises `ScaleError` for a scale, count or result out of range.
    """
    if count < 1:
        raise ScaleError(f"an average over {count} values is undefined; the window must hold at least one")
    return checked_scale(checked_scale(input_scale) / (checked_scale(output_scale) * np.float32(count)))


def rescale_ratio(input_scale: float | np.float32, output_scale: float | np.float32) -> np.float32:
    """The ratio of `rescale` and `combine_add`: float32 ``input_scale / output_scale``. Raises `ScaleError` for a scale
    or ratio out of range.
    """
    return _checked_ratio(checked_scale(input_scale) / checked_scale(output_scale))


def _checked_ratio(ratio: np.float32) -> np.float32:
    if not SMALLEST_RATIO <= ratio <= LARGEST_RATIO:
        raise ScaleError(f"connected tensors have the scale ratio {ratio}, outside 2**-64 .. 2**24")
    return ratio

"""Fits the bias of each output channel into 32-bit accumulators. A bias is unchanged if no sum of the channel
overflows. It is moved into range if requantization saturates all sums of the channel anyway. Otherwise weights and bias
are halved and the scale is doubled, if this changes a result by at most `LEAST_PART` of a quantization step. Any other
bias is rejected.

Two numbers are added for each result: acc = sum of (weight x stored activation), and bias' = bias - zero point x (sum
of weights). Engines differ in when they add bias', so acc, bias' and acc + bias' must all stay in int32. All
intermediate values in this file are int64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa.arithmetic import requantize
from vdla.isa.scales import INT8_HIGH, INT8_LOW, ScaleError

from ...te.post import Post

LOWEST, HIGHEST = -(2**31), 2**31 - 1
_LARGEST_BIAS = 2.0**40
"""Real biases are clamped to this magnitude, in units of the accumulator's scale. The bound is larger than any 32-bit
sum, so a larger bias would have the same effect. float64 represents the bound exactly.
"""

LEAST_PART = 2.0**-5
"""Largest error of a result that halving the weights may cause, as a fraction of the result's quantization step."""


MOST_MOVED = 0.5
"""The rounding of a bias to the accumulator's grid must move a result by less than this fraction of its quantization
step. The result itself is rounded by up to half a step, so it is less than one step from its real value.
"""


class AccumulatorError(ScaleError):
    """Raised if the sums of a channel may leave 32 bits, which would change a result."""


def average_bias(area: int, zero_point: int) -> int:
    """The bias -area * zero_point, which corrects sums over windows of `area` int8 values for their zero point.

    Raises AccumulatorError if area * 255 exceeds int32: 255 bounds both a stored value and its distance from the zero
    point.
    """
    if area * (INT8_HIGH - INT8_LOW) > HIGHEST:
        raise AccumulatorError(f"the sums over windows of {area} values may exceed 32 bits")
    return -area * zero_point


def whole_steps(
    values: NDArray[np.float64], step: NDArray[np.float64], scale: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Divides real biases (`values`) by `step`, rounds half to even, and clamps to 2**40 in magnitude. `scale`: the
    number of quantization steps of the result in one `step`.

    Raises ScaleError on NaN, and for a bias whose rounding moves the result by `MOST_MOVED` quantization steps or more.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        exact = values / step
        rounded = np.rint(exact)
        moved = np.abs(rounded - exact) * scale
    if np.isnan(rounded).any():
        raise ScaleError("a bias divided by input scale x weight scale is not a number")
    if (moved >= MOST_MOVED).any():
        at = int(np.argmax(moved >= MOST_MOVED))
        raise ScaleError(
            f"the bias {values[at]:g} of channel {at} is no multiple of input scale x weight scale, {step[at]:g}: "
            f"rounding it moves the result by {moved[at]:.3g} quantization steps"
        )
    return np.clip(rounded, -_LARGEST_BIAS, _LARGEST_BIAS).astype(np.int64)


def sums_in_range(
    bias: NDArray[np.int64],
    weight: NDArray[np.int8],
    zero_point: int,
    scale: NDArray[np.float32],
    stage: Post,
) -> tuple[NDArray[np.int8], NDArray[np.int32], NDArray[np.float32]]:
    """Changes the constants of a quantized product, if necessary, so that no sum of a channel leaves 32 bits.

    Arguments: `weight` (O, ...), `bias` (O,), `scale` (O,), the input's `zero_point`, and the requantization `stage` of
    the sums. Returns (weights, biases, scales), where each bias is reduced by zero point x sum of weights. First, only
    biases are moved (`moved_bias`). If this fails, weights and biases of channels with large biases are halved, and
    their scales doubled. ONNX Runtime's quantizer writes large biases: it raises the scale of small weights until the
    bias just fits 32 bits. Halving rounds odd weights, which may change a result by at most `LEAST_PART` of a step.
    Raises AccumulatorError if both ways fail.
    """
    rows = weight.reshape(len(weight), -1)
    total = rows.sum(axis=1, dtype=np.int64)
    bias, scale = np.broadcast_to(bias, total.shape), np.broadcast_to(scale, total.shape)
    wanted = bias - zero_point * total
    try:
        return weight, moved_bias(bias, rows, wanted, scale, stage), scale
    except AccumulatorError:
        spread = np.abs(rows.astype(np.int64)).sum(axis=1) * -INT8_LOW
        large = np.abs(wanted) + spread > HIGHEST
        odd = (rows & 1).sum(axis=1, dtype=np.int64)
        # An odd weight changes by half; a value is at most 255 from the zero point, and the scale is doubled.
        if (large & (odd * (INT8_HIGH - INT8_LOW) * scale.astype(np.float64) > LEAST_PART)).any():
            raise
    half = np.where(large, 2, 1)
    fewer = np.rint(rows / half[:, None]).astype(np.int8)
    nearer = np.rint(bias / half).astype(np.int64)
    wanted = nearer - zero_point * fewer.sum(axis=1, dtype=np.int64)
    scale = (scale * half).astype(np.float32)
    return fewer.reshape(weight.shape), moved_bias(nearer, fewer, wanted, scale, stage), scale


def moved_bias(
    bias: NDArray[np.int64],
    rows: NDArray[np.int8],
    wanted: NDArray[np.int64],
    scale: NDArray[np.float32],
    stage: Post,
) -> NDArray[np.int32]:
    """Moves the bias of each output channel into a range in which no sum of the channel leaves 32 bits. Returns the
    biases, int32 (O,). `wanted`, int64 (O,): the biases to move; each is the `bias` of the channel minus zero point x
    (sum of weights). `rows`: int8 weights (O, products).

    A bias may be moved only if this changes no result: requantization by `scale` and `stage` must saturate all sums of
    the channel, with the old and with the new bias. Otherwise raises AccumulatorError, whose message contains the
    `bias`. The error is also raised for a channel in which the sum of the products may leave 32 bits without any bias.
    """
    positive = np.where(rows > 0, rows, np.int8(0)).sum(axis=1, dtype=np.int64)
    negative = rows.sum(axis=1, dtype=np.int64) - positive
    most = positive * INT8_HIGH + negative * INT8_LOW
    least = positive * INT8_LOW + negative * INT8_HIGH
    deep = (most > HIGHEST) | (least < LOWEST)
    if deep.any():
        raise AccumulatorError(
            f"the sums of channel {int(np.argmax(deep))} over {rows.shape[1]} products may exceed 32 bits"
        )
    fitted = np.clip(wanted, np.maximum(LOWEST, LOWEST - least), np.minimum(HIGHEST, HIGHEST - most))
    moved = np.flatnonzero(fitted != wanted)
    if moved.size:
        down = fitted[moved] < wanted[moved]
        # Stage A is monotone: if the sum nearest to zero saturates, all others do, and so do sums further out.
        nearest = np.where(down, fitted[moved] + least[moved], fitted[moved] + most[moved])
        scales = np.broadcast_to(scale, wanted.shape)[moved]
        results = requantize(nearest, scales, stage.zero_point, stage.low, stage.high)
        wrong = results != np.where(down, stage.high, stage.low)
        if wrong.any():
            channel = int(moved[np.argmax(wrong)])
            value = int(np.broadcast_to(bias, wanted.shape)[channel])
            raise AccumulatorError(
                f"the bias {value} of channel {channel} plus the products of the channel may exceed 32 bits"
            )
    return fitted.astype(np.int32)

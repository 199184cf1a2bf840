"""Random operands for STORE.POST that reach every branch of its arithmetic; used by `random_programs.py`. Stage A
multiplies sums by scales and rounds to int8; stage B is the optional operation after it (rescale, add, multiply).

Uniformly random operands hardly ever reveal a wrong rounding: a float32 sum has a mantissa of 24 bits, and one unit in
its last place changes an int8 result in one case of a hundred thousand. So half of the operands are chosen such that
the product or sum computed from them is a tie (n + 1/2), or a float32 next to a tie. The other operands have every
magnitude, so that each shifter shifts by each distance, or they are zero or subnormal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa.arithmetic import CONSTANT_BITS, LARGEST_CONSTANT
from vdla.isa.errors import ProgramError

TOTALS = 8
"""Number of accumulator vectors for each entry of a parameter table (`near_tie_totals`)."""

_INT32 = 2**31


def log_uniform_int32(rng: np.random.Generator, count: int) -> NDArray[np.int32]:
    """Random int32 (count,) of both signs; the number of bits is uniform on 0..31."""
    words = rng.integers(-_INT32, _INT32, count)
    return (words >> rng.integers(0, 32, count)).astype(np.int32)


def magnitude(rng: np.random.Generator, low: float, high: float) -> np.float32:
    """A float32 of random sign; its binary logarithm is uniform on `low`..`high`."""
    return np.float32(np.exp2(rng.uniform(low, high)) * rng.choice((-1, 1)))


def dyadic(rng: np.random.Generator, bits: int = 6) -> np.float32:
    """A random float32 m / 2^k of either sign, with m odd and below 8, and k up to `bits`. The product of such a number
    with an integer is often exactly n + 1/2, a rounding tie. In 60% of calls the number differs from m / 2^k by a small
    factor, so that the product is only near the tie.
    """
    value = float(2 * rng.integers(0, 4) + 1) / float(1 << rng.integers(1, bits + 1))
    if rng.random() < 0.6:
        value *= 1 + float(rng.choice((-1, 1))) * 2.0 ** -float(rng.integers(10, 24))
    return np.float32(value * rng.choice((-1, 1)))


def tie(rng: np.random.Generator) -> np.float32:
    """A float32 n + 1/2 in the range of int8, or a float32 at most two units in the last place from it."""
    value = np.float32(rng.integers(-128, 127) + 0.5)
    step = int(rng.integers(-2, 3))
    return np.float32(value + step * np.spacing(value))


def special(rng: np.random.Generator) -> np.float32:
    """A float32 zero, subnormal number, power of two, or number near the ends of the range that machines support."""
    return np.float32(
        rng.choice(
            (
                0.0,
                -0.0,
                1.0,
                -1.0,
                2.0**-149,
                -(2.0**-130),
                2.0**-126,
                2.0**-24,
                LARGEST_CONSTANT,
                -LARGEST_CONSTANT / 2,
                LARGEST_CONSTANT - 1,
            )
        )
    )


def random_scales(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Random float32 scales (count,), of every magnitude that an int32 sum may need; a fifth are negative, few are zero
    or subnormal.
    """
    scales = np.exp2(rng.uniform(-26, 6, count)) * np.where(rng.random(count) < 0.2, -1, 1)
    exact = rng.random(count) < 0.25
    scales = np.where(exact, np.exp2(np.round(np.log2(np.abs(scales)))) * np.sign(scales), scales)
    found = scales.astype(np.float32)
    for place in np.flatnonzero(rng.random(count) < 0.08).tolist():
        found[place] = special(rng)
    return found


def near_tie_totals(
    rng: np.random.Generator,
    scales: NDArray[np.float32],
    biases: NDArray[np.int32],
    rows: int,
    zero_point: int = 0,
) -> NDArray[np.int32]:
    """Random accumulator values ("totals") that are hard to round, int32 (`rows`, lanes). For most of them, (total +
    bias) x scale is near a tie n + 1/2; 15% are of any size. `biases` and `scales` have an element for each lane.

    For most of them, n + `zero_point` is in the range of int8. Raises ProgramError if there are not as many biases as
    scales.
    """
    if scales.shape != biases.shape:
        raise ProgramError(
            f"scales of shape {scales.shape} need biases of the same shape, not {biases.shape}"
        )
    shape = (rows, scales.size)
    target = rng.integers(-132, 132, shape) + 0.5 - zero_point
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        total = np.nan_to_num(target / scales.astype(np.float64), nan=1.0, posinf=_INT32, neginf=-_INT32)
    total = np.rint(np.clip(total, -_INT32, _INT32 - 1)).astype(np.int64)
    # Totals around a tie of the product, and around a tie of the conversion to float32.
    offset = rng.integers(-3, 4, shape) << rng.integers(0, 8, shape)
    total = total + np.where(rng.random(shape) < 0.7, offset, 0)
    wide = rng.random(shape) < 0.15
    total = np.where(wide, log_uniform_int32(rng, total.size).reshape(shape), total)
    return (total - biases).astype(np.int32)


def _few_units(rng: np.random.Generator, of: np.float32) -> np.float32:
    """A random ratio that is small compared with `of`: its product with an int8 value is of the order of the unit in
    the last place of `of`, either a few units or a fraction of one.
    """
    unit = float(np.spacing(np.abs(of)))
    if rng.random() < 0.5:
        # Some products are exactly half a unit: ties of the rounding to float32.
        return np.float32(unit * float(dyadic(rng, 8)))
    return np.float32(unit * 2.0 ** rng.uniform(-9, 3) * rng.choice((-1, 1)))


def combine_constants(rng: np.random.Generator) -> tuple[np.float32, np.float32, np.float32]:
    """Random float32 constants for an addition in stage B, the operation that a store may apply after requantization:
    value x ratio + operand x ratio + offset. Returns (ratio of the value, ratio of the operand, offset).
    """
    match int(rng.integers(8)):
        case 0:
            # Constants as in models.
            return magnitude(rng, -6, 3), magnitude(rng, -6, 3), np.float32(rng.uniform(-300, 300))
        case 1 | 2:
            # Sums that are exact ties, or nearly.
            trifle = magnitude(rng, -26, -8) if rng.random() < 0.5 else np.float32(0)
            return dyadic(rng), dyadic(rng), np.float32(dyadic(rng, 3) + trifle)
        case 3:
            # The offset is a tie, and the small products decide the rounding.
            offset = tie(rng)
            return _few_units(rng, offset), _few_units(rng, offset), offset
        case 4:
            # One product and the offset make a tie, and the other, small product decides the rounding.
            own, operand, offset = dyadic(rng), magnitude(rng, -60, -8), dyadic(rng, 4)
            return (own, operand, offset) if rng.random() < 0.5 else (operand, own, offset)
        case 5:
            # The two products cancel.
            own = magnitude(rng, -10, CONSTANT_BITS - 1)
            near = np.float32(-own * (1 + rng.choice((0, 1, -1)) * 2.0 ** -float(rng.integers(4, 24))))
            return own, near, tie(rng)
        case 6:
            # A product and the offset cancel.
            own, number = magnitude(rng, -3, CONSTANT_BITS - 2), int(rng.integers(-128, 256))
            offset = np.float32(np.clip(-float(own) * number, -LARGEST_CONSTANT, LARGEST_CONSTANT))
            other = dyadic(rng) if rng.random() < 0.5 else magnitude(rng, -30, CONSTANT_BITS)
            return (own, other, offset) if rng.random() < 0.5 else (other, own, offset)
        case _:
            parts = [
                special(rng) if rng.random() < 0.5 else magnitude(rng, -149, CONSTANT_BITS) for _ in range(3)
            ]
            return parts[0], parts[1], parts[2]


def far_rescale(rng: np.random.Generator, zero_point_in: int) -> tuple[np.float32, int]:
    """A random ratio and int16 zero point for a rescaling whose results, (int8 - `zero_point_in`) x ratio + zero point,
    are near the range of int8, or as near as an int16 zero point allows.

    Many products have the form n + 1/2 or are close to it, which is a hard case of rounding. Over many calls with zero
    points of every magnitude, each bit of n is sometimes the highest one that is set.
    """
    ratio = dyadic(rng)
    number = int(rng.integers(-128, 128))
    target = -round((number - zero_point_in) * float(ratio)) + int(rng.integers(-100, 101))
    return ratio, min(max(target, -(2**15)), 2**15 - 1)

"""Operands of the store pipeline that are the hardest to round: the last bit of a product or sum decides the result.
Stage A multiplies totals (int32 sums) by scales and rounds to int8; stage B is an optional add, multiply or rescale
after it.

The pipeline first rounds to float32 and then to an integer. This gives the same integer as exact arithmetic, unless the
exact value is so near n + 1/2 that the first rounding moves it there. The limit of this range is the threshold T = n +
1/2 +- u/2, where u is the unit in the last place of a float32.

This module solves for operands whose product or sum is exactly T, or differs from T by a small power of two, down to
the last bit of the product. The int8 result then depends on every bit. Among random operands, only one in a million
comes within 2^-20 of T.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.isa.arithmetic import LARGEST_CONSTANT, fused_multiply_add

_MANTISSA = 24
_CANDIDATES = 1 << 15
"""Number of mantissas that are tried at a time; fewer than one in this number has a solution."""

_ZERO_POINTS = 1 << 12
"""Number of zero points that are tried at a time."""

_ATTEMPTS = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorstTotals:
    """Accumulator values ("totals") and scales whose products are the hardest to round. `totals`: int32 (n,); `scales`:
    float32 (n,), one for each total. All products have the same sign and are at or near a threshold T = n + 1/2 +- half
    a unit in the last place. `zero_point`: a zero point with which all products come into the range of int8.
    """

    scales: NDArray[np.float32]
    totals: NDArray[np.int32]
    zero_point: int


def worst_totals(rng: np.random.Generator, count: int) -> WorstTotals:
    """Accumulator values ("totals") and scales that requantization (stage A) rounds hardest: the `count` hardest pairs
    of a total and a scale (fewer if fewer fit) among those found for _CANDIDATES random scales.
    """
    bits = int(rng.integers(5, 16))  # bits of n
    middle = int(rng.integers(1 << bits - 1, 1 << bits))
    length = int(rng.integers(47, 49))
    places = length - bits
    first = rng.integers(1 << _MANTISSA - 1, 1 << _MANTISSA, _CANDIDATES) | 1
    exact = _solve(first.astype(np.uint64), _near_threshold(rng, length, places), places).astype(np.int64)
    integers = np.clip(middle + rng.integers(-119, 120, _CANDIDATES), 1 << bits - 1, (1 << bits) - 1)
    side = rng.choice((-1, 1), _CANDIDATES) << length - _MANTISSA - 1
    threshold = (2 * integers + 1 << places - 1) + side
    nearest = (threshold + (first >> 1)) // first
    # Exact solutions come before near ones, which are sorted by their distance.
    distance = np.concatenate([np.full(_CANDIDATES, -1), np.abs(first * nearest - threshold)])
    first, second = np.concatenate([first, first]), np.concatenate([exact, nearest])
    product = first * second
    fits = (second >> _MANTISSA - 1 == 1) & (product >> length - 1 == 1)
    fits &= np.abs((product >> places) - middle) < 120
    chosen = np.flatnonzero(fits)
    chosen = chosen[np.argsort(distance[chosen], kind="stable")][:count]
    shift = rng.integers(0, 8, len(chosen))
    totals = np.minimum((second[chosen] << shift) + _lost(rng, second[chosen], shift), 2**31 - 1)
    sign = int(rng.choice((-1, 1)))
    return WorstTotals(
        scales=np.ldexp(first[chosen].astype(np.float32), -places - shift),
        totals=(sign * totals).astype(np.int32),
        zero_point=max(-sign * middle, -(2**15)),
    )


def worst_add(
    rng: np.random.Generator, first: int, second: int, low: int, high: int
) -> tuple[np.float32, np.float32, np.float32]:
    """Constants for which the addition of stage B is hardest to round: returns (ratio_a, ratio_b, offset). The sum is
    first x ratio_a + (second x ratio_b + offset), computed by two fused multiply-adds, of which the inner one is in
    parentheses.

    `first`, `second`: the int8 operands. With the constants, the sum is at or near a threshold n + 1/2 +- half a unit
    in the last place, with n in `low` .. `high`.
    """
    threshold = _threshold(rng, low, high)
    if rng.random() < 0.3:
        # The first product has any size; the inner sum is the rest.
        share = float(np.exp2(rng.uniform(-14, 3)) * rng.choice((-1, 1)))
    else:
        share = 1 + float(rng.choice((-1, 0, 1)) * np.exp2(rng.uniform(-30, -2)))
        share *= float(rng.choice((1, 1, -1)))
    ratio_a = _limited(threshold * share / (first or 1))
    inner = np.float32(threshold - first * float(ratio_a) + _perturbation(rng, -45, -18))
    # The exact inner sum rounds to `inner`, or is between `inner` and a neighbouring float32.
    unit = float(np.spacing(np.abs(inner)))
    sum_ = float(inner) + float(rng.choice((-1, 0, 0, 0, 1))) * unit / 2
    sum_ += unit * _perturbation(rng, -30, -2)
    if rng.random() < 0.4:
        # The product is an odd multiple of half a unit, which the offset compensates exactly.
        odd = (int(rng.integers(0, 8)) * 2 + 1) << int(rng.integers(0, 12))
        ratio_b = _limited(unit / 2 * odd / ((second & -second) or 1))
        return ratio_a, ratio_b, _limited(sum_ - second * float(ratio_b))
    ratio_b = _limited(sum_ * np.exp2(rng.uniform(-24, 6)) * rng.choice((-1, 1)) / (second or 1))
    offset = _limited(sum_ - second * float(ratio_b))
    if rng.random() < 0.3 and second:
        # The ratio follows from the offset: the product is the sum minus the offset.
        ratio_b = _limited((sum_ - float(offset)) / second)
    if rng.random() < 0.5:
        # Corrects the errors of the other roundings, as far as possible.
        lost = float(inner) - float(fused_multiply_add(second, ratio_b, offset))
        offset = _limited(float(offset) + lost)
    return ratio_a, ratio_b, offset


def worst_rescale(rng: np.random.Generator, difference: int) -> tuple[np.float32, int]:
    """Constants for which the operation rescale of stage B is hardest to round: returns (ratio, int16 zero point).
    `difference`: the int8 operand minus its zero point.

    The product of `difference` and the ratio is at or near a threshold, as the module's docstring explains. Adding the
    zero point to the rounded product gives a result near the range of int8.
    """
    ratio = _exact_ratio(rng, difference, 15)
    result = round(difference * float(ratio))
    return ratio, int(np.clip(int(rng.integers(-100, 101)) - result, -(2**15), 2**15 - 1))


def worst_multiply(
    rng: np.random.Generator, difference: int, operand: int, low: int, high: int
) -> tuple[np.float32, int]:
    """Constants for which the multiplication of stage B is hardest to round: returns (ratio, zero point of the int8
    `operand`). `difference`: the other int8 operand minus its own zero point.

    The product difference x (operand - zero point) x ratio is at or near a threshold n + 1/2 +- half a unit in the last
    place, with n in `low` .. `high`. This assumes that no zero point of the result is added before rounding.
    """
    if rng.random() < 0.5:
        # The operand minus its zero point is a number of few bits, so that the ratio can be solved for.
        other = int(rng.choice((1, 3, 5, 7, -1, -3))) << int(rng.integers(0, 9))
        ratio = _exact_ratio(rng, difference * other, max(1, high.bit_length() - 1))
        return ratio, min(max(operand - other, -(2**15)), 2**15 - 1)
    zero_points = rng.integers(-(2**15), 2**15, _ZERO_POINTS)
    threshold = _threshold(rng, low, high)
    products = (difference * (operand - zero_points)).astype(np.float32).astype(np.float64)
    products = np.where(products == 0, 1.0, products)
    ratios = (threshold / products).astype(np.float32)
    best = int(np.argmin(np.abs(products * ratios - threshold)))
    return _limited(float(ratios[best])), int(zero_points[best])


def _exact_ratio(rng: np.random.Generator, difference: int, most_bits: int) -> np.float32:
    """A ratio whose product with the integer `difference` is hardest to round: at or near a threshold T = n + 1/2 +-
    half a unit in the last place, with n of up to `most_bits` bits. An arbitrary ratio if none was found.
    """
    size = abs(difference) or 1
    odd = size // (size & -size)
    mantissa, places = 1 << _MANTISSA - 1, _MANTISSA
    for _ in range(_ATTEMPTS):
        length = odd.bit_length() + _MANTISSA - int(rng.integers(0, 2))
        least_bits = min(most_bits, max(1, length - _MANTISSA))
        places = length - int(rng.integers(least_bits, most_bits + 1))
        target = _near_threshold(rng, length, places)
        mantissa = int(_solve(np.array([odd], np.uint64), target, places)[0])
        if places < _MANTISSA:
            mantissa += int(rng.integers(0, 1 << _MANTISSA - places)) << places
        if mantissa.bit_length() == _MANTISSA and (odd * mantissa).bit_length() == length:
            break
    mantissa = (1 << _MANTISSA - 1) + mantissa % (1 << _MANTISSA - 1)
    ratio = np.ldexp(float(mantissa), -places) * (odd / size)
    return _limited(float(ratio * rng.choice((-1, 1))))


def _lost(
    rng: np.random.Generator, mantissas: NDArray[np.int64], shift: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Random remainders, int64 (n,), that are lost when a number is rounded to float32. For each element, (mantissa <<
    shift) + remainder rounds to mantissa << shift; the remainder may be the tie. The arguments are int64 (n,), too.
    """
    half = (1 << shift) // 2
    tie = np.where(mantissas % 2 == 0, half, half - 1)
    rest = rng.integers(-half, half + 1)
    return np.clip(rest, np.minimum(-tie, 0), np.maximum(tie, 0))


def _near_threshold(rng: np.random.Generator, length: int, places: int) -> int:
    """Random low bits for a product of `length` bits, such that the rounding of the product is a hard case. Returns a
    number of `places` bits: the fraction of the product, after the binary point.

    With this fraction, the product equals a threshold, or differs from it in few bits. Near a threshold, rounding to
    float32 may give exactly n + 1/2, which is a tie for the rounding to an integer that follows.
    """
    half_unit = 1 << length - _MANTISSA - 1 if length > _MANTISSA else 0
    target = (1 << places - 1) + half_unit * int(rng.choice((-1, -1, 0, 1, 1)))
    if half_unit > 1 and rng.random() < 0.7:
        target += int(rng.choice((-1, 1))) << int(rng.integers(0, half_unit.bit_length() - 1))
    return target % (1 << places)


def _solve(factor: NDArray[np.uint64], product: int, places: int) -> NDArray[np.uint64]:
    """For each odd number `f` in `factor`, the number below 2^`places` whose product with `f` equals `product` modulo
    2^`places`.
    """
    # Newton's iteration for the inverse: 5 correct bits, then twice as many after each step.
    inverse = (factor * np.uint64(3)) ^ np.uint64(2)
    for _ in range(4):
        inverse *= np.uint64(2) - factor * inverse
    return (inverse * np.uint64(product)) & np.uint64((1 << places) - 1)


def _threshold(rng: np.random.Generator, low: int, high: int) -> float:
    """The threshold T = n + 1/2 +- half a unit in the last place, for a random n in `low` .. `high`."""
    tie = int(rng.integers(low, high + 1)) + 0.5
    return tie + float(np.spacing(np.float32(abs(tie)))) / 2 * int(rng.choice((-1, 1)))


def _perturbation(rng: np.random.Generator, lowest: float, highest: float) -> float:
    """A random small number: zero in four of six calls, else a power of two of either sign whose exponent is in
    `lowest` .. `highest`.
    """
    return float(rng.choice((0, 0, 0, 0, -1, 1)) * np.exp2(np.round(rng.uniform(lowest, highest))))


def _limited(value: float) -> np.float32:
    return np.float32(np.clip(value, -LARGEST_CONSTANT, LARGEST_CONSTANT))

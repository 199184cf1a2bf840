"""Operands computed so that a result is as close as possible to a point where rounding changes."""

from fractions import Fraction

import numpy as np
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.isa.arithmetic import CONSTANT_BITS, fused_multiply_add, requantize
from vdla.verify.worst_roundings import worst_add, worst_multiply, worst_rescale, worst_totals

INT8 = st.integers(-128, 127)
SEEDS = st.integers(0, 2**32 - 1)


def distance(value: Fraction) -> float:
    """Distance of |value| from the nearest point at which rounding changes, in units of the float32 spacing at n + 1/2,
    where n is the integer part of |value|. There are three such points: n + 1/2, and the two points half a unit below
    and above it.
    """
    tie = Fraction(int(abs(value))) + Fraction(1, 2)
    unit = Fraction(float(np.spacing(np.float32(tie))))
    off = abs(abs(value) - tie) / unit
    return float(min(off, abs(off - Fraction(1, 2))))


def product(number: int, ratio: np.float32) -> Fraction:
    return number * Fraction(float(ratio))


@settings(max_examples=examples(20), deadline=None)
@given(SEEDS)
def test_totals_are_as_many_as_wanted_and_most_near(seed: int):
    found = worst_totals(np.random.default_rng(seed), 16)
    assert len(found.totals) == len(found.scales) == 16
    pairs = zip(found.totals.tolist(), found.scales, strict=True)
    distances = [distance(product(int(np.float32(total)), scale)) for total, scale in pairs]
    assert max(distances) <= 2.0**-2  # those solved for lie beyond T by any power of two
    assert sum(item < 2.0**-6 for item in distances) >= 8
    results = requantize(found.totals, found.scales, found.zero_point)
    assert (np.abs(results.astype(int)) < 125).all()
    assert -(2**15) <= found.zero_point < 2**15


@settings(max_examples=examples(200), deadline=None)
@given(SEEDS, INT8, INT8, st.booleans())
def test_constants_are_what_the_machine_takes(seed: int, first: int, second: int, unsigned: bool):
    rng, shift = np.random.default_rng(seed), 128 * unsigned
    constants = worst_add(rng, first + shift, second + shift, shift - 128, shift + 127)
    ratio, zero_point = worst_rescale(rng, first - second)
    other, operand_zero_point = worst_multiply(rng, first, second, -128, 127)
    for value in (*constants, ratio, other):
        assert isinstance(value, np.float32) and abs(value) <= 2.0**CONSTANT_BITS
    assert all(-(2**15) <= value < 2**15 for value in (zero_point, operand_zero_point))


def test_many_sums_lie_exactly_where_rounding_changes():
    rng = np.random.default_rng(1)
    found = []
    for _ in range(1000):
        first, second = (int(number) for number in rng.integers(-128, 128, 2))
        ratio_a, ratio_b, offset = worst_add(rng, first, second, -128, 127)
        inner = fused_multiply_add(second, ratio_b, offset)
        found.append(distance(product(first, ratio_a) + Fraction(float(inner))))
    assert (np.array(found) == 0).mean() > 0.2
    assert (np.array(found) < 2.0**-12).mean() > 0.35


def test_many_rescales_lie_exactly_there_and_end_near_int8():
    rng = np.random.default_rng(2)
    found = []
    for difference in rng.integers(-(2**15) - 128, 2**15 + 128, 1000).tolist():
        ratio, zero_point = worst_rescale(rng, difference)
        found.append(distance(product(difference, ratio)))
        assert abs(round(difference * float(ratio)) + zero_point) < 130
    assert (np.array(found) == 0).mean() > 0.2


def test_products_come_near():
    rng = np.random.default_rng(3)
    found = []
    for _ in range(500):
        difference, operand = int(rng.integers(-255, 256)), int(rng.integers(-128, 128))
        ratio, zero_point = worst_multiply(rng, difference, operand, -128, 127)
        rounded = int(np.float32(difference * (operand - zero_point)))
        found.append(distance(product(rounded, ratio)))
    assert (np.array(found) < 2.0**-10).mean() > 0.4

"""The simulator's compiled arithmetic equals its definitions in `isa`."""

import numpy as np
import pytest
from numba import njit

from vdla.isa import arithmetic
from vdla.isa.noise import NOISE_READ, NOISE_STALL, NOISE_WRITE, NOISE_WRITE_STALL, memory_noise
from vdla.sim import kernels
from vdla.sim.memory import noise

RNG = np.random.default_rng(3)
COUNT = 20_000


@njit
def _requantize(totals, scale, zero_point, low, high):
    return [kernels.requantize(total, scale, zero_point, low, high) for total in totals]


@njit
def _add(a, b, ratio_a, ratio_b, offset, unsigned, low, high):
    return [kernels.combine_add(x, y, ratio_a, ratio_b, offset, unsigned, low, high) for x, y in zip(a, b)]  # noqa: B905


@njit
def _multiply(a, b, zero_a, zero_b, ratio, zero_point, unsigned, low, high):
    return [
        kernels.combine_multiply(x, y, (zero_a, zero_b), ratio, zero_point, unsigned, low, high)
        for x, y in zip(a, b)  # noqa: B905
    ]


@pytest.mark.parametrize("scale", [2.0**-8, 3.1e-4, 1.7, 1e-12])
def test_requantize(scale: float):
    totals = RNG.integers(-(2**31), 2**31, COUNT).astype(np.int32)
    totals[: COUNT // 2] >>= 16  # small sums, where ties and rounding decide
    got = _requantize(totals, np.float32(scale), 5, -100, 120)
    np.testing.assert_array_equal(got, arithmetic.requantize(totals, np.float32(scale), 5, -100, 120))


@pytest.mark.parametrize("unsigned", [False, True])
def test_combinations(unsigned: bool):
    a = RNG.integers(-128, 128, COUNT).astype(np.int64)
    b = RNG.integers(-128, 128, COUNT).astype(np.int64)
    first, second = a.astype(np.int8), b.astype(np.int8)
    for ratio_a, ratio_b, zero in ((0.5, 0.25, 3), (0.731, 1.113, -7), (1.0, 1.0, 0)):
        constants = arithmetic.add_constants(ratio_a, 4, ratio_b, -2, 1.0, zero, unsigned)
        got = _add(a, b, constants.ratio_a, constants.ratio_b, constants.offset, unsigned, -128, 127)
        np.testing.assert_array_equal(got, arithmetic.combine_add(first, second, constants))
        got = _multiply(a, b, 4, -2, np.float32(ratio_a / 64), zero, unsigned, -128, 100)
        want = arithmetic.combine_multiply(
            first, second, (4, -2), np.float32(ratio_a / 64), zero, unsigned, -128, 100
        )
        np.testing.assert_array_equal(got, want)


def test_memory_noise():
    for seed in (0, 1, 2**32 - 1):
        for stream in (NOISE_READ, NOISE_STALL, NOISE_WRITE, NOISE_WRITE_STALL):
            for limit in (0, 1, 7, 10_000):
                assert [noise(seed, i, stream, limit) for i in range(200)] == [
                    memory_noise(seed, i, stream, limit) for i in range(200)
                ]

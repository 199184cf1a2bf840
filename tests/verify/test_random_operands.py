"""Random operands that bring values in the store pipeline close to rounding ties."""

import numpy as np
import pytest

from vdla.isa.arithmetic import CONSTANT_BITS, requantize, rescale
from vdla.isa.errors import ProgramError
from vdla.verify.random_operands import (
    combine_constants,
    far_rescale,
    log_uniform_int32,
    near_tie_totals,
    random_scales,
)


def test_totals_lie_near_ties():
    rng = np.random.default_rng(1)
    scales = np.exp2(rng.uniform(-24, -8, 64)).astype(np.float32)
    biases = log_uniform_int32(rng, 64)
    totals = near_tie_totals(rng, scales, biases, 8, zero_point=1000)
    products = (totals + biases[None]).astype(np.int32).astype(np.float64) * scales + 1000
    assert (np.abs(products - np.floor(products) - 0.5) < 0.02).mean() > 0.6
    assert len(np.unique(requantize((totals + biases).astype(np.int32), scales, 1000))) > 100


def test_biases_must_match_scales():
    with pytest.raises(ProgramError, match="biases of the same shape"):
        near_tie_totals(np.random.default_rng(0), np.ones(4, np.float32), np.zeros(3, np.int32), 2)


def test_every_number_of_bits_appears():
    values = log_uniform_int32(np.random.default_rng(2), 2000)
    assert {int(abs(int(value))).bit_length() for value in values} >= set(range(31))
    assert (values < 0).any() and (values > 0).any()


def test_scales_and_constants_are_what_the_machine_takes():
    rng = np.random.default_rng(3)
    scales = random_scales(rng, 4000)
    assert np.isfinite(scales).all() and (scales == 0).any() and (scales < 0).any()
    assert (np.abs(scales[scales != 0]) < 2.0**-126).any()
    constants = np.array([combine_constants(rng) for _ in range(4000)])
    assert (np.abs(constants) <= 2.0**CONSTANT_BITS).all()
    assert (np.abs(constants) == 2.0**CONSTANT_BITS).any()
    assert np.isfinite(constants).all()


def test_far_rescales_round_numbers_of_every_size_and_end_within_int8():
    rng = np.random.default_rng(4)
    within, sizes = 0, set()
    for zero_point_in in np.linspace(-(2**15), 2**15 - 1, 400).astype(int).tolist():
        ratio, zero_point = far_rescale(rng, zero_point_in)
        values = np.arange(-128, 128).astype(np.int8)
        results = rescale(values, zero_point_in, ratio, zero_point)
        within += (results > -128).any() and (results < 127).any()
        sizes.add(abs(zero_point).bit_length())
    assert within > 200
    assert sizes >= set(range(8, 16))

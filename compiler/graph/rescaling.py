"""The ratio of a rescaling that equals DequantizeLinear followed by QuantizeLinear, value by value.

An int8 operand has 256 values, so equality is tested on all of them.
"""

from __future__ import annotations

import numpy as np

from vdla.isa.arithmetic import rescale, rescale_ratio
from vdla.isa.scales import dequantize, quantize

from .int8_convolution import Quantization

STORED = np.arange(-128, 128, dtype=np.int16).astype(np.int8)
# The ratio that equals a multiplication by one scale and a division by the other is within two steps of their
# quotient; eight steps leave a margin.
STEPS = 8


def fitted_ratio(source: Quantization, result: Quantization) -> np.float32:
    """The float32 ratio with which `rescale` equals DequantizeLinear, then QuantizeLinear, for the most of 256 values.

    Candidates are the quotient of the scales and its neighbours, nearest first. The first candidate with the fewest
    differences is chosen; the search ends at one without any.
    """
    real = dequantize(STORED, source.scale, source.stored_zero_point)
    expected = quantize(real, result.scale, result.stored_zero_point)
    quotient = rescale_ratio(source.scale, result.scale)
    best, fewest = quotient, len(STORED) + 1
    for candidate in _neighbours(quotient):
        got = rescale(STORED, source.stored_zero_point, candidate, result.stored_zero_point)
        differences = int(np.count_nonzero(got != expected))
        if differences < fewest:
            best, fewest = candidate, differences
        if fewest == 0:
            break
    return best


def _neighbours(value: np.float32) -> list[np.float32]:
    below, above = [value], [value]
    for _ in range(STEPS):
        below.append(np.nextafter(below[-1], np.float32(0)))
        above.append(np.nextafter(above[-1], np.float32(np.inf)))
    return [value, *(near for pair in zip(above[1:], below[1:], strict=True) for near in pair)]

"""Rescales a quantized tensor to another scale and zero point by an integer multiplication. The factor is chosen so
that the integers equal the results of a DequantizeLinear followed by a QuantizeLinear.

An int8 operand has 256 values, so equality is tested on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vdla.isa import arithmetic
from vdla.isa.arithmetic import rescale_ratio
from vdla.isa.scales import dequantize, quantize

from ...graph.int8_convolution import Quantization
from ...te.combination import Combination
from .emit import Rounding
from .integer_context import ImportContext
from .values import Real

STORED = np.arange(-128, 128, dtype=np.int16).astype(np.int8)
"""All stored values."""
# The ratio that equals a multiplication by one scale and a division by the other is within two steps of their
# quotient; eight steps leave a margin.
STEPS = 8


def fitted_ratio(source: Quantization, result: Quantization) -> np.float32:
    """The float32 ratio for `rescale`. For as many of the 256 stored values as possible, `rescale` then gives the same
    result as DequantizeLinear followed by QuantizeLinear.

    Candidates are the quotient of the scales and its neighbouring float32 numbers, nearest first. The first candidate
    with the fewest differences is chosen; the search ends at a candidate without differences.
    """
    real = dequantize(STORED, source.scale, source.stored_zero_point)
    expected = quantize(real, result.scale, result.stored_zero_point)
    # Any larger ratio gives the same integers: all values but the zero point saturate.
    quotient = min(rescale_ratio(source.scale, result.scale), np.float32(arithmetic.LARGEST_CONSTANT))
    best, fewest = quotient, len(STORED) + 1
    for candidate in _neighbours(quotient):
        got = arithmetic.rescale(STORED, source.stored_zero_point, candidate, result.stored_zero_point)
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


def rescale_all(context: ImportContext, parts: Sequence[Real], to: Rounding) -> tuple[str, ...]:
    """Rescales each of `parts` to the quantization of `to` and clamps it, as `rescale` does. Returns the names of the
    resulting tensors: the name of the output with a number appended, or the part's own name if its integers stay the
    same."""
    return tuple(
        [rescale(context, part, replace(to, output=f"{to.output}.{i}")) for i, part in enumerate(parts)]
    )


def rescale(context: ImportContext, data: Real, to: Rounding) -> str:
    """Rescales `data` to the quantization of `to` and clamps it; returns the name of the resulting tensor. If this
    changes no integer, no node is added, and the name of the tensor of `data` is returned.
    """
    source = data.quantization
    if same_integers(source, to.grid):
        if (to.low, to.high) == (-128, 127):
            return data.tensor
        ratio = np.float32(1)
    else:
        ratio = fitted_ratio(source, to.grid)
    combination = Combination(
        kind="rescale",
        ratio_self=float(ratio),
        zero_point_self=source.stored_zero_point,
        zero_point=to.grid.stored_zero_point,
        low=to.low,
        high=to.high,
    )
    return to.append_elementwise(context, (data.tensor,), combination)


def same_integers(a: Quantization, b: Quantization) -> bool:
    """Whether the same stored integers represent the same numbers in both quantizations."""
    return a.scale == b.scale and a.stored_zero_point == b.stored_zero_point

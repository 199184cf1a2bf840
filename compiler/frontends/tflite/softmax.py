"""Converts SOFTMAX of int16 to the integer arithmetic of TFLite's kernel (`SoftmaxInt16` in reference/softmax.h). The
kernel has tables of 513 exponentials and 513 reciprocals, and interpolates linearly between their entries. An exact
softmax differs from the kernel's results by up to 30 of 32,768 steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .formulas import Term
from .step import Step

VALUES = 513
"""Number of entries in one of TFLite's tables."""
ONE = 2**15
"""The integer that represents 1 in tables, powers and results."""
LEAST = -10.0
"""Smallest argument of TFLite's table of exponentials. The arguments LEAST .. 0 are represented by the integers -65,535
.. 0.
"""
INTEGERS = 2**16
"""Number of different int16 values."""


def soften_integers(step: Step, scale: float) -> None:
    """Converts the SOFTMAX of an int16 tensor along its last axis. `scale`: the tensor's scale times beta."""
    axis = step.axis(step.inputs[0], -1)

    def looked_up(table: np.ndarray, index: Term) -> Term:
        entries = Term(step, step.constant(table, "table", np.int16), np.int16)
        return entries.apply("Gather", index.apply("Min", len(table) - 1)).to(np.int64)

    stored = Term(step, step.operand(0, stored=True)).to(np.int64)
    powers = looked_up(_powers(scale), stored.apply("ReduceMax", [axis], keepdims=1) - stored)
    total = powers.apply("ReduceSum", [axis], keepdims=1)
    # The largest power of two up to the total, which the kernel finds by counting leading zeros.
    bits = [2**bit for bit in range(((ONE - 1) * step.shape(step.inputs[0])[-1]).bit_length())]
    reached = total.apply("Unsqueeze", -1).apply("GreaterOrEqual", bits).to(np.int64)
    unit = (reached * bits).apply("ReduceMax", [-1], keepdims=0)
    mantissa = (total * (2 * INTEGERS) // unit + 1) // 2
    inverse = looked_up(_inverses(), mantissa - INTEGERS)
    quotient = (powers * inverse + unit // 2) // unit
    step.put(step.cast(quotient.apply("Min", ONE - 1).name), stored=True)


def _powers(scale: float) -> np.ndarray:
    """The table exp(-i * scale) for i = 0, 1, 2, ..., in units of 1 / ONE, as TFLite's kernel computes it. The table
    ends where all further entries would equal its last one.
    """
    fraction, shift = np.frexp(scale / (-LEAST / (INTEGERS - 1)))
    factor, left, right = int(np.floor(fraction * 2**31 + 0.5)), max(int(shift), 0), max(-int(shift), 0)
    # The kernel rounds twice: a product with 31 bits of the factor, then its shift to the right.
    sizes = ((np.arange(INTEGERS) << left) * factor + 2**30 - 1) >> 31
    sizes = (sizes + (1 << right >> 1)) >> right
    values = _between(_table(np.exp, LEAST, 0.0), np.maximum(ONE - 1 - sizes, -ONE))
    return values[: 1 + int(np.argmax(values == values[-1]))]


def _inverses() -> np.ndarray:
    """The table 1 / (1 + x) for x = 0, 1/65536, 2/65536, ... below 1, in units of 1 / ONE, as TFLite computes it."""
    return _between(_table(lambda x: 1 / (1 + x), 0.0, 1.0), np.arange(-ONE, ONE))


def _table(function: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> np.ndarray:
    """TFLite's table of `function`: its values at VALUES equally spaced arguments from `low` to `high`, in units of 1 /
    ONE.

    The kernel interpolates linearly between the entries. To reduce the error, each entry but the last is shifted by
    half of the interpolation error in the middle between this entry and the next.
    """
    width = (high - low) / (VALUES - 1)
    places = low + width * np.arange(VALUES - 1)
    values, after = (function(at) * ONE for at in (places, places + width))
    middle = _rounded(function(places + width / 2) * ONE)
    moved = _rounded(values) - _rounded((_rounded((after + _rounded(values)) / 2) - middle) / 2)
    last = _rounded(function(np.array([high])) * ONE)
    return np.clip(np.concatenate([moved, last]), -ONE, ONE - 1).astype(np.int64)


def _between(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Interpolates the `table` linearly at int16 `places`. Place -32,768 is the first entry; neighbouring entries are
    128 places apart.
    """
    index, share = (places >> 7) + INTEGERS // 256, places & 127
    return table[index] + (((table[index + 1] - table[index]) * share + 64) >> 7)


def _rounded(values: np.ndarray) -> np.ndarray:
    """Values rounded to integers, halves away from zero."""
    return np.trunc(values + np.copysign(0.5, values))

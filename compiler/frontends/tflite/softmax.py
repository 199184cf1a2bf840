"""SOFTMAX of int16 by the integers of TFLite's kernel (`SoftmaxInt16` in reference/softmax.h), whose exponentials and
reciprocals are lines between 513 values each; an exact softmax is up to 30 steps of 32,768 away.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .step import Step

VALUES = 513
"""Values of a function in a table of TFLite."""
ONE = 2**15
"""The integer that stands for 1."""
LEAST = -10.0
"""Least logarithm of TFLite's table of exponentials; it stands for 65,535 integers below 0."""
INTEGERS = 2**16
"""Numbers of int16."""


def soften_integers(step: Step, beta: float) -> None:
    """Writes the SOFTMAX of an int16 activation along its last axis."""
    data, writer = step.inputs[0], step.writer
    grid = step.tensor(data).grid
    assert grid is not None
    planes = writer.prefer_planes((data,))
    axis = step.axis(data, -1, planes)

    def node(kind: str, inputs: list[str], *numbers: int | list[int], **attributes: object) -> str:
        return step.node(
            kind, [*inputs, *(step.constant(n, "number", np.int64) for n in numbers)], kind, **attributes
        )

    def looked_up(table: np.ndarray, index: str) -> str:
        last = len(table) - 1
        found = step.node(
            "Gather", [step.constant(table, "table", np.int16), node("Min", [index], last)], "found"
        )
        return step.node("Cast", [found], "found", to=7)

    stored = step.node("Cast", [writer.integral(data, planes=planes)], "wide", to=7)
    below = node("Sub", [node("ReduceMax", [stored], [axis], keepdims=1), stored])
    powers = looked_up(_powers(float(grid.scale[0]) * beta), below)
    total = node("ReduceSum", [powers], [axis], keepdims=1)
    # The largest power of two up to the total, which the kernel finds by counting leading zeros.
    bits = [2**bit for bit in range(((ONE - 1) * step.shape(data)[-1]).bit_length())]
    reached = step.node(
        "Cast", [node("GreaterOrEqual", [node("Unsqueeze", [total], -1)], bits)], "reached", to=7
    )
    unit = node("ReduceMax", [node("Mul", [reached], bits)], [-1], keepdims=0)
    widened = node(
        "Mul", [total, step.node("Div", [step.constant(2**30, "number", np.int64), unit], "factor")]
    )
    mantissa = node("Div", [node("Add", [widened], 2**13)], 2**14)
    inverse = looked_up(_inverses(), node("Sub", [mantissa], INTEGERS))
    product, half = step.node("Mul", [powers, inverse], "product"), node("Div", [unit], 2)
    quotient = step.node("Div", [step.node("Add", [product, half], "product"), unit], "quotient")
    writer.put_integers(step.output, step.cast(node("Min", [quotient], ONE - 1), "narrow"), planes=planes)


def _powers(scale: float) -> np.ndarray:
    """The exponentials of 0, -1, -2, ... steps of this scale, up to the last that differs from all later ones."""
    fraction, shift = np.frexp(scale / (-LEAST / (INTEGERS - 1)))
    factor, left, right = int(np.floor(fraction * 2**31 + 0.5)), max(int(shift), 0), max(-int(shift), 0)
    # The kernel rounds twice: a product with 31 bits of the factor, then its shift to the right.
    sizes = ((np.arange(INTEGERS) << left) * factor + 2**30 - 1) >> 31
    sizes = (sizes + (1 << right >> 1)) >> right
    values = _between(_table(np.exp, LEAST, 0.0), np.maximum(ONE - 1 - sizes, -ONE))
    return values[: 1 + int(np.argmax(values == values[-1]))]


def _inverses() -> np.ndarray:
    """1 / (1 + x) of all x from 0 to 1 in steps of 1/65536."""
    return _between(_table(lambda x: 1 / (1 + x), 0.0, 1.0), np.arange(-ONE, ONE))


def _table(function: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> np.ndarray:
    """TFLite's table of `function`: int64 [VALUES], in units of 1 / ONE, at equal distances from `low` to `high`.

    TFLite interpolates between the entries by straight lines. Each entry but the last is moved by half of the line's
    error in the middle between this entry and the next.
    """
    width = (high - low) / (VALUES - 1)
    places = low + width * np.arange(VALUES - 1)
    values, after = (function(at) * ONE for at in (places, places + width))
    middle = _rounded(function(places + width / 2) * ONE)
    moved = _rounded(values) - _rounded((_rounded((after + _rounded(values)) / 2) - middle) / 2)
    last = _rounded(function(np.array([high])) * ONE)
    return np.clip(np.concatenate([moved, last]), -ONE, ONE - 1).astype(np.int64)


def _between(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Values of a table at int16 places, by lines between its values."""
    index, share = (places >> 7) + INTEGERS // 256, places & 127
    return table[index] + (((table[index + 1] - table[index]) * share + 64) >> 7)


def _rounded(values: np.ndarray) -> np.ndarray:
    """Values rounded to integers, halves away from zero."""
    return np.trunc(values + np.copysign(0.5, values))

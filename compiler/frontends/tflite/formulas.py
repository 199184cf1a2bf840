"""Formulas for the conversion of a TFLite operator: a Python operator between two terms adds the ONNX nodes that
compute it.

Many of LiteRT's kernels compute with integers and round several times. Formulas reproduce this arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import helper

from .model import Grid
from .step import Step

OFFSET = 2**62
"""A number that is added to an int64 number of smaller magnitude before a division. The sum is positive, and ONNX
rounds the division of positive integers down; the division of negative integers is rounded towards zero.
"""


@dataclass(frozen=True, slots=True)
class Term:
    """The ONNX value `name` as a part of a formula; its elements have the numpy type `dtype`, and `step` is the
    operator's conversion. The other operand of a Python operator is a term, an array or a number; arrays and numbers
    become constants of type `dtype`.
    """

    step: Step
    name: str
    dtype: Any = np.int64

    def apply(self, op_type: str, *others: Any, **attributes: Any) -> Term:
        """Adds an ONNX node `op_type` whose operands are the term and `others`; returns its result, a term of the same
        type.
        """
        names = [
            other.name if isinstance(other, Term) else self.step.constant(other, "number", self.dtype)
            for other in others
        ]
        return Term(self.step, self.step.node(op_type, [self.name, *names], "step", **attributes), self.dtype)

    def to(self, dtype: Any) -> Term:
        """Adds a conversion of the elements to the numpy type `dtype`; returns its result."""
        cast = self.apply("Cast", to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        return Term(self.step, cast.name, dtype)

    def rounded(self) -> Term:
        """Rounds floats to integers, halves up."""
        return (self + 0.5).apply("Floor")

    def halved(self, times: Any) -> Term:
        """Divides integers, or floats with integer values, by 2 to the power of `times`. The quotients are rounded to
        integers, halves away from zero.
        """
        size = (self.apply("Abs") + (1 << times >> 1)) // (1 << times)
        return self.apply("Sign") * (size if self.dtype == np.int64 else size.apply("Floor"))

    def multiplied(self, multiplier: float) -> Term:
        """Multiplies integers, or floats with integer values, by `multiplier` as TFLite does
        (`MultiplyByQuantizedMultiplier` in kernels/internal/common.h). If the multiplier is below 1/2, the product is
        rounded to an integer twice.
        """
        factor, shift = fixed(multiplier, 31)
        if self.dtype == np.int64:
            product = (self * (factor << max(shift, 0)) + 2**30) >> 31
        else:
            product = (self * (factor * 2.0 ** (max(shift, 0) - 31))).rounded()
        return product if shift >= 0 else product.halved(-shift)

    def put(self) -> None:
        """Writes the term as the integers of the operator's output. Adds the output's zero point, rounds floats half to
        even, and clamps to the range of the output's integer type.
        """
        step, tensor = self.step, self.step.tensor(self.step.output)
        assert tensor.grid is not None
        if self.dtype == np.int64:
            limits = np.iinfo(tensor.dtype)
            whole = (self + tensor.grid.zero[0]).apply("Clip", limits.min, limits.max)
            step.put(step.cast(whole.name), stored=True)
        else:
            grid = replace(tensor.grid, scale=np.ones(1, np.float32))
            name = step.writer.scaled("QuantizeLinear", self.name, grid, tensor.name, tensor.dtype)
            step.put(name, stored=True)

    def __add__(self, other: Any) -> Term:
        return self.apply("Add", other)

    def __sub__(self, other: Any) -> Term:
        return self.apply("Sub", other)

    def __mul__(self, other: Any) -> Term:
        return self.apply("Mul", other)

    def __floordiv__(self, other: Any) -> Term:
        return self.apply("Div", other)

    def __rshift__(self, bits: np.ndarray | int) -> Term:
        return (self + OFFSET) // (np.int64(1) << bits) - (np.int64(OFFSET) >> bits)


def grids(step: Step) -> tuple[Grid, Grid] | None:
    """The quantizations of the operator's first input and of its output; None unless both tensors are quantized with a
    single scale.
    """
    source, result = (step.tensor(index).grid for index in (step.inputs[0], step.output))
    return (source, result) if source and result and source.one and result.one else None


def centred(step: Step, place: int = 0, *, whole: bool = False) -> Term:
    """The integers of the operator's input at `place`, a quantized tensor, minus its zero point. The result is floats,
    because the accelerator makes tables of functions of floats. It is int64 if `whole` is set or if the tensor has
    int16.
    """
    source = step.tensor(step.inputs[place])
    assert source.grid is not None
    integers = step.operand(place, stored=True)
    if whole or source.dtype.itemsize > 1:
        return Term(step, integers).to(np.int64) - source.grid.zero[0]
    grid = replace(source.grid, scale=np.ones(1, np.float32))
    name = step.writer.scaled("DequantizeLinear", integers, grid, f"{step.name}/centred", source.dtype)
    return Term(step, name, np.float32)


def aligned(step: Step, bits: int, unit: float = 0.0) -> tuple[list[Term], float]:
    """The operator's two inputs in a common unit, as LiteRT rounds them. Each element is an integer minus the zero
    point, times 2 to the power of `bits`, times the tensor's scale / `unit`. `unit` is by default twice the larger
    scale. Returns both terms (int64) and the unit. Unless both inputs have 8 bits and a single scale, returns an empty
    list and `unit` unchanged.
    """
    tensors = [step.tensor(index) for index in step.inputs]
    scales = [float(t.grid.scale[0]) for t in tensors if t.grid and t.grid.one and t.dtype.itemsize == 1]
    if len(scales) < 2:
        return [], unit
    unit = unit or 2 * max(scales)
    shifted = [centred(step, place, whole=True) * (1 << bits) for place in (0, 1)]
    return [x.multiplied(scale / unit) for x, scale in zip(shifted, scales, strict=True)], unit


def fixed(multiplier: float, bits: int = 15) -> tuple[int, int]:
    """`multiplier` as TFLite's fixed-point number with 31 or 15 `bits`. Returns (factor, shift) such that factor /
    2**bits * 2**shift is nearest to the multiplier. TFLite rounds to 31 bits first.
    """
    fraction, shift = math.frexp(multiplier)
    factor = math.floor(fraction * 2**31 + 0.5)
    if factor == 2**31:
        factor, shift = factor // 2, shift + 1
    return (factor if bits == 31 else min((factor + 2**15) >> 16, 2**15 - 1)), shift

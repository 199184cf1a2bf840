"""Converts products of int16 activations to exact integer sums, and rounds the sums as TFLite's kernels do.

ONNX multiplies integers of 8 bits only. An int16 number is 256 * (high - 128) + low, where `high` and `low` are bytes,
so a product of int16 numbers is a sum of products of bytes. Float32 arithmetic is not used: near a half step it would
round some sums in the wrong direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from .formulas import Term, fixed
from .step import Step

BYTE = 256
"""Place value of the high byte of an int16 number."""


@dataclass(frozen=True, slots=True)
class ShortProduct:
    """The product of an int16 activation and int8 weights or, in BATCH_MATMUL, of two int16 tensors, plus a bias.
    `data`, `filters`, `bias`: places of the three tensors among the operator's inputs (`bias`: None if there is none).
    """

    step: Step
    data: int
    filters: int
    bias: int | None

    def put(
        self, op_type: str, first: Term, second: Term | np.ndarray, column: Sequence[int], **attributes: Any
    ) -> None:
        """Multiplies the int16 values `first` by `second`, which are constant int8 weights or int16 values, and writes
        the product as the operator's output. `op_type`: ConvInteger, or MatMulInteger, whose result is reshaped to the
        output's shape; `attributes`: the attributes of its nodes. `column`: the shape in which an array with one number
        for each output channel broadcasts to the products.
        """
        step = self.step
        if isinstance(second, Term):
            factors = self._bytes(second)
        else:
            # uint8, since some processors have exact products only of two factors of the same type.
            weights = step.constant(second.astype(np.int16) + 128, "weights", np.uint8)
            factors = [(Term(step, weights, np.uint8), 128, 1)]
        terms = [
            a.apply(op_type, b, zero, other, **attributes).to(np.int64) * (unit * times)
            for (a, zero, unit), (b, other, times) in product(self._bytes(first), factors)
        ]
        result = self._rounded(sum(terms[1:], terms[0]), column).name
        if op_type == "MatMulInteger":
            result = step.writer.reshaped(result, step.shape(step.output), f"{step.name}/view")
        step.put(result, stored=True)

    def _bytes(self, values: Term) -> list[tuple[Term, int, int]]:
        """Splits int16 values into their high bytes and their low bytes. For both, the result has a tuple (uint8 term,
        zero point, place value).
        """
        positive = values.to(np.int64) + 2**15
        high = positive // BYTE
        return [(high.to(np.uint8), 128, BYTE), ((positive - high * BYTE).to(np.uint8), 0, 1)]

    def _rounded(self, sums: Term, column: Sequence[int]) -> Term:
        """Adds the bias to the int64 value `sums`, multiplies the result by the quotient of the scales, rounds it,
        clamps it to int16 and to the fused activation's limits, and returns the integers. `column`: as in `put`.

        LiteRT's kernels with sums of 64 bits have multipliers of 15 bits (in FULLY_CONNECTED 31 bits), and round once.
        Kernels with sums of 32 bits have multipliers of 31 bits, and round twice. Halves are rounded up; only the
        second rounding of TRANSPOSE_CONV rounds them away from zero.
        """
        step, kind, grid = self.step, self.step.operator.kind, self.step.tensor(self.step.output).grid
        narrow = kind == "FULLY_CONNECTED"
        if self.bias is not None:
            bias = step.numbers(self.bias, "bias")
            sums, narrow = sums + bias.reshape(column), bias.dtype == np.int32
        bits = 31 if narrow or kind == "FULLY_CONNECTED" else 15
        pairs = [fixed(ratio, bits) for ratio in ratios(step, self.data, self.filters, narrow=narrow)]
        numbers = np.array(pairs, np.int64).T
        factors, shifts = (part.reshape(column if part.size > 1 else ()) for part in numbers)
        if narrow:
            value = (sums * (factors << np.maximum(shifts, 0)) + 2**30) >> 31
            right = np.maximum(-shifts, 0)
            away = kind == "TRANSPOSE_CONV"
            value = value.halved(right) if away else (value + (1 << right >> 1)) >> right
        elif bits == 31:
            # A sum times 31 bits may have more than 64 bits, so the factor is cut into 15 and 16 bits.
            low = (sums * (factors % 2**16) + (1 << (30 - shifts))) >> 16
            value = (sums * (factors >> 16) + low) >> (15 - shifts)
        else:
            value = (sums * factors + (1 << (14 - shifts))) >> (15 - shifts)
        assert grid is not None
        low, high = (
            np.clip(np.rint(end / float(grid.scale[0])), -(2**15), 2**15 - 1) for end in step.bounds()
        )
        return value.apply("Clip", low, high).to(np.int16)


def short_product(
    step: Step, data: int, filters: int, bias: int | None, axis: int = 0
) -> ShortProduct | None:
    """The product of the operator's inputs at places `data` and `filters`, plus the input at place `bias`. Returns None
    if this module cannot compute the product as TFLite does. `axis`: the axis of the weights' output channels.
    """
    first, second, result = (
        step.tensor(index) for index in (step.inputs[data], step.inputs[filters], step.output)
    )
    weights, bias = step.writer.known(step.inputs[filters]), step.present(bias)
    if any(tensor.grid is None or tensor.grid.zero.any() for tensor in (first, second, result)):
        return None
    if step.operator.kind == "BATCH_MATMUL":
        fits = second.dtype == np.int16
    else:
        fits = weights is not None and weights.dtype == np.int8
        fits = fits and (bias is None or step.tensor(step.inputs[bias]).dtype.kind == "i")
        fits = fits and second.grid is not None and (second.grid.one or second.grid.axis == axis)
    if not fits or {first.dtype, result.dtype} != {np.dtype(np.int16)}:
        return None
    # TFLite's kernels shift by at most 31 bits to the right; 15 bits of a factor allow 14 to the left.
    fits = all(-31 <= fixed(ratio, 31)[1] <= 14 for ratio in ratios(step, data, filters))
    return ShortProduct(step, data, filters, bias) if fits else None


def ratios(step: Step, data: int, filters: int, *, narrow: bool = False) -> np.ndarray:
    """The factor from sums of products to the result, for each output channel (float64). It is the data's scale times
    the filters' scale, divided by the result's scale. `data`, `filters`: places among the operator's inputs. `narrow`:
    the sums have 32 bits. FULLY_CONNECTED with a single scale of the weights then multiplies the scales in float32.
    """
    indices = step.inputs[data], step.inputs[filters], step.output
    source, weight, result = (step.tensor(index).grid for index in indices)
    assert source is not None and weight is not None and result is not None
    scales = weight.scale.astype(np.float64) * source.scale[0]
    if narrow and weight.one and step.operator.kind == "FULLY_CONNECTED":
        scales = (weight.scale * source.scale[0]).astype(np.float64)
    return scales / float(result.scale[0])

"""Converts products of int16 activations to exact integer sums, and rounds the sums as TFLite's kernels do.

ONNX multiplies integers of 8 bits only. An int16 number is 256 * (high - 128) + low, where `high` and `low` are bytes,
so its product is a sum of products of bytes. Float32 arithmetic would round sums that lie near a half step to the other
side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from .functions import fixed
from .step import Step

BYTE = 256
"""Place value of the high byte of an int16 number."""
EXACT = 2**24
"""Largest magnitude up to which float32 represents every integer."""
OFFSET = 2**62
"""Added to an int64 number, whose magnitude is smaller, before the number is shifted to the right: ONNX shifts unsigned
integers only.
"""


@dataclass(frozen=True, slots=True)
class Byte:
    """One byte of each int16 number of a tensor: name of the uint8 tensor, name of its zero point, and the byte's place
    value (256 or 1).
    """

    name: str
    zero: str
    unit: int


@dataclass(frozen=True, slots=True)
class ShortProduct:
    """The product of the int16 activation `data` and the tensor `filters`, plus the tensor `bias` (-1: none): int8
    weights or, in BATCH_MATMUL, another int16 tensor. Tensors are indices into the network's tensors.
    """

    step: Step
    data: int
    filters: int
    bias: int = -1

    def of_weights(self, op_type: str, name: str, weights: np.ndarray, **attributes: Any) -> str:
        """Adds the int64 product of the int16 value `name` and the int8 `weights`, by the ONNX operator `op_type` with
        `attributes`: ConvInteger, MatMulInteger or ConvTranspose. Returns the product's name.

        ONNX has no ConvTranspose of integers: floats multiply the bytes, in groups of channels whose sums are exact.
        """
        step = self.step
        terms: list[tuple[str, int]] = []
        if op_type == "ConvTranspose":
            parts = [step.constant(part, "weights", np.float32) for part in _exact_parts(weights)]
            for byte in self._bytes(name):
                numbers = [step.node("Cast", [operand], "real", to=1) for operand in (byte.name, byte.zero)]
                data = step.node("Sub", numbers, "centred")
                terms += [
                    (step.node(op_type, [data, part], "product", **attributes), byte.unit) for part in parts
                ]
            return self._total(terms)
        # uint8, since some processors have exact products only of two factors of the same type.
        factor = step.constant(weights.astype(np.int16) + 128, "weights", np.uint8)
        zero = step.constant(128, "zero", np.uint8)
        for byte in self._bytes(name):
            inputs = [byte.name, factor, byte.zero, zero]
            terms.append((step.node(op_type, inputs, "product", **attributes), byte.unit))
        return self._total(terms)

    def of_two(self, first: str, second: str) -> str:
        """Adds the int64 matrix product of the int16 values `first` and `second`; returns the product's name."""
        terms: list[tuple[str, int]] = []
        for a, b in product(self._bytes(first), self._bytes(second)):
            name = self.step.node("MatMulInteger", [a.name, b.name, a.zero, b.zero], "product")
            terms.append((name, a.unit * b.unit))
        return self._total(terms)

    def rounded(self, sums: str, column: Sequence[int]) -> str:
        """Adds the bias to the int64 value `sums`, multiplies the result by the quotient of the scales, rounds it to
        int16 and clamps it; returns the name of the result. `column`: the shape in which an array of one number for
        each output channel broadcasts to the sums.

        LiteRT's kernels with sums of 64 bits have multipliers of 15 bits (in FULLY_CONNECTED 31), and round once; with
        sums of 32 bits they have multipliers of 31 bits, and round twice. Halves are rounded up, except the second time
        in TRANSPOSE_CONV.
        """
        step, kind = self.step, self.step.operator.kind
        narrow = kind == "FULLY_CONNECTED" if self.bias < 0 else step.tensor(self.bias).dtype == np.int32
        bits = 31 if narrow or kind == "FULLY_CONNECTED" else 15

        def node(op_type: str, value: str, numbers: np.ndarray | int) -> str:
            constant = np.asarray(numbers, np.int64)
            constant = constant.reshape(column if constant.size > 1 else ())
            return step.node(op_type, [value, step.constant(constant, "number")], "step")

        def shifted(value: str, by: np.ndarray | int) -> str:
            """Divides `value` by 2 to the power of `by`, rounding down."""
            positive = step.node("Cast", [node("Add", value, OFFSET)], "positive", to=13)
            places = np.asarray(by, np.uint64).reshape(column if np.size(by) > 1 else ())
            moved = step.node(
                "BitShift", [positive, step.constant(places, "bits")], "moved", direction="RIGHT"
            )
            return node("Sub", step.node("Cast", [moved], "step", to=7), OFFSET >> np.asarray(by))

        if self.bias >= 0:
            sums = node("Add", sums, step.writer.values(self.bias, "bias").reshape(-1))
        pairs = [fixed(ratio, bits) for ratio in ratios(step, self.data, self.filters, narrow=narrow)]
        factors, shifts = (np.array(part, np.int64) for part in zip(*pairs, strict=True))
        if narrow:
            left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0)
            value = shifted(node("Add", node("Mul", sums, factors << left), 2**30), 31)
            half = np.left_shift(np.int64(1), right) >> 1
            if kind == "TRANSPOSE_CONV":  # Halves of negative numbers are rounded down.
                below = node("Min", node("Max", value, -np.minimum(half, 1)), 0)
                value = step.node("Add", [value, below], "step")
            value = shifted(node("Add", value, half), right)
        elif bits == 31:
            # A sum times 31 bits may have more than 64 bits, so the factor is cut into 15 and 16 bits.
            low = node("Add", node("Mul", sums, factors % 2**16), np.left_shift(np.int64(1), 30 - shifts))
            value = step.node("Add", [node("Mul", sums, factors >> 16), shifted(low, 16)], "step")
            value = shifted(value, 15 - shifts)
        else:
            value = node("Add", node("Mul", sums, factors), np.left_shift(np.int64(1), 14 - shifts))
            value = shifted(value, 15 - shifts)
        grid = step.tensor(step.output).grid
        assert grid is not None
        ends = [np.clip(np.rint(end / float(grid.scale[0])), -(2**15), 2**15 - 1) for end in step.bounds()]
        value = step.node(
            "Clip", [value, *(step.constant(end, "bound", np.int64) for end in ends)], "clamped"
        )
        return step.writer.node("Cast", [value], step.tensor(step.output).name, to=5)

    def _bytes(self, name: str) -> tuple[Byte, Byte]:
        """Splits the int16 value `name` into its high and its low bytes."""
        step = self.step
        byte = step.constant(BYTE, "byte", np.int32)
        wide = step.node("Cast", [name], "wide", to=6)
        positive = step.node("Add", [wide, step.constant(2**15, "offset", np.int32)], "positive")
        high = step.node("Div", [positive, byte], "high")
        low = step.node("Sub", [positive, step.node("Mul", [high, byte], "above")], "low")
        names = [step.node("Cast", [part], "byte", to=2) for part in (high, low)]
        zeros = [step.constant(zero, "zero", np.uint8) for zero in (128, 0)]
        return Byte(names[0], zeros[0], BYTE), Byte(names[1], zeros[1], 1)

    def _total(self, terms: Sequence[tuple[str, int]]) -> str:
        """Adds the int64 sum of terms, each a product and its place value; returns the sum's name."""
        total = ""
        for name, unit in terms:
            term = self.step.node("Cast", [name], "wide", to=7)
            if unit > 1:
                term = self.step.node("Mul", [term, self.step.constant(unit, "unit", np.int64)], "term")
            total = self.step.node("Add", [total, term], "sum") if total else term
        return total


def short_product(
    step: Step, data: int, filters: int, bias: Sequence[int] = (), axis: int = 0
) -> ShortProduct | None:
    """The product of tensors `data` and `filters`, plus the tensor in `bias` (empty or [-1]: none), if this module can
    compute it as TFLite does, else None. `axis`: the axis of the weights' output channels.
    """
    first, second, result = (step.tensor(index) for index in (data, filters, step.output))
    weights, place = step.writer.known(filters), (*bias, -1)[0]
    if any(tensor.grid is None or tensor.grid.zero.any() for tensor in (first, second, result)):
        return None
    if step.operator.kind == "BATCH_MATMUL":
        fits = second.dtype == np.int16
    else:
        fits = weights is not None and weights.dtype == np.int8 and step.writer.known(data) is None
        fits = fits and (place < 0 or step.tensor(place).dtype.kind == "i")
        fits = fits and second.grid is not None and (second.grid.one or second.grid.axis == axis)
    if not fits or {first.dtype, result.dtype} != {np.dtype(np.int16)}:
        return None
    # TFLite's kernels shift by at most 31 bits to the right; 15 bits of a factor allow 14 to the left.
    if not all(-31 <= fixed(ratio, 31)[1] <= 14 for ratio in ratios(step, data, filters)):
        return None
    return ShortProduct(step, data, filters, place)


def _exact_parts(weights: np.ndarray) -> list[np.ndarray]:
    """Cuts the weights (I, O, H, W) of a ConvTranspose into a sum of arrays of the same shape, each with zeros for all
    but a few input channels, so that float32 represents the sums of products with bytes.
    """
    sizes = np.abs(weights.astype(np.int64)).sum(axis=(2, 3)).max(axis=1)
    # Of the sums up to each channel, those of a group are less than `span` apart; the group's first channel is added.
    span = max(EXACT // BYTE - int(sizes.max()), 1)
    group = sizes.cumsum() // span
    return [weights * (group == number).reshape(-1, 1, 1, 1) for number in np.unique(group)]


def ratios(step: Step, data: int, filters: int, *, narrow: bool = False) -> np.ndarray:
    """The factor from sums of products to the result, for each output channel (float64): scale of the data x scale of
    the filters / scale of the result. `narrow`: the sums have 32 bits; FULLY_CONNECTED with one scale of the weights
    then multiplies the scales in float32.
    """
    source, weight, result = (step.tensor(index).grid for index in (data, filters, step.output))
    assert source is not None and weight is not None and result is not None
    scales = weight.scale.astype(np.float64) * source.scale[0]
    if narrow and weight.one and step.operator.kind == "FULLY_CONNECTED":
        scales = (weight.scale * source.scale[0]).astype(np.float64)
    return scales / float(result.scale[0])

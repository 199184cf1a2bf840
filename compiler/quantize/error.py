"""Errors of quantized tensors over all calibration data, relative to the float model's tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(slots=True, kw_only=True)
class Error:
    """Errors of a quantized tensor: sums and maxima over all pairs (a, b). Here `a` is an element of the float model's
    tensor, and `b` is the same element of the quantized model's tensor.
    """

    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0
    largest_difference: float = 0.0
    rows: int = 0
    rows_agreeing: int = 0

    def add(self, expected: np.ndarray, got: np.ndarray) -> None:
        """Includes the errors of one more sample or batch. `expected` is the float model's tensor and `got` the
        quantized model's tensor: float32 arrays of equal shape (N, ...).
        """
        if not expected.size:
            return
        reference = expected.astype(np.float64)
        difference = got.astype(np.float64) - reference
        self.signal += float(np.square(reference).sum())
        self.noise += float(np.square(difference).sum())
        self.largest = max(self.largest, float(np.abs(reference).max()))
        self.largest_difference = max(self.largest_difference, float(np.abs(difference).max()))
        if is_vector(expected):
            rows = [array.reshape(len(array), -1).argmax(axis=1) for array in (expected, got)]
            self.rows += len(expected)
            self.rows_agreeing += int((rows[0] == rows[1]).sum())

    @property
    def sqnr(self) -> float | None:
        """Signal to quantization noise ratio in dB: 10 log10(sum a^2 / sum (a - b)^2), with `a` of the float model and
        `b` of the quantized model. None if either sum is zero.
        """
        if not self.noise or not self.signal:
            return None
        return 10.0 * math.log10(self.signal / self.noise)

    @property
    def relative(self) -> float | None:
        """sqrt(sum (a - b)^2 / sum a^2), with `a` of the float model and `b` of the quantized model. None if every `a`
        is zero and some `b` is not.
        """
        if not self.signal:
            return None if self.noise else 0.0
        return math.sqrt(self.noise / self.signal)

    @property
    def relative_maximum(self) -> float | None:
        """max |a - b| / max |a|, with `a` of the float model and `b` of the quantized model. None if every `a` is zero
        and some `b` is not.
        """
        if not self.largest:
            return None if self.largest_difference else 0.0
        return self.largest_difference / self.largest

    @property
    def top1(self) -> float | None:
        """Fraction of rows whose largest value has the same index in the float and in the quantized tensor. None for
        tensors that do not hold one vector for each sample.
        """
        return self.rows_agreeing / self.rows if self.rows else None


def is_vector(array: np.ndarray) -> bool:
    """Whether an array holds one vector of several values for each sample: (N, K) or, for example, (N, K, 1, 1)."""
    return array.ndim >= 2 and array.shape[1] > 1 and array.size == array.shape[0] * array.shape[1]

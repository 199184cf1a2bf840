"""Values known at import: arrays, and constants that a DequantizeLinear reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constant:
    """An array known at import, float or integer."""

    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.array.shape

    def real(self) -> np.ndarray:
        """The array itself, since a constant without a scale has its real values."""
        return self.array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantizedConstant:
    """The result of a DequantizeLinear of a constant: `scale * (integers - zero_point)`. If `axis` is None, the whole
    tensor has one scale and zero point, else there is one of each for every index along `axis`.

    `integers` has the file's dtype; `scale` (float32) and `zero_point` (int64) are 0-d, or 1-d along `axis`.
    """

    integers: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray
    axis: int | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.integers.shape

    def along_axis(self, values: np.ndarray) -> np.ndarray:
        """`values`, the scales or zero points, in the shape that broadcasts against `integers`."""
        if self.axis is None:
            return values
        return values.reshape([-1 if axis == self.axis else 1 for axis in range(self.integers.ndim)])

    def centred(self) -> np.ndarray:
        """integers - zero_point as int64. Int8 integers with zero point 0 are returned without a copy: weights may be
        large."""
        if self.integers.dtype == np.int8 and not self.zero_point.any():
            return self.integers
        return self.integers.astype(np.int64) - self.along_axis(self.zero_point)

    def real(self) -> np.ndarray:
        """The float32 values that DequantizeLinear computes."""
        return (self.centred().astype(np.float32) * self.along_axis(self.scale)).astype(np.float32)


Known = Constant | QuantizedConstant


Bias = Known | None

"""Quantization parameters: the map from stored integers to real numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

ActivationType = Literal["int8", "uint8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """real = scale * (integer - zero_point), with both integers in the model's own type `dtype`."""

    scale: np.float32
    zero_point: int
    dtype: ActivationType

    @property
    def offset(self) -> int:
        """The difference between the model's integer and the stored int8 value: 128 for uint8, 0 for int8."""
        return 128 if self.dtype == "uint8" else 0

    @property
    def stored_zero_point(self) -> int:
        """The zero point of the stored int8 values."""
        return self.zero_point - self.offset

"""How the integers of a quantized tensor stand for real numbers."""

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
        """What to add to a stored int8 value to get the model's own integer: 128 for uint8, 0 for int8."""
        return 128 if self.dtype == "uint8" else 0

    @property
    def stored_zero_point(self) -> int:
        """The zero point of the stored int8 values."""
        return self.zero_point - self.offset

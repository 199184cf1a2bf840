"""Tensors of a network under construction, and weights whose random values are not drawn yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph, float32, or int64 if `integer`. `power` is an estimate of the mean square of its elements.

    The standard deviation of a weight is 1 / sqrt(number of products in a sum x `power` of the input), which is He's
    rule after a ReLU. So the outputs of each layer stay approximately normal. This replaces the effect of batch
    normalizations, which are folded into the weights or missing.
    """

    name: str
    shape: tuple[int, ...]
    power: float = 1.0
    integer: bool = False

    @property
    def channels(self) -> int:
        """Number of channels of an image [batch, channels, rows, columns]."""
        return self.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of an image."""
        return self.shape[2], self.shape[3]


@dataclass(frozen=True, slots=True)
class Weight:
    """A float32 initializer: shape, mean and standard deviation of its normal distribution; `least` bounds its values
    from below.
    """

    shape: tuple[int, ...]
    deviation: float
    mean: float = 0.0
    least: float = -np.inf

    def draw(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """Random values of the weight from its normal distribution, float32."""
        drawn = rng.standard_normal(self.shape, np.float32) * np.float32(self.deviation) + np.float32(
            self.mean
        )
        return drawn if self.least == -np.inf else np.maximum(drawn, np.float32(self.least))

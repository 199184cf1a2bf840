"""Tensors of a network under construction, and weights that are not drawn yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph. `power` is an estimate of its mean square, from which the deviation of weights follows.

    Batch normalizations would keep every layer's outputs approximately normal. Where they are folded or missing, a
    suitable standard deviation of weights has this effect: one over the square root of (number of products of a sum
    times power of their inputs), which is He's rule after a ReLU.
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
    """A float32 initializer: shape, mean and deviation of its normal distribution; `least` bounds it below."""

    shape: tuple[int, ...]
    deviation: float
    mean: float = 0.0
    least: float = -np.inf

    def draw(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """Random values of the weight."""
        drawn = rng.standard_normal(self.shape, np.float32) * np.float32(self.deviation) + np.float32(
            self.mean
        )
        return drawn if self.least == -np.inf else np.maximum(drawn, np.float32(self.least))

"""Operations over rows that the next QuantizeLinear rounds: softmax, masks applied before a softmax, and
normalizations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..operations import Operation
from ..values import FloatInput, Real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shared(Operation):
    """Softmax or normalization over channels, as a pending operation. A softmax looks up exponentials in the table
    `entries`; if it is None, the table follows from the scale of `data`. A normalization multiplies by `gain` and adds
    `offset`, float64 (C,); with `centre` it first subtracts the mean.
    """

    data: Real
    gain: np.ndarray | None = None
    offset: np.ndarray | None = None
    centre: bool = False
    epsilon: float = 0.0
    entries: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Masked(Operation):
    """Attention scores to which a mask is added; only a softmax can read them. `data`: the tensor with the scores;
    `step`: by how much the score grows from one stored value to the next; `mask`: the addend, constant numbers or a
    model input, which broadcasts to the scores.
    """

    alone = (
        "scores to which a float mask was added",
        "leave the nodes between mask and softmax float, or quantize the mask",
    )
    data: Real
    step: float
    mask: np.ndarray | FloatInput


OF_A_NORM = (
    "rows minus their mean, a step of a normalization that cannot be quantized by itself",
    "leave the nodes of the normalization float",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Centred(Operation):
    """Rows minus their mean: a step of a normalization, which no other operator can read."""

    alone = OF_A_NORM
    data: Real


@dataclass(frozen=True, slots=True, kw_only=True)
class Squared(Operation):
    """The squares of `Centred` rows (rows minus their mean): a step of a normalization, which no other operator can
    read.
    """

    alone = OF_A_NORM
    data: Real

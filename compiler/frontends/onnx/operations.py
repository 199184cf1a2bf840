"""Float operations that stay pending until the QuantizeLinear that rounds them is imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...graph.int8_convolution import Quantization
from ...te.blocks import Window
from .known_values import Bias
from .values import FloatInput, Real

if TYPE_CHECKING:
    from .emit import Rounding
    from .integer_context import ImportContext


class Operation:
    """Base class of float operations that stay pending until a QuantizeLinear reads and rounds their result (by the
    functions in `emit.ROUNDED`).

    `alone`: None if a QuantizeLinear may read the result. Otherwise the operation is only a step of a longer
    computation, a QuantizeLinear after it is an error, and `alone` is the error's text (problem, remedy).
    """

    __slots__ = ()
    alone: ClassVar[tuple[str, str] | None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The least and the greatest possible result of an operation. `wide`: most actual results lie far inside these
    bounds.
    """

    low: float
    high: float
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opaque(Operation):
    """A pending operation that cannot be merged with other operators. The function `round` adds its integer operators,
    and returns the name of the result's tensor.

    `bounds` helps to choose a scale if no QuantizeLinear gives one (`own_grids`). It is a suitable quantization of the
    result, the range of the result, or None if neither is known.
    """

    round: Callable[[ImportContext, Rounding], str]
    bounds: Quantization | Bounds | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product(Operation):
    """A convolution or matrix product; `weight` int8 or int16 (O, C / groups, kh, kw), `weight_scale` float32
    (O,).
    """

    data: Real
    weight: np.ndarray
    weight_scale: np.ndarray
    bias: Bias
    window: Window
    groups: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Maximum(Operation):
    """A maximum over windows; the result has the quantization of its input."""

    data: Real
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(Operation):
    """A pending operation (rounded by the next QuantizeLinear) that computes nothing: its input is only clamped or
    rescaled.
    """

    data: Real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Function(Operation):
    """A function of one tensor, applied element by element. `values`, float32 (256,): the function's result for each
    stored value from -128 to 127.
    """

    data: Real
    values: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shared(Operation):
    """Softmax or normalization over channels, as a pending operation. A softmax looks up exponentials in the table
    `entries`; if `entries` is None, the table is made from the scale of `data`. A normalization multiplies by `gain`
    and adds `offset`, float64 (C,); with `centre` it first subtracts the mean.
    """

    data: Real
    gain: np.ndarray | None = None
    offset: np.ndarray | None = None
    centre: bool = False
    epsilon: float = 0.0
    entries: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Masked(Operation):
    """Attention scores plus a mask; only a softmax can read them. `data`: the tensor with the scores. `step`: the
    growth of the score from one stored value of `data` to the next. `mask`: constant numbers or a model input,
    broadcast to the scores.
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

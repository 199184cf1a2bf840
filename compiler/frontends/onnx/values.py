"""Values bound to ONNX names during an import.

Float tensors of a quantized model are never computed. Each is represented by a constant, an integer tensor with a
scale, or a pending operation, whose result the next QuantizeLinear rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from ...graph.int8_convolution import ActivationType, Quantization
from .known_values import Constant, QuantizedConstant

if TYPE_CHECKING:
    from .operations import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatInput:
    """A float input of the model that a QuantizeLinear reads, possibly after a Transpose by `permutation` and a Reshape
    to `shape`. `declared`: the input's shape in the model.
    """

    name: str
    declared: tuple[int, ...]
    permutation: tuple[int, ...] | None
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Integer:
    """Quantized integers that a DequantizeLinear of the model will read. The value has the shape `shape`, and its
    elements are in `tensor`, which is stored as (N, C, H, W). `view`: for each element of the value, its index in the
    tensor; None if the value has all elements in the tensor's order.
    """

    tensor: str
    shape: tuple[int, ...]
    dtype: ActivationType
    view: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Real:
    """A quantized tensor after DequantizeLinear. `shape`: its shape in the model; `view`: the index of each element in
    the stored tensor (None: all in order).
    """

    tensor: str
    shape: tuple[int, ...]
    quantization: Quantization
    view: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pending:
    """A float result that the next QuantizeLinear will round: the result of `operation`, clamped to the real numbers
    low..high.

    `natural`: shape of the future tensor, (N, C, H, W) or (N, K); `shape`: shape of the value in the model; `view`:
    index of each element in the future tensor (None: all in order).
    """

    name: str
    members: tuple[str, ...]
    operation: Operation
    natural: tuple[int, ...]
    shape: tuple[int, ...]
    low: float = -np.inf
    high: float = np.inf
    view: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowStatistic:
    """A number for each row (last axis) of `data`: `factor` * (m + `epsilon`) ** `power`. Here m is the mean of the
    row's elements (`moment` "mean") or of their squares ("square"). With `centre` the row's mean is subtracted from the
    elements first. The number is never computed by itself, only as part of a normalization.
    """

    data: Real
    moment: Literal["mean", "square"]
    centre: bool = False
    epsilon: float = 0.0
    power: float = 1.0
    factor: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `data` with a last axis of 1."""
        return (*self.data.shape[:-1], 1)


Value = Constant | QuantizedConstant | FloatInput | Integer | Real | Pending | RowStatistic

ValueT = TypeVar("ValueT", bound="Constant | QuantizedConstant | FloatInput | Integer | Real | Pending")


def reshaped(value: ValueT, shape: tuple[int, ...]) -> ValueT:
    """The value's elements, in the same order, in another shape of the same size."""
    match value:
        case Constant(array=array):
            return replace(value, array=array.reshape(shape))
        case QuantizedConstant(integers=integers):
            return replace(value, integers=integers.reshape(shape))
        case (
            Integer(view=np.ndarray() as view)
            | Real(view=np.ndarray() as view)
            | Pending(view=np.ndarray() as view)
        ):
            return replace(value, shape=shape, view=view.reshape(shape))
        case _:
            return replace(value, shape=shape)

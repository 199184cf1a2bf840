"""Activations that TFLite fuses into other operators."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import tflite

from .flatbuffer import damaged
from .model import Tensor
from .writer import Writer, refuse

_KINDS = tflite.ActivationFunctionType
BOUNDS: Mapping[int, tuple[float, float]] = MappingProxyType(
    {
        _KINDS.NONE: (-np.inf, np.inf),
        _KINDS.RELU: (0.0, np.inf),
        _KINDS.RELU_N1_TO_1: (-1.0, 1.0),
        _KINDS.RELU6: (0.0, 6.0),
    }
)
"""Least and largest value behind an activation, by its number."""


def activate(writer: Writer, output: int, name: str, activation: int) -> str:
    """The value `name` of the tensor `output` behind a fused activation."""
    tensor = writer.tensor(output)
    if activation == _KINDS.TANH:
        return writer.node("Tanh", [name], f"{tensor.name}/tanh")
    return clamped(writer, tensor, name, *bounds(activation))


def bounds(activation: int) -> tuple[float, float]:
    """Least and largest value behind a fused activation. Raises RefusedOperator for those that are no clamps."""
    if activation in (_KINDS.TANH, _KINDS.SIGN_BIT):
        refuse("has the fused activation TANH or SIGN_BIT", "use an operator of its own")
    if activation not in BOUNDS:
        raise damaged(f"an operator has the activation {activation}")
    return BOUNDS[activation]


def clamped(writer: Writer, tensor: Tensor, name: str, low: float, high: float) -> str:
    """The value `name` of a tensor clamped to low..high; as it is where the tensor's grid ends before."""
    if tensor.grid is not None and tensor.grid.one:
        limits, scale = np.iinfo(tensor.dtype), np.float64(tensor.grid.scale[0])
        least, most = ((end - tensor.grid.zero[0]) * scale for end in (limits.min, limits.max))
        low, high = (-np.inf if low <= least else low), (np.inf if high >= most else high)
    if (low, high) == (-np.inf, np.inf):
        return name
    result = f"{tensor.name}/clamped"
    if (low, high) == (0.0, np.inf):
        return writer.node("Relu", [name], result)
    ends = [
        "" if np.isinf(end) else writer.constant(np.array(end, np.float32), f"{tensor.name}/bound")
        for end in (low, high)
    ]
    return writer.node("Clip", [name, *ends], result)

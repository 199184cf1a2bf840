"""A float network as a list of layers: functions for each topology build it; calibration and quantization read it.

Every layer writes one tensor, which has the layer's name, and states the names of the tensors that it reads. The
network's input is the tensor ``input``. There is no batch normalization: it is folded into weights and biases.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]

INPUT = "input"


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """2-D convolution of the tensor called `data`, then ReLU if `relu`. With as many groups as channels it is
    depthwise.

    `weight` is float64 [out, in / groups, height, width], `bias` float64 [out].
    """

    name: str
    data: str
    weight: Float64Array
    bias: Float64Array
    stride: int = 1
    padding: int = 0
    groups: int = 1
    relu: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """Matrix product over the flattened tensor called `data`, then ReLU if `relu`; `weight` is float64 [out, in]."""

    name: str
    data: str
    weight: Float64Array
    bias: Float64Array
    relu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool:
    """Maximum over square windows of the tensor called `data`; elements of the padding are ignored."""

    name: str
    data: str
    kernel: int
    stride: int
    padding: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragePool:
    """Mean over square windows, without padding, of the tensor called `data`."""

    name: str
    data: str
    kernel: int
    stride: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalAveragePool:
    """Mean over the rows and columns of each channel; the result is [batch, channels, 1, 1]."""

    name: str
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """Sum of the tensors called `first` and `second`, of one shape, then ReLU if `relu`."""

    name: str
    first: str
    second: str
    relu: bool = True


Layer = Convolution | Dense | MaxPool | AveragePool | GlobalAveragePool | Add


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Layers in execution order, the shape of one input without its batch axis, and the number of classes.

    `shift` is the mean of normalized channels before a ReLU, in standard deviations; with a greater shift, the ReLU
    sets fewer values to 0.
    """

    name: str
    input_shape: tuple[int, ...]
    classes: int
    layers: tuple[Layer, ...]
    shift: float = 0.0


def count_parameters(network: Network) -> int:
    """Return the number of weights and biases."""
    return sum(
        layer.weight.size + layer.bias.size
        for layer in network.layers
        if isinstance(layer, Convolution | Dense)
    )

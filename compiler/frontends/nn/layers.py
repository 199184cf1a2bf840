"""Layers with the arguments and the parameters of PyTorch's layers of the same name."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature, signature
from math import prod, sqrt
from typing import Any

import numpy as np

from . import check
from . import functional as F
from .check import Pair
from .module import Module, Parameter, uniform
from .spec import NetworkError
from .tensor import Tensor, record


class Linear(Module):
    """x @ weight.T + bias; weight [out_features, in_features], bias [out_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        check.positive(self, in_features=in_features, out_features=out_features)
        self.weight, self.bias = _weights((out_features, in_features), out_features, in_features, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps x [..., in_features] to [..., out_features]."""
        return F.linear(x, self.weight, self.bias)


def _weights(
    shape: tuple[int, ...], outputs: int, inputs: int, bias: bool
) -> tuple[Parameter, Parameter | None]:
    """A weight of `shape` and a bias [outputs] (or None), drawn uniformly from -1/sqrt(inputs) to 1/sqrt(inputs)."""
    draw = uniform(1 / sqrt(inputs))
    return Parameter(shape, draw), Parameter((outputs,), draw) if bias else None


class Conv2d(Module):
    """A convolution; weight [out_channels, in_channels / groups, rows, columns], bias [out_channels]."""

    dims = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        _need_channels(self, in_channels, out_channels, groups)
        self.in_channels, self.groups = in_channels, groups
        self.window = check.window(type(self).__name__, self.dims, kernel_size, stride, padding, dilation)
        shape = (out_channels, in_channels // groups, *self.window["kernel_shape"])
        self.weight, self.bias = _weights(shape, out_channels, prod(shape[1:]), bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps x [batch, in_channels, rows, columns] to [batch, out_channels, ...]."""
        check.room(x, self.window)
        check.size(x, 1, self.in_channels, "in_channels")
        return record("Conv", x, self.weight, self.bias, group=self.groups, **self.window)


class Conv1d(Conv2d):
    """A convolution of x [batch, in_channels, length]; weight [out_channels, in_channels / groups, kernel_size], bias
    [out_channels].
    """

    dims = 1


class ConvTranspose2d(Module):
    """A transposed convolution; weight [in_channels, out_channels / groups, rows, columns], bias [out_channels]."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        output_padding: Pair = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Pair = 1,
    ) -> None:
        _need_channels(self, in_channels, out_channels, groups)
        kind, self.in_channels, self.groups = type(self).__name__, in_channels, groups
        self.window = check.window(kind, 2, kernel_size, stride, padding, dilation)
        self.output_padding = check.integers(kind, "output_padding", output_padding, 2, least=0)
        shape = (in_channels, out_channels // groups, *self.window["kernel_shape"])
        self.weight, self.bias = _weights(shape, out_channels, prod(shape[1:]), bias)

    def forward(self, x: Tensor) -> Tensor:
        """The transposed convolution of x [batch, in_channels, rows, columns]: [batch, out_channels, ...]."""
        check.dims(x, 2)
        check.size(x, 1, self.in_channels, "in_channels")
        attributes = {**self.window, "output_padding": self.output_padding, "group": self.groups}
        return record("ConvTranspose", x, self.weight, self.bias, **attributes)


def _need_channels(module: Module, in_channels: int, out_channels: int, groups: int) -> None:
    """Checks that the numbers are positive integers, and that `groups` divides the channels."""
    check.positive(module, in_channels=in_channels, out_channels=out_channels, groups=groups)
    if in_channels % groups or out_channels % groups:
        raise NetworkError(
            f"{type(module).__name__}: {in_channels} and {out_channels} channels are not both multiples of groups = "
            f"{groups}; change one of them"
        )


class BatchNorm(Module):
    """Batch normalization of dimension 1 by the stored running_mean and running_var, as in PyTorch after `eval()`.

    `momentum` acts in training only, and is ignored.
    """

    unused = ("num_batches_tracked",)
    ranks: tuple[int, ...] = ()
    """The numbers of dimensions that x may have; () for all numbers."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True
    ) -> None:
        del momentum
        check.positive(self, num_features=num_features)
        check.number(type(self).__name__, eps=eps)
        sizes, self.eps = (num_features,), eps
        self.weight, self.bias = (Parameter(np.ones(sizes)), Parameter(sizes)) if affine else (None, None)
        self.running_mean, self.running_var = Parameter(sizes), Parameter(np.ones(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes each channel of x [batch, num_features, ...]."""
        if self.ranks and x.ndim not in self.ranks:
            ranks = " or ".join(map(str, self.ranks))
            raise x.recorder.mistake(f"the input is {x}; give one of {ranks} dimensions")
        size = self.running_mean.shape[0]
        check.size(x, 1, size, "num_features")
        weight = np.ones(size, np.float32) if self.weight is None else self.weight
        bias = np.zeros(size, np.float32) if self.bias is None else self.bias
        parameters = (weight, bias, self.running_mean, self.running_var)
        return record("BatchNormalization", x, *parameters, epsilon=self.eps)


BatchNorm1d = type("BatchNorm1d", (BatchNorm,), {"ranks": (2, 3)})
"""`BatchNorm` of x [batch, num_features] or [batch, num_features, length]."""
BatchNorm2d = type("BatchNorm2d", (BatchNorm,), {"ranks": (4,)})
"""`BatchNorm` of x [batch, num_features, rows, columns]."""
BatchNorm3d = type("BatchNorm3d", (BatchNorm,), {"ranks": (5,)})
"""`BatchNorm` of x [batch, num_features, planes, rows, columns]."""


class GroupNorm(Module):
    """Normalization of each group of channels by its own mean and variance; weight and bias are [num_channels]."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
        check.multiple(self, num_channels=num_channels, num_groups=num_groups)
        check.number(type(self).__name__, eps=eps)
        sizes = (num_channels,)
        self.weight, self.bias = (Parameter(np.ones(sizes)), Parameter(sizes)) if affine else (None, None)
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes each group of channels of x [batch, num_channels, ...]."""
        check.size(x, 1, self.num_channels, "num_channels")
        ones, zeros = np.ones(self.num_groups, np.float32), np.zeros(self.num_groups, np.float32)
        groups = x.reshape(x.shape[0], self.num_groups, -1)
        normal = record("InstanceNormalization", groups, ones, zeros, label="normal", epsilon=self.eps)
        result, axes = normal.reshape(*x.shape), np.arange(1, x.ndim - 1)
        if self.weight is None or self.bias is None:
            return result
        scales = record("Unsqueeze", x.recorder.parameter(self.weight), axes, label="scales")
        offsets = record("Unsqueeze", x.recorder.parameter(self.bias), axes, label="offsets")
        return record("Add", record("Mul", result, scales, label="scaled"), offsets)


class LayerNorm(Module):
    """Normalization over the last dimensions of x. `normalized_shape`: the sizes of these dimensions, which are also
    the shape of weight and bias.
    """

    def __init__(self, normalized_shape: int | tuple[int, ...], eps: float = 1e-5, bias: bool = True) -> None:
        shape = _normalized_sizes(self, normalized_shape, eps)
        self.weight, self.bias = Parameter(np.ones(shape)), Parameter(shape) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(x - mean) / sqrt(variance + eps) * weight + bias."""
        axis = _last_axes(x, self.weight)[0]
        return record("LayerNormalization", x, self.weight, self.bias, axis=axis, epsilon=self.eps)


class RMSNorm(Module):
    """Division by the root of the mean square over the last dimensions of x. `normalized_shape`: the sizes of these
    dimensions, which are also the shape of weight. `eps` is by default the machine epsilon of float32.
    """

    def __init__(
        self, normalized_shape: int | tuple[int, ...], eps: float = float(np.finfo(np.float32).eps)
    ) -> None:
        shape = _normalized_sizes(self, normalized_shape, eps)
        self.weight, self.eps = Parameter(np.ones(shape)), eps

    def forward(self, x: Tensor) -> Tensor:
        """x / sqrt(mean(x ** 2) + eps) * weight."""
        axes, square = np.array(_last_axes(x, self.weight)), record("Pow", x, 2.0, label="square")
        root = record("Sqrt", record("ReduceMean", square, axes, label="mean") + self.eps, label="root")
        return record("Mul", record("Div", x, root, label="normal"), self.weight)


def _normalized_sizes(module: Module, sizes: int | tuple[int, ...], eps: float) -> tuple[int, ...]:
    """`sizes` as a tuple. Raises NetworkError unless the sizes are positive integers and `eps` is a finite number."""
    shape = tuple(sizes) if isinstance(sizes, tuple | list) else (sizes,)
    for size in shape or (sizes,):
        check.positive(module, normalized_shape=size)
    check.number(type(module).__name__, eps=eps)
    return shape


def _last_axes(x: Tensor, weight: Parameter) -> range:
    """The last axes of x, as many as `weight` has. Raises NetworkError unless their sizes are those of `weight`."""
    axes = range(-len(weight.shape), 0)
    for axis in axes:
        check.size(x, axis, weight.shape[axis], "normalized_shape")
    return axes


class Embedding(Module):
    """A table of vectors, weight [num_embeddings, embedding_dim], from which integer indices select rows."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        check.positive(self, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.weight = Parameter(
            (num_embeddings, embedding_dim), lambda random, shape: random.normal(size=shape)
        )

    def forward(self, indices: Tensor) -> Tensor:
        """Maps indices, int32 or int64 [...], to their vectors, [..., embedding_dim]."""
        return F.embedding(indices, self.weight)


class _Function(Module):
    """A layer without parameters: calls one function of `functional` with its input and the arguments of the layer.

    PyTorch's argument `inplace` is ignored. Raises NetworkError for arguments that the function does not have.
    """

    function: Callable[..., Tensor]
    __signature__: Signature

    def __init_subclass__(cls) -> None:
        if function := vars(cls).get("function"):
            cls.function, cls.__doc__ = staticmethod(function), function.__doc__
            cls.__signature__ = Signature([*signature(function).parameters.values()][1:])

    def __init__(self, *arguments: Any, **named: Any) -> None:
        named.pop("inplace", None)
        try:
            self.__signature__.bind(*arguments, **named)
        except TypeError as error:
            known = ", ".join(self.__signature__.parameters) or "none"
            raise NetworkError(f"{type(self).__name__}: {error}; its arguments are: {known}") from None
        self.arguments, self.named = arguments, named

    def forward(self, x: Tensor) -> Tensor:
        """The result of the layer's function for x."""
        return self.function(x, *self.arguments, **self.named)


# Each class has the docstring of its function, and the function's arguments behind x.
ReLU = type("ReLU", (_Function,), {"function": F.relu})
ReLU6 = type("ReLU6", (_Function,), {"function": F.relu6})
LeakyReLU = type("LeakyReLU", (_Function,), {"function": F.leaky_relu})
Hardswish = type("Hardswish", (_Function,), {"function": F.hardswish})
Hardsigmoid = type("Hardsigmoid", (_Function,), {"function": F.hardsigmoid})
GELU = type("GELU", (_Function,), {"function": F.gelu})
SiLU = type("SiLU", (_Function,), {"function": F.silu})
Sigmoid = type("Sigmoid", (_Function,), {"function": F.sigmoid})
Tanh = type("Tanh", (_Function,), {"function": F.tanh})
Softmax = type("Softmax", (_Function,), {"function": F.softmax})
MaxPool2d = type("MaxPool2d", (_Function,), {"function": F.max_pool2d})
AvgPool2d = type("AvgPool2d", (_Function,), {"function": F.avg_pool2d})
AdaptiveAvgPool2d = type("AdaptiveAvgPool2d", (_Function,), {"function": F.adaptive_avg_pool2d})
Flatten = type("Flatten", (_Function,), {"function": F.flatten})
Upsample = type("Upsample", (_Function,), {"function": F.interpolate})
Dropout = type("Dropout", (_Function,), {"function": F.dropout})


class Identity(Module):
    """x unchanged; takes and ignores all arguments, as in PyTorch."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        del arguments, named

    def forward(self, x: Tensor) -> Tensor:
        """x itself."""
        return x

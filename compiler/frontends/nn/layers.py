"""Layers of vdla.nn, except those for sequences (`sequences`)."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature, signature
from math import prod, sqrt
from typing import Any

import numpy as np

from . import functional
from .module import Module, Parameter
from .spec import NetworkError, Pair, check_arguments, integers, need, need_room, need_size, window
from .tensor import Tensor, record


def uniform(shape: tuple[int, ...], bound: float) -> Parameter:
    """A parameter of `shape`; its initial values are drawn from the uniform distribution between -bound and bound."""
    return Parameter(shape, lambda random, shape: random.uniform(-bound, bound, shape))


class Linear(Module):
    """x @ weight.T + bias; weight [out_features, in_features], bias [out_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        check_arguments(self, in_features=in_features, out_features=out_features)
        bound = 1 / sqrt(in_features)
        self.weight = uniform((out_features, in_features), bound)
        self.bias = uniform((out_features,), bound) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Maps x [..., in_features] to [..., out_features]."""
        return functional.linear(x, self.weight, self.bias)


class Conv2d(Module):
    """A 2-D convolution; weight [out_channels, in_channels / groups, rows, columns], bias [out_channels]."""

    operator, dims = "Conv", 2

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
        check_arguments(self, in_channels=in_channels, out_channels=out_channels, groups=groups)
        where, self.in_channels = f"{type(self).__name__}: ", in_channels
        fits, pair = in_channels % groups == out_channels % groups == 0, (in_channels, out_channels)
        need(fits, f"{where}(in_channels, out_channels)", pair, f"multiples of groups ({groups})")
        self.attributes = window(self.dims, kernel_size, stride, padding, dilation, where)
        self.attributes["group"] = groups
        rows, columns = pair if self.operator == "ConvTranspose" else pair[::-1]
        shape = (rows, columns // groups, *self.attributes["kernel_shape"])
        bound = 1 / sqrt(prod(shape[1:]))
        self.weight, self.bias = uniform(shape, bound), uniform((out_channels,), bound) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Maps x [batch, in_channels, rows, columns] to [batch, out_channels, ...]. In a Conv1d, x has no rows."""
        need_size(x, 1, self.in_channels, "in_channels")
        if self.operator == "Conv":
            need_room(x, self.attributes)
        return record(self.operator, x, self.weight, self.bias, **self.attributes)


class Conv1d(Conv2d):
    """A 1-D convolution; weight [out_channels, in_channels / groups, kernel_size], bias [out_channels]."""

    dims = 1


class ConvTranspose2d(Conv2d):
    """A transposed 2-D convolution; weight [in_channels, out_channels / groups, rows, columns], bias [out_channels]."""

    operator = "ConvTranspose"

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
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.attributes["output_padding"] = integers("ConvTranspose2d: output_padding", output_padding, 2, 0)


class BatchNorm(Module):
    """Batch normalization of dimension 1 by the stored running_mean and running_var, as in PyTorch after `eval()`.

    `momentum` acts in training only, and is ignored.
    """

    ranks: tuple[int, ...] = ()
    """The numbers of dimensions that x may have; () allows every number."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True
    ) -> None:
        check_arguments(self, num_features=num_features, eps=eps)
        self.eps, sizes = eps, (num_features,)
        self.weight, self.bias = (Parameter(np.ones(sizes)), Parameter(sizes)) if affine else (None, None)
        self.running_mean, self.running_var = Parameter(sizes), Parameter(np.ones(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes each channel of x [batch, num_features, ...]."""
        ranks, size = self.ranks or (x.ndim,), self.running_mean.shape[0]
        need(x.ndim in ranks, "the input", x, f"a tensor of {' or '.join(map(str, ranks))} dimensions")
        need_size(x, 1, size, "num_features")
        weight, bias = self.weight or np.ones(size, np.float32), self.bias or np.zeros(size, np.float32)
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
        check_arguments(self, num_groups=num_groups, num_channels=num_channels, eps=eps)
        fits, wanted = num_channels % num_groups == 0, f"a multiple of num_groups ({num_groups})"
        need(fits, "GroupNorm: num_channels", num_channels, wanted)
        self.groups, self.eps, sizes = num_groups, eps, (num_channels,)
        self.weight, self.bias = (Parameter(np.ones(sizes)), Parameter(sizes)) if affine else (None, None)
        self.num_channels = num_channels

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes each group of channels of x [batch, num_channels, ...]."""
        need_size(x, 1, self.num_channels, "num_channels")
        ones, zeros = np.ones(self.groups, np.float32), np.zeros(self.groups, np.float32)
        groups = x.reshape(x.shape[0], self.groups, -1)
        normal = record("InstanceNormalization", groups, ones, zeros, label="normal", epsilon=self.eps)
        y = normal.reshape(*x.shape)
        if self.weight is None or self.bias is None:
            return y
        axes = x.recorder.sizes(range(1, x.ndim - 1))
        scales = record("Unsqueeze", self.weight, axes, label="scales")
        offsets = record("Unsqueeze", self.bias, axes, label="offsets")
        return record("Add", record("Mul", y, scales, label="scaled"), offsets)


class LayerNorm(Module):
    """Normalization over the last dimensions of x. `normalized_shape`: the sizes of these dimensions; weight and bias
    have this shape, too.
    """

    def __init__(self, normalized_shape: int | tuple[int, ...], eps: float = 1e-5, bias: bool = True) -> None:
        shape = integers(f"{type(self).__name__}: normalized_shape", normalized_shape)
        check_arguments(self, eps=eps)
        self.eps, self.weight, self.bias = eps, Parameter(np.ones(shape)), Parameter(shape) if bias else None

    def axes(self, x: Tensor) -> range:
        """The last axes of x, as many as weight has axes. Raises NetworkError unless these axes of x have the sizes of
        weight.
        """
        axes = range(-len(self.weight.shape), 0)
        for axis in axes:
            need_size(x, axis, self.weight.shape[axis], "normalized_shape")
        return axes

    def forward(self, x: Tensor) -> Tensor:
        """(x - mean) / sqrt(variance + eps) * weight + bias."""
        parameters, first = (self.weight, self.bias), self.axes(x)[0]
        return record("LayerNormalization", x, *parameters, axis=first, epsilon=self.eps)


class RMSNorm(LayerNorm):
    """Division by the root of the mean square over the last dimensions of x. `normalized_shape`: the sizes of these
    dimensions; weight has this shape, too. `eps` is by default the machine epsilon of float32.
    """

    def __init__(self, normalized_shape: int | tuple[int, ...], eps: float = 2.0**-23) -> None:
        super().__init__(normalized_shape, eps, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x / sqrt(mean(x ** 2) + eps) * weight."""
        axes, square = np.array(self.axes(x)), record("Pow", x, 2.0, label="square")
        root = record("Sqrt", record("ReduceMean", square, axes, label="mean") + self.eps, label="root")
        return record("Mul", record("Div", x, root, label="normal"), self.weight)


class Embedding(Module):
    """A table of vectors, weight [num_embeddings, embedding_dim], from which integer indices select rows."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        check_arguments(self, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        shape = (num_embeddings, embedding_dim)
        self.weight = Parameter(shape, lambda random, shape: random.normal(size=shape))

    def forward(self, indices: Tensor) -> Tensor:
        """Maps indices, int32 or int64 [...], to their vectors, [..., embedding_dim]."""
        return functional.embedding(indices, self.weight)


class Identity(Module):
    """x unchanged; takes and ignores all arguments, as in PyTorch."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def forward(self, x: Tensor) -> Tensor:
        """x itself."""
        return x


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
            self.given = self.__signature__.bind(*arguments, **named)
        except TypeError as error:
            known = ", ".join(self.__signature__.parameters) or "none"
            raise NetworkError(f"{type(self).__name__}: {error}; its arguments are: {known}") from None

    def forward(self, x: Tensor) -> Tensor:
        """The result of the layer's function for x."""
        return self.function(x, *self.given.args, **self.given.kwargs)


# Each class has the docstring of its function, and the function's arguments behind x.
ReLU = type("ReLU", (_Function,), {"function": functional.relu})
ReLU6 = type("ReLU6", (_Function,), {"function": functional.relu6})
LeakyReLU = type("LeakyReLU", (_Function,), {"function": functional.leaky_relu})
Hardswish = type("Hardswish", (_Function,), {"function": functional.hardswish})
Hardsigmoid = type("Hardsigmoid", (_Function,), {"function": functional.hardsigmoid})
GELU = type("GELU", (_Function,), {"function": functional.gelu})
SiLU = type("SiLU", (_Function,), {"function": functional.silu})
Sigmoid = type("Sigmoid", (_Function,), {"function": functional.sigmoid})
Tanh = type("Tanh", (_Function,), {"function": functional.tanh})
Softmax = type("Softmax", (_Function,), {"function": functional.softmax})
MaxPool2d = type("MaxPool2d", (_Function,), {"function": functional.max_pool2d})
AvgPool2d = type("AvgPool2d", (_Function,), {"function": functional.avg_pool2d})
AdaptiveAvgPool2d = type("AdaptiveAvgPool2d", (_Function,), {"function": functional.adaptive_avg_pool2d})
Flatten = type("Flatten", (_Function,), {"function": functional.flatten})
Upsample = type("Upsample", (_Function,), {"function": functional.interpolate})
Dropout = type("Dropout", (_Function,), {"function": functional.dropout})

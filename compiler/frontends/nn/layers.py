"""Layers with the arguments and the parameters of PyTorch's layers of the same name."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import Any

import numpy as np

from . import functional as F
from .functional import Pair, pair
from .module import Module, Parameter, fill, normal, uniform
from .spec import NetworkError
from .tensor import Tensor, record


class Linear(Module):
    """x @ weight.T + bias; weight [out_features, in_features], bias [out_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        bound = uniform(1 / sqrt(in_features))
        self.weight = Parameter((out_features, in_features), bound)
        self.bias = Parameter((out_features,), bound) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in_features] to [..., out_features]."""
        return F.linear(x, self.weight, self.bias)


class Conv2d(Module):
    """A convolution; weight [out_channels, in_channels / groups, rows, columns], bias [out_channels]."""

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
        if in_channels % groups or out_channels % groups:
            raise NetworkError(
                f"Conv2d: {in_channels} and {out_channels} channels are no multiples of groups = {groups}; change one"
            )
        shape = (out_channels, in_channels // groups, *pair(kernel_size))
        bound = uniform(1 / sqrt(prod(shape[1:])))
        self.weight = Parameter(shape, bound)
        self.bias = Parameter((out_channels,), bound) if bias else None
        self.in_channels, self.groups = in_channels, groups
        self.window = (kernel_size, stride, padding, dilation)

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, in_channels, rows, columns] to [batch, out_channels, ...]."""
        window = F.window(x, *self.window)
        F.need(x, 1, self.in_channels, "in_channels")
        return record("Conv", x, self.weight, self.bias, group=self.groups, **window)


class BatchNorm(Module):
    """Batch normalization of dimension 1 with the running statistics, as PyTorch's BatchNorm1d, 2d and 3d in `eval`."""

    unused = ("num_batches_tracked",)

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        self.weight, self.bias = Parameter((num_features,), fill(1)), Parameter((num_features,))
        self.running_mean, self.running_var = Parameter((num_features,)), Parameter((num_features,), fill(1))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, num_features, ...], normalized by channel."""
        F.need(x, 1, self.weight.shape[0], "num_features")
        parameters = (self.weight, self.bias, self.running_mean, self.running_var)
        return record("BatchNormalization", x, *parameters, epsilon=self.eps)


class LayerNorm(Module):
    """Normalization over the last dimensions, of the sizes `normalized_shape`; weight and bias have these sizes."""

    def __init__(self, normalized_shape: int | tuple[int, ...], eps: float = 1e-5, bias: bool = True) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.weight, self.bias = Parameter(shape, fill(1)), Parameter(shape) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(x - mean) / sqrt(variance + eps) * weight + bias."""
        _need_last(x, self.weight.shape)
        axis = -len(self.weight.shape)
        return record("LayerNormalization", x, self.weight, self.bias, axis=axis, epsilon=self.eps)


class RMSNorm(Module):
    """Division by the root of the mean square over the last dimensions; `eps` is by default that of float32."""

    def __init__(
        self, normalized_shape: int | tuple[int, ...], eps: float = float(np.finfo(np.float32).eps)
    ) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.weight, self.eps = Parameter(shape, fill(1)), eps

    def forward(self, x: Tensor) -> Tensor:
        """x / sqrt(mean(x ** 2) + eps) * weight."""
        _need_last(x, self.weight.shape)
        axes = np.arange(-len(self.weight.shape), 0)
        square = record("Pow", x, 2.0, label="square")
        root = record("Sqrt", record("ReduceMean", square, axes, label="mean") + self.eps, label="root")
        return record("Mul", record("Div", x, root, label="normal"), self.weight)


class Embedding(Module):
    """Rows of weight, [num_embeddings, embedding_dim], by indices."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        self.weight = Parameter((num_embeddings, embedding_dim), normal())

    def forward(self, indices: Tensor) -> Tensor:
        """Indices, int32 or int64 [...], to [..., embedding_dim]."""
        return F.embedding(indices, self.weight)


class _Function(Module):
    """An operator without parameters; `operator` is the function of `functional` that records it."""

    operator: Callable[..., Tensor]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.arguments, self.named = arguments, named

    def forward(self, x: Tensor) -> Tensor:
        """The operator's result."""
        return type(self).operator(x, *self.arguments, **self.named)


class ReLU(_Function):
    """max(x, 0)."""

    operator = staticmethod(F.relu)


class GELU(_Function):
    """x * Phi(x); GELU("tanh") approximates it."""

    operator = staticmethod(F.gelu)


class SiLU(_Function):
    """x * sigmoid(x)."""

    operator = staticmethod(F.silu)


class Sigmoid(_Function):
    """1 / (1 + exp(-x))."""

    operator = staticmethod(F.sigmoid)


class Tanh(_Function):
    """The hyperbolic tangent."""

    operator = staticmethod(F.tanh)


class Softmax(_Function):
    """Softmax(dim=-1): exp(x) / sum(exp(x)) along `dim`."""

    operator = staticmethod(F.softmax)


class MaxPool2d(_Function):
    """MaxPool2d(kernel_size, stride=None, padding=0): the largest element of each window."""

    operator = staticmethod(F.max_pool2d)


class AvgPool2d(_Function):
    """AvgPool2d(kernel_size, stride=None, padding=0): the mean of each window, including zeros of the padding."""

    operator = staticmethod(F.avg_pool2d)


class AdaptiveAvgPool2d(_Function):
    """AdaptiveAvgPool2d(1): the mean of each channel, [batch, channels, 1, 1]; other output sizes are refused."""

    operator = staticmethod(F.adaptive_avg_pool2d)


class Flatten(_Function):
    """Flatten(start_dim=1, end_dim=-1): one dimension in place of those dimensions."""

    operator = staticmethod(F.flatten)


class Dropout(_Function):
    """Dropout(p=0.5): x unchanged, as dropout is for training."""

    operator = staticmethod(F.dropout)


def _need_last(x: Tensor, shape: tuple[int, ...]) -> None:
    """Raises NetworkError unless the last dimensions of x have the sizes `shape`."""
    for axis in range(-len(shape), 0):
        F.need(x, axis, shape[axis], "normalized_shape")

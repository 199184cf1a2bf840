"""Layers with the arguments and the parameters of PyTorch's layers of the same name."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from math import sqrt
from typing import Any

import numpy as np

from . import functional as F
from .arguments import need_number, need_positive, normalized_sizes
from .module import Module, Parameter, fill, normal, uniform
from .spec import NetworkError
from .tensor import Tensor, record


class Linear(Module):
    """x @ weight.T + bias; weight [out_features, in_features], bias [out_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        need_positive(self, in_features=in_features, out_features=out_features)
        bound = uniform(1 / sqrt(in_features))
        self.weight = Parameter((out_features, in_features), bound)
        self.bias = Parameter((out_features,), bound) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in_features] to [..., out_features]."""
        return F.linear(x, self.weight, self.bias)


class BatchNorm(Module):
    """Batch normalization of dimension 1 with the running statistics, as PyTorch's BatchNorm1d, 2d and 3d in `eval`.

    `momentum` is for training, and changes nothing.
    """

    unused = ("num_batches_tracked",)
    ranks: tuple[int, ...] = ()
    """The numbers of dimensions that x may have; () for all numbers."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True
    ) -> None:
        del momentum
        need_positive(self, num_features=num_features)
        need_number(type(self).__name__, eps=eps)
        sizes = (num_features,)
        self.weight, self.bias = (Parameter(sizes, fill(1)), Parameter(sizes)) if affine else (None, None)
        self.running_mean, self.running_var = Parameter(sizes), Parameter(sizes, fill(1))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, num_features, ...], normalized by channel."""
        if self.ranks and x.ndim not in self.ranks:
            ranks = " or ".join(map(str, self.ranks))
            raise NetworkError(f"{x.recorder.where}: the input is {x}; give one of {ranks} dimensions")
        size = self.running_mean.shape[0]
        F.need(x, 1, size, "num_features")
        weight = np.ones(size, np.float32) if self.weight is None else self.weight
        bias = np.zeros(size, np.float32) if self.bias is None else self.bias
        parameters = (weight, bias, self.running_mean, self.running_var)
        return record("BatchNormalization", x, *parameters, epsilon=self.eps)


class BatchNorm1d(BatchNorm):
    """`BatchNorm` of x [batch, num_features] or [batch, num_features, length]."""

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """`BatchNorm` of x [batch, num_features, rows, columns]."""

    ranks = (4,)


class BatchNorm3d(BatchNorm):
    """`BatchNorm` of x [batch, num_features, planes, rows, columns]."""

    ranks = (5,)


class GroupNorm(Module):
    """Normalization over the channels of a group and all places; weight and bias [num_channels]."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
        need_positive(self, num_groups=num_groups, num_channels=num_channels)
        need_number(type(self).__name__, eps=eps)
        if num_channels % num_groups:
            raise NetworkError(
                f"GroupNorm: num_channels = {num_channels} is no multiple of num_groups = {num_groups}; change one"
            )
        sizes = (num_channels,)
        self.weight, self.bias = (Parameter(sizes, fill(1)), Parameter(sizes)) if affine else (None, None)
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, num_channels, ...], normalized by group."""
        F.need(x, 1, self.num_channels, "num_channels")
        ones, zeros = np.ones(self.num_groups, np.float32), np.zeros(self.num_groups, np.float32)
        groups = x.reshape(x.shape[0], self.num_groups, -1)
        normal = record("InstanceNormalization", groups, ones, zeros, label="normal", epsilon=self.eps)
        result = normal.reshape(*x.shape)
        if self.weight is None or self.bias is None:
            return result
        axes = np.arange(1, x.ndim - 1)
        scales, offsets = (
            record("Unsqueeze", x.recorder.parameter(values), axes, label=label)
            for values, label in ((self.weight, "scales"), (self.bias, "offsets"))
        )
        return record("Add", record("Mul", result, scales, label="scaled"), offsets)


class LayerNorm(Module):
    """Normalization over the last dimensions, of the sizes `normalized_shape`; weight and bias have these sizes."""

    def __init__(self, normalized_shape: int | tuple[int, ...], eps: float = 1e-5, bias: bool = True) -> None:
        shape = normalized_sizes(self, normalized_shape)
        need_number(type(self).__name__, eps=eps)
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
        shape = normalized_sizes(self, normalized_shape)
        need_number(type(self).__name__, eps=eps)
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
        need_positive(self, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.weight = Parameter((num_embeddings, embedding_dim), normal())

    def forward(self, indices: Tensor) -> Tensor:
        """Indices, int32 or int64 [...], to [..., embedding_dim]."""
        return F.embedding(indices, self.weight)


class _Function(Module):
    """An operator without parameters; `operator` is the function of `functional` that records it.

    The argument `inplace` of PyTorch's modules changes nothing. Raises NetworkError for arguments that the function
    does not have.
    """

    operator: Callable[..., Tensor]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        named.pop("inplace", None)
        names = signature(type(self).operator)
        try:
            names.bind(None, *arguments, **named)
        except TypeError as error:
            known = ", ".join([*names.parameters][1:]) or "none"
            raise NetworkError(f"{type(self).__name__}: {error}; its arguments are: {known}") from None
        self.arguments, self.named = arguments, named

    def forward(self, x: Tensor) -> Tensor:
        """The operator's result."""
        return type(self).operator(x, *self.arguments, **self.named)


class ReLU(_Function):
    """max(x, 0)."""

    operator = staticmethod(F.relu)


class ReLU6(_Function):
    """min(max(x, 0), 6)."""

    operator = staticmethod(F.relu6)


class LeakyReLU(_Function):
    """LeakyReLU(negative_slope=0.01): x, times `negative_slope` where x is below 0."""

    operator = staticmethod(F.leaky_relu)


class Hardswish(_Function):
    """x * min(max(x / 6 + 1/2, 0), 1)."""

    operator = staticmethod(F.hardswish)


class Hardsigmoid(_Function):
    """min(max(x / 6 + 1/2, 0), 1)."""

    operator = staticmethod(F.hardsigmoid)


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


class Upsample(_Function):
    """Upsample(size=None, scale_factor=None, mode="nearest", align_corners=None): larger or smaller images by "nearest"
    or "bilinear" interpolation.
    """

    operator = staticmethod(F.interpolate)


class Identity(Module):
    """x unchanged; as in PyTorch, arguments change nothing."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        del arguments, named

    def forward(self, x: Tensor) -> Tensor:
        """x itself."""
        return x


class Dropout(_Function):
    """Dropout(p=0.5): x unchanged, as dropout is for training."""

    operator = staticmethod(F.dropout)


def _need_last(x: Tensor, shape: tuple[int, ...]) -> None:
    """Raises NetworkError unless the last dimensions of x have the sizes `shape`."""
    for axis in range(-len(shape), 0):
        F.need(x, axis, shape[axis], "normalized_shape")

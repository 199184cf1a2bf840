"""Convolutions with the arguments and the parameters of PyTorch's layers of the same name."""

from __future__ import annotations

from math import prod, sqrt

from . import functional as F
from .arguments import need_positive, window_numbers
from .functional import Pair
from .module import Module, Parameter, uniform
from .spec import NetworkError
from .tensor import Tensor, record


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
        _check_channels(self, in_channels, out_channels, groups)
        kernel = _numbers(self, kernel_size=kernel_size)
        shape = (out_channels, in_channels // groups, *kernel)
        bound = uniform(1 / sqrt(prod(shape[1:])))
        self.weight = Parameter(shape, bound)
        self.bias = Parameter((out_channels,), bound) if bias else None
        self.in_channels, self.groups = in_channels, groups
        pads = window_numbers(type(self).__name__, "padding", padding, self.dims)
        self.window = (kernel, _numbers(self, stride=stride), pads, _numbers(self, dilation=dilation))

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, in_channels, rows, columns] to [batch, out_channels, ...]."""
        window = F.window(x, *self.window, dims=self.dims)
        F.need(x, 1, self.in_channels, "in_channels")
        return record("Conv", x, self.weight, self.bias, group=self.groups, **window)


class Conv1d(Conv2d):
    """A convolution of x [batch, in_channels, length]; weight [out_channels, in_channels / groups, kernel_size], bias
    [out_channels].
    """

    dims = 1


class ConvTranspose2d(Module):
    """A transposed convolution; weight [in_channels, out_channels / groups, rows, columns], bias [out_channels]."""

    dims = 2

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
        _check_channels(self, in_channels, out_channels, groups)
        kernel, kind = _numbers(self, kernel_size=kernel_size), type(self).__name__
        shape = (in_channels, out_channels // groups, *kernel)
        bound = uniform(1 / sqrt(prod(shape[1:])))
        self.weight = Parameter(shape, bound)
        self.bias = Parameter((out_channels,), bound) if bias else None
        self.in_channels = in_channels
        self.attributes = {
            "kernel_shape": kernel,
            "strides": _numbers(self, stride=stride),
            "pads": window_numbers(kind, "padding", padding, 2) * 2,
            "output_padding": window_numbers(kind, "output_padding", output_padding, 2),
            "group": groups,
            "dilations": _numbers(self, dilation=dilation),
        }

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, in_channels, rows, columns] to [batch, out_channels, ...]."""
        F.need_dims(x, 2)
        F.need(x, 1, self.in_channels, "in_channels")
        return record("ConvTranspose", x, self.weight, self.bias, **self.attributes)


def _numbers(module: Conv2d | ConvTranspose2d, **given: Pair) -> tuple[int, ...]:
    """The positive integers of one argument, by dimension. Raises NetworkError for other values."""
    ((name, value),) = given.items()
    return window_numbers(type(module).__name__, name, value, module.dims, least=1)


def _check_channels(module: Module, in_channels: int, out_channels: int, groups: int) -> None:
    """Raises NetworkError for numbers that are no positive integers, and for channels that `groups` does not divide."""
    need_positive(module, in_channels=in_channels, out_channels=out_channels, groups=groups)
    if in_channels % groups or out_channels % groups:
        raise NetworkError(
            f"{type(module).__name__}: {in_channels} and {out_channels} channels are no multiples of "
            f"groups = {groups}; change one"
        )

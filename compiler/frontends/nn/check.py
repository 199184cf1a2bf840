"""Checks of the arguments of layers and of the tensors that layers read. A check that fails raises NetworkError."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from .spec import NetworkError, Size, is_integer

if TYPE_CHECKING:
    from .tensor import Tensor

Pair = int | tuple[int, ...]
"""One number for each dimension of a window (rows, columns), or one integer for all dimensions."""


def positive(module: object, **given: object) -> None:
    """Checks that each argument of `module` is a positive integer."""
    for name, value in given.items():
        if not is_integer(value, 1):
            raise NetworkError(f"{type(module).__name__}: {name} is {value!r}; give a positive integer")


def multiple(module: object, **given: int) -> None:
    """Checks that both arguments of `module` are positive integers, and the first is a multiple of the second."""
    positive(module, **given)
    (name, total), (divisor, parts) = given.items()
    if total % parts:
        kind = type(module).__name__
        raise NetworkError(
            f"{kind}: {name} = {total} is not a multiple of {divisor} = {parts}; change one of them"
        )


def number(where: str, **given: object) -> None:
    """Checks that each argument is a finite number; the message begins with `where`."""
    for name, value in given.items():
        if not (isinstance(value, int | float | np.number) and isfinite(value)):
            raise NetworkError(f"{where}: {name} is {value!r}; give a number")


def integers(where: str, name: str, value: Any, dims: int, least: int = 1) -> tuple[int, ...]:
    """The argument `name` as `dims` integers, `least` or larger. One integer stands for all dimensions."""
    numbers: tuple[Any, ...] = tuple(value) if isinstance(value, tuple | list) else (value,) * dims
    if len(numbers) != dims or not all(is_integer(number, least) for number in numbers):
        several = f", or {dims} of them" if dims > 1 else ""
        raise NetworkError(f"{where}: {name} is {value!r}; give an integer, {least} or larger{several}")
    return tuple(int(number) for number in numbers)


def window(
    where: str, dims: int, kernel_size: Pair, stride: Pair | None, padding: Pair, dilation: Pair = 1
) -> dict[str, Any]:
    """ONNX's attributes of a window that slides over `dims` dimensions. A `stride` of None means the kernel size."""
    kernel = integers(where, "kernel_size", kernel_size, dims)
    return {
        "kernel_shape": kernel,
        "strides": kernel if stride is None else integers(where, "stride", stride, dims),
        "pads": integers(where, "padding", padding, dims, least=0) * 2,
        "dilations": integers(where, "dilation", dilation, dims),
    }


def room(x: Tensor, window: dict[str, Any]) -> None:
    """Checks that x has the dimensions that `window` slides over, each as long as the window or longer."""
    kernel = window["kernel_shape"]
    dims(x, len(kernel))
    for axis, extent in enumerate(kernel):
        places, reach = x.shape[2 + axis], (extent - 1) * window["dilations"][axis] + 1
        if not isinstance(places, str) and places + 2 * window["pads"][axis] < reach:
            raise x.recorder.mistake(
                f"the window of {'x'.join(map(str, kernel))} elements is larger than the input {x}; make "
                "kernel_size smaller or padding larger"
            )


def dims(x: Tensor, count: int) -> None:
    """Checks that x has a batch, channels, and `count` more dimensions."""
    if x.ndim != 2 + count:
        places = "length" if count == 1 else "rows, columns"
        raise x.recorder.mistake(
            f"the input is {x}, not [batch, channels, {places}]; use reshape or unsqueeze"
        )


def size(x: Tensor, axis: int, needed: Size, name: str) -> None:
    """Checks that x has `needed` elements along `axis`; `name` is the argument that sets the number."""
    if not -x.ndim <= axis < x.ndim or x.shape[axis] != needed:
        raise x.recorder.mistake(
            f"the input is {x}, but dimension {axis} must be {needed}, {name}; change one of them"
        )

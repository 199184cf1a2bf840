"""Inputs of networks for `export`, and checks of arguments. A check that fails raises NetworkError."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from textwrap import shorten
from typing import Any

import numpy as np

from vdla.util.errors import UserError

Size = int | str
"""Number of elements along a dimension; a string is a symbol that stands for a number known later ("batch")."""
Pair = int | tuple[int, ...]
"""One number for each dimension of a window (rows, columns), or one integer for all dimensions."""
DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
"""Names of the element types that an input may have."""


class NetworkError(UserError):
    """Raised for a mistake in a network of `vdla.nn`. The message names the module by its path, and the operator."""

    has_place = False
    """Whether the message begins with the path and class of a module."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input of a network: its shape and the name of its element type, as in ``Tensor(("batch", 784), "float32")``.

    A string in the shape is a symbol, which `vdla.compile` replaces by a number (`batch=`, `lengths=`). Raises
    NetworkError for other sizes than positive integers and symbols, and for an element type that is not in `DTYPES`.
    """

    shape: tuple[Size, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        wanted = 'sizes that are positive integers, or symbols such as "batch"'
        fits = all(is_integer(size, 1) or (isinstance(size, str) and size) for size in self.shape)
        need(fits, "nn.spec.Tensor: shape", self.shape, wanted)
        need(self.dtype in DTYPES, "nn.spec.Tensor: dtype", self.dtype, f"one of {', '.join(DTYPES)}")


def need(fits: object, name: str, value: object, wanted: str) -> None:
    """Raises NetworkError if `fits` is false. The message is "NAME is VALUE; give WANTED" with `name`, `value` and
    `wanted`; a long value is shortened.
    """
    if not fits:
        raise NetworkError(f"{name} is {shorten(repr(value), 200)}; give {wanted}")


def is_integer(value: object, least: float = -inf) -> bool:
    """Whether a value is an integer of Python or numpy, and `least` or larger. True and False are no integers."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def is_number(value: object) -> bool:
    """Whether a value is a finite number of Python or numpy. True and False are numbers."""
    return isinstance(value, int | float | np.number) and isfinite(value)


def integers(name: str, value: Any, dims: int | None = None, least: int = 1) -> tuple[int, ...]:
    """The `value` of the argument `name` as a tuple of `dims` integers, or of any number of integers if `dims` is None.
    A single integer stands for `dims` equal integers. Raises NetworkError for integers below `least`.
    """
    numbers: tuple[Any, ...] = tuple(value) if isinstance(value, tuple | list) else (value,) * (dims or 1)
    fits = len(numbers) == (dims or len(numbers)) and all(is_integer(number, least) for number in numbers)
    several = "" if dims == 1 else f", or {dims or 'a tuple'} of them"
    need(fits, name, value, f"an integer, {least} or larger{several}")
    return tuple(int(number) for number in numbers)


def check_arguments(module: object, **given: object) -> None:
    """Raises NetworkError unless each argument in `given` is a positive integer. An argument "eps" must be a finite
    number instead. The message begins with the class of `module`.
    """
    for name, value in given.items():
        fits, wanted = is_integer(value, 1), "a positive integer"
        if name == "eps":
            fits, wanted = is_number(value), "a number"
        need(fits, f"{type(module).__name__}: {name}", value, wanted)


def window(
    dims: int, kernel_size: Pair, stride: Pair | None, padding: Pair, dilation: Pair = 1, where: str = ""
) -> dict[str, Any]:
    """ONNX's attributes of a window that slides over `dims` dimensions. A `stride` of None means the kernel size.
    `padding`: elements added at both ends of a dimension.

    Messages of errors begin with `where`.
    """
    kernel = integers(f"{where}kernel_size", kernel_size, dims)
    strides = kernel if stride is None else integers(f"{where}stride", stride, dims)
    pads = integers(f"{where}padding", padding, dims, least=0) * 2
    dilations = integers(f"{where}dilation", dilation, dims)
    return {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations}


def need_room(x: Any, window: dict[str, Any]) -> None:
    """Raises NetworkError if a window is larger than x [batch, channels, ...] with the pads. `window`: ONNX's
    attributes of the window. If a size of x is a symbol, it counts as large enough.
    """
    kernel, pads, dilations = (window[name] for name in ("kernel_shape", "pads", "dilations"))
    for size, extent, pad, step in zip(x.shape[2:], kernel, pads, dilations, strict=False):
        fits = isinstance(size, str) or size + 2 * pad > (extent - 1) * step
        need(fits, "the window", kernel, f"a smaller kernel_size or more padding for the input {x}")


def need_size(x: Any, axis: int, needed: Size, name: str) -> None:
    """Raises NetworkError unless x has `needed` elements along `axis`; the message names the argument `name`, which
    requires this number.
    """
    if not -x.ndim <= axis < x.ndim or x.shape[axis] != needed:
        raise NetworkError(
            f"the input is {x}, but its dimension {axis} must be {needed} ({name}); change one of them"
        )

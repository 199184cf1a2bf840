"""Checks of the arguments of modules, when the modules are made."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from .spec import NetworkError


def is_integer(value: object) -> bool:
    """Whether a value is an integer of Python or numpy; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def need_positive(module: object, **given: Any) -> None:
    """Raises NetworkError, which names the class of `module`, unless each argument is a positive integer."""
    for name, value in given.items():
        if not (is_integer(value) and value > 0):
            raise NetworkError(f"{type(module).__name__}: {name} is {value!r}; give a positive integer")


def need_number(where: str, **given: object) -> None:
    """Raises NetworkError, which begins with `where`, unless each argument is a finite number."""
    for name, value in given.items():
        if not (isinstance(value, int | float | np.number) and isfinite(value)):
            raise NetworkError(f"{where}: {name} is {value!r}; give a number")


def normalized_sizes(module: object, value: Any) -> tuple[int, ...]:
    """The argument `normalized_shape` as a tuple. Raises NetworkError for other sizes than positive integers."""
    sizes: tuple[Any, ...] = tuple(value) if isinstance(value, tuple | list) else (value,)
    for size in sizes or (value,):
        need_positive(module, normalized_shape=size)
    return sizes


def window_numbers(where: str, name: str, value: Any, dims: int, least: int = 0) -> tuple[int, ...]:
    """The integers for the `dims` dimensions of a window; one integer stands for all dimensions.

    Raises NetworkError, which begins with `where` and names the argument, for other values, and below `least`.
    """
    numbers: tuple[Any, ...] = tuple(value) if isinstance(value, tuple | list) else (value,) * dims
    if len(numbers) != dims or not all(is_integer(number) and number >= least for number in numbers):
        several = f", or {dims} of them" if dims > 1 else ""
        raise NetworkError(f"{where}: {name} is {value!r}; give an integer, {least} or larger{several}")
    return tuple(int(number) for number in numbers)

"""Shapes and types of a network's inputs, for `export`."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from vdla.util.errors import UserError

Size = int | str
"""Number of elements along a dimension; a string is a symbol that stands for a number known later ("batch")."""
DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
"""Names of the element types that an input may have."""


class NetworkError(UserError):
    """Raised for a mistake in a network of `vdla.nn`: the line names the module by its path, and the operator."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input of a network: its shape and the name of its element type, as in ``Tensor(("batch", 784), "float32")``.

    A string in the shape is a symbol, which `vdla.compile` replaces by a number (`batch=`, `lengths=`). Raises
    NetworkError for other sizes than positive integers and symbols, and for an element type that is not in `DTYPES`.
    """

    shape: tuple[Size, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for size in self.shape:
            if not (isinstance(size, str) and size) and not (isinstance(size, int | np.integer) and size > 0):
                raise NetworkError(
                    f"nn.spec.Tensor: {size!r} in shape {tuple(self.shape)} is not a size; give a positive integer, "
                    'or a symbol such as "batch"'
                )
        need_dtype("nn.spec.Tensor", self.dtype)


def need_dtype(where: str, dtype: object) -> None:
    """Raises NetworkError unless `dtype` is in `DTYPES`; the message begins with `where`."""
    if dtype not in DTYPES:
        raise NetworkError(f"{where}: there is no element type {dtype!r}; give one of {', '.join(DTYPES)}")


def is_integer(value: object, least: float = -inf) -> bool:
    """Whether a value is an integer of Python or numpy, and `least` or larger. True and False are no integers."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)

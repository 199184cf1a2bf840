"""Shapes and types of a network's inputs, for `export`."""

from __future__ import annotations

from dataclasses import dataclass

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
                    f"nn.spec.Tensor: {size!r} in shape {tuple(self.shape)} is no size; give a positive integer, "
                    'or a symbol such as "batch"'
                )
        if self.dtype not in DTYPES:
            raise NetworkError(
                f"nn.spec.Tensor: there is no element type {self.dtype!r}; give one of {', '.join(DTYPES)}"
            )

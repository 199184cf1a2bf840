"""Element types of buffers and expressions."""

from __future__ import annotations

from enum import StrEnum

import numpy as np


class DType(StrEnum):
    """An element type. INT64 is the type of loop variables and indices; integers wrap in two's complement."""

    INT8 = "int8"
    UINT8 = "uint8"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    BOOL = "bool"

    # Enum hashes by a Python-level method; ours sits in hot dictionaries.
    __hash__ = str.__hash__

    @property
    def numpy(self) -> np.dtype:
        """The numpy dtype of the same name."""
        return np.dtype(self.value)

    @property
    def bits(self) -> int:
        """Storage width in bits (bool is stored in 8)."""
        return _BITS[self.value]

    @property
    def is_integer(self) -> bool:
        """True for the signed and unsigned integers, not for bool."""
        return self is not DType.FLOAT32 and self is not DType.BOOL

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest value of an integer type or bool; TypeError for float32."""
        if self is DType.FLOAT32:
            raise TypeError("float32 has no integer limits")
        return _LIMITS[self.value]

    def wrap(self, value: int) -> int:
        """`value` reduced to this integer type modulo 2**bits."""
        low, high = self.limits
        if low <= value <= high:
            return value
        return (value - low) % (high - low + 1) + low


_BITS = {"int8": 8, "uint8": 8, "int32": 32, "int64": 64, "float32": 32, "bool": 8}
_LIMITS = {
    "int8": (-(2**7), 2**7 - 1),
    "uint8": (0, 2**8 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "bool": (0, 1),
}

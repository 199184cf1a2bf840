"""Element types of buffers and expressions."""

from __future__ import annotations

from enum import StrEnum

import ml_dtypes
import numpy as np


class DType(StrEnum):
    """An element type. INT64 is the type of loop variables and indices; integers wrap in two's complement.

    Floats round to nearest, ties to even, after every operation; those of 16 bits too.
    """

    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOL = "bool"

    # Enum hashes by a Python-level method; ours sits in hot dictionaries.
    __hash__ = str.__hash__

    @property
    def numpy(self) -> np.dtype:
        """The numpy dtype of the same name; bfloat16 is that of ml_dtypes."""
        return _BFLOAT16 if self is DType.BFLOAT16 else np.dtype(self.value)

    @property
    def bits(self) -> int:
        """Storage width in bits (bool is stored in 8)."""
        return _BITS[self]

    @property
    def is_integer(self) -> bool:
        """True for the signed and unsigned integers, not for bool."""
        return self in _LIMITS and self is not DType.BOOL

    @property
    def is_unsigned(self) -> bool:
        """True for the unsigned integers and bool."""
        return self in _UNSIGNED

    @property
    def is_float(self) -> bool:
        """True for the floating-point types."""
        return self in _FLOATS

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest value of an integer type or bool; TypeError for floats."""
        if self in _FLOATS:
            raise TypeError(f"{self.value} has no integer limits")
        return _LIMITS[self]

    def wrap(self, value: int) -> int:
        """`value` reduced to this integer type modulo 2**bits."""
        low, high = self.limits
        if low <= value <= high:
            return value
        return (value - low) % (high - low + 1) + low


# By member: to ask a member for its value takes a Python-level call.
_FLOATS = frozenset({DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64})
_UNSIGNED = frozenset({DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64, DType.BOOL})
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_BITS = {
    DType.INT8: 8,
    DType.UINT8: 8,
    DType.INT16: 16,
    DType.UINT16: 16,
    DType.INT32: 32,
    DType.UINT32: 32,
    DType.INT64: 64,
    DType.UINT64: 64,
    DType.FLOAT16: 16,
    DType.BFLOAT16: 16,
    DType.FLOAT32: 32,
    DType.FLOAT64: 64,
    DType.BOOL: 8,
}
_LIMITS = {
    DType.INT8: (-(2**7), 2**7 - 1),
    DType.UINT8: (0, 2**8 - 1),
    DType.INT16: (-(2**15), 2**15 - 1),
    DType.UINT16: (0, 2**16 - 1),
    DType.INT32: (-(2**31), 2**31 - 1),
    DType.UINT32: (0, 2**32 - 1),
    DType.INT64: (-(2**63), 2**63 - 1),
    DType.UINT64: (0, 2**64 - 1),
    DType.BOOL: (0, 1),
}

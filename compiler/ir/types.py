"""Element types of buffers and expressions."""

from __future__ import annotations

from enum import StrEnum

import ml_dtypes
import numpy as np


class DType(StrEnum):
    """An element type. INT64 is the type of loop variables and indices; integers wrap in two's complement.

    The types declared after BOOL, all of 8 bits or less, are stored as codes (bit patterns, a byte each): programs only
    move codes, and convert them by the call "bitcast" (`te.small_types`). Floats, also of 16 bits, round to nearest,
    ties to even, after every operation.
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
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E4M3FNUZ = "float8_e4m3fnuz"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT8_E5M2FNUZ = "float8_e5m2fnuz"
    FLOAT8_E8M0 = "float8_e8m0fnu"
    FLOAT4_E2M1 = "float4_e2m1fn"
    INT4 = "int4"
    UINT4 = "uint4"
    INT2 = "int2"
    UINT2 = "uint2"

    # Enum hashes by a Python-level method, too slow for the frequently used dictionaries of types.
    __hash__ = str.__hash__

    @property
    def numpy(self) -> np.dtype:
        """The numpy dtype of the same name; bfloat16 and codes (of at most 8 bits) have dtypes of package ml_dtypes."""
        return _ML_DTYPES[self] if self in _ML_DTYPES else np.dtype(self.value)

    @property
    def bits(self) -> int:
        """Width in bits in memory (bool and codes take 8 bits)."""
        return _BITS.get(self, 8)

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer type; bool is not."""
        return self in _LIMITS and self is not DType.BOOL

    @property
    def is_unsigned(self) -> bool:
        """Whether this is an unsigned integer type or bool."""
        return self in _UNSIGNED

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self in _FLOATS

    @property
    def is_code(self) -> bool:
        """Whether this type is stored as codes (bit patterns, a byte each), without arithmetic."""
        return self in _CODES

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest value of an integer type or bool; raises TypeError for floats and codes."""
        if self in _FLOATS or self in _CODES:
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
CODES = tuple(
    dtype for dtype in DType if dtype.value.startswith(("float8", "float4", "int4", "uint4", "int2", "uint2"))
)
"""The element types that are stored as codes (bit patterns, a byte each), without arithmetic."""
HALVES = (DType.FLOAT16, DType.BFLOAT16)
"""16-bit floats. Arithmetic on them is computed in float32 and rounded once; moves and comparisons use the type."""
_CODES = frozenset(CODES)
_ML_DTYPES = {dtype: np.dtype(getattr(ml_dtypes, dtype.value)) for dtype in (DType.BFLOAT16, *_CODES)}
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

"""Number types of at most 8 bits, which tensors hold as integer codes: decoding and encoding.

Most formats are from the OCP specifications of 8-bit floats (2023) and of microscaling (2023). Formats with "uz" in
their name (no infinities, one zero) are from Noune et al., "8-bit Numerical Formats for Deep Neural Networks" (2022).
Names and codes are as in `ml_dtypes`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..ir.expr import Expr, cast, dtype_of, equal, minimum, select, wrap
from ..ir.types import DType
from .scalars import absolute, bit_cast, of_bits, round_half_even

INTEGERS: Mapping[DType, int] = MappingProxyType(
    {DType.INT4: 4, DType.UINT4: 4, DType.INT2: 2, DType.UINT2: 2}
)
"""Integer types, each with its number of bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A small float format: bits of its mantissa, bias of its exponent, code of its greatest finite number, and special
    codes.

    `sign` is the code's sign bit. `infinity` and `nan` are None if the type lacks them; `instead` is the code that
    replaces NaN in a type without NaN. With `one_zero` the code of -0 is NaN.
    """

    mantissa: int
    bias: int
    greatest: int
    sign: int = 0x80
    infinity: int | None = None
    nan: int | None = None
    instead: int | None = None
    one_zero: bool = False


FLOATS: Mapping[DType, Format] = MappingProxyType(
    {
        DType.FLOAT8_E4M3FN: Format(mantissa=3, bias=7, greatest=0x7E, nan=0x7F),
        DType.FLOAT8_E4M3FNUZ: Format(mantissa=3, bias=8, greatest=0x7F, nan=0x80, one_zero=True),
        DType.FLOAT8_E5M2: Format(mantissa=2, bias=15, greatest=0x7B, infinity=0x7C, nan=0x7E),
        DType.FLOAT8_E5M2FNUZ: Format(mantissa=2, bias=16, greatest=0x7F, nan=0x80, one_zero=True),
        DType.FLOAT4_E2M1: Format(mantissa=1, bias=1, greatest=0x7, sign=0x8, instead=0x8),
    }
)


def decoded(code: Expr) -> Expr:
    """The number that a code stands for: float32, or int32 for integer types."""
    dtype = dtype_of(code)
    whole = cast(bit_cast(code, DType.UINT8), DType.INT32)
    if dtype in INTEGERS:
        bits = INTEGERS[dtype]
        kept = _and(whole, (1 << bits) - 1)
        if dtype in (DType.UINT4, DType.UINT2):
            return kept
        half = 1 << (bits - 1)
        return _bits("bit_xor", kept, half) - half
    if dtype is DType.FLOAT8_E8M0:
        # 2**-127 is subnormal in float32.
        power = select(equal(whole, 0), wrap(0x400000, DType.INT32), _bits("shift_left", whole, 23))
        return select(equal(whole, 255), wrap(math.nan, DType.FLOAT32), bit_cast(power, DType.FLOAT32))
    form = FLOATS[dtype]
    size = _and(whole, form.sign - 1)
    scaled = bit_cast(_bits("shift_left", size, 23 - form.mantissa), DType.FLOAT32)
    number = scaled * wrap(2.0 ** (127 - form.bias), DType.FLOAT32)
    if form.infinity is not None:
        number = select(equal(size, form.infinity), wrap(math.inf, DType.FLOAT32), number)
    if form.nan is not None and not form.one_zero:
        number = select(
            wrap(form.greatest if form.infinity is None else form.infinity, DType.INT32) < size,
            wrap(math.nan, DType.FLOAT32),
            number,
        )
    number = select(equal(_and(whole, form.sign), 0), number, number * -1.0)
    if form.one_zero:
        number = select(equal(whole, form.sign), wrap(math.nan, DType.FLOAT32), number)
    return number


def encoded(number: Expr, dtype: DType, *, saturate: bool = True, rounding: str = "up") -> Expr:
    """The code in type `dtype` of `number`: a float32, rounded to nearest, ties to even; or, for an integer `dtype`, an
    int32 whose lowest bits are the code.

    A number may be rounded to more than the greatest number of the type. With `saturate` it then becomes this greatest
    number. Otherwise it becomes infinity; or NaN, if the type has no infinity; or the greatest number, if the type has
    neither. `rounding` ("up", "down" or "nearest") is for float8_e8m0, which has only powers of two.
    """
    if dtype in INTEGERS:
        kept = _and(number, (1 << INTEGERS[dtype]) - 1)
        return bit_cast(cast(kept, DType.UINT8), dtype)
    if dtype is DType.FLOAT8_E8M0:
        return _power(number, saturate=saturate, rounding=rounding)
    form = FLOATS[dtype]
    bits = bit_cast(number, DType.INT32)
    size = _and(bits, 0x7FFFFFFF)
    dropped = 23 - form.mantissa
    odd = _and(_bits("shift_right", size, dropped), 1)
    normal = _bits("shift_right", size + odd + ((1 << (dropped - 1)) - 1), dropped) - (
        (127 - form.bias) << form.mantissa
    )
    # Below the least normal number, values are whole multiples of the least subnormal one.
    least = 2.0 ** (1 - form.bias)
    near = minimum(absolute(number), wrap(least, DType.FLOAT32))
    multiple = round_half_even(near * wrap(2.0 ** (form.mantissa + form.bias - 1), DType.FLOAT32))
    code = select(absolute(number) < wrap(least, DType.FLOAT32), cast(multiple, DType.INT32), normal)
    top = wrap(form.greatest, DType.INT32)
    over = form.infinity if form.infinity is not None else form.nan
    if saturate or over is None:
        code = minimum(code, top)
        beyond = code
    else:
        beyond = select(top < code, wrap(over, DType.INT32), code)
    sign = select(bits < 0, wrap(form.sign, DType.INT32), wrap(0, DType.INT32))
    if form.one_zero:
        sign = select(equal(beyond, 0), wrap(0, DType.INT32), sign)
        if not saturate:
            sign = select(top < code, wrap(0, DType.INT32), sign)
    result = beyond + sign
    no_number = form.nan if form.instead is None else form.instead
    if no_number is not None:
        signed = form.instead is None and not form.one_zero
        nan = wrap(no_number, DType.INT32) + (sign if signed else 0)
        result = select(wrap(0x7F800000, DType.INT32) < size, nan, result)
    return bit_cast(cast(result, DType.UINT8), dtype)


def _power(number: Expr, *, saturate: bool, rounding: str) -> Expr:
    """The float8_e8m0 code of a number as ONNX's Cast computes it: its exponent, plus one if the mantissa is rounded up
    (`rounding`); NaN if the number is not finite. If the greatest number of the type would be rounded up, it stays as
    it is with `saturate`, and becomes NaN without.
    """
    bits = bit_cast(number, DType.INT32)
    exponent = _and(_bits("shift_right", bits, 23), 0xFF)
    rest = _and(bits, 0x7FFFFF)
    zero, one = wrap(0, DType.INT32), wrap(1, DType.INT32)
    more = zero
    if rounding == "up":
        more = select(zero < rest, one, zero)
    elif rounding == "nearest":
        # A tie is rounded up, except for subnormal numbers.
        half = wrap(0x400000, DType.INT32)
        more = select(half < rest, one, select(equal(rest, half), select(zero < exponent, one, zero), zero))
    result = exponent + more
    if saturate:
        result = minimum(result, 0xFE)
    result = select(equal(exponent, 0xFF), wrap(0xFF, DType.INT32), result)
    return bit_cast(cast(result, DType.UINT8), DType.FLOAT8_E8M0)


def _and(value: Expr, mask: int) -> Expr:
    return _bits("bit_and", value, mask)


def _bits(function: str, value: Expr, amount: int) -> Expr:
    return of_bits(function, value, wrap(amount, DType.INT32))

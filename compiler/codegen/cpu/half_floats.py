"""float16 and bfloat16 in generated code: stored as bits in registers of 16 bits, computed in float32.

Conversions are integer operations, so that every processor supports them, with or without instructions for these types.
A sum, difference or product that is computed in float32 and then rounded to 16 bits equals the result of the operation
in 16 bits, because float32 has enough bits of mantissa: 24 = 2 * 11 + 2 (Figueroa, "When is double rounding
innocuous?", 1995).
"""

from __future__ import annotations

from ...ir.types import DType
from .text import Block, Value, constant, type_text

HALF_FLOATS = (DType.FLOAT16, DType.BFLOAT16)

_MAGNITUDE = 0x7FFFFFFF
_INFINITY = 0x7F800000
_REBIAS = (127 - 15) << 23
"""Difference of the exponent biases of float16 and float32, shifted to the bits of float32's exponent."""


def widen(block: Block, value: Value) -> Value:
    """A 16-bit float converted to float32, exactly; values of other types unchanged."""
    if value.dtype not in HALF_FLOATS:
        return value
    m = _Bits(block, value.lanes)
    bits = block.define(f"zext {value.typed} to {m.type}", DType.INT32, value.lanes)
    if value.dtype is DType.BFLOAT16:
        return m.float(m.apply("shl", bits, 16))
    sign = m.apply("shl", m.apply("and", bits, 0x8000), 16)
    moved = m.apply("shl", m.apply("and", bits, 0x7FFF), 13)
    scaled = block.binary("fmul", m.float(moved), constant(2.0**112, DType.FLOAT32, value.lanes))
    special = m.compare("uge", moved, 0x7C00 << 13)
    number = block.select(special, m.apply("or", moved, _INFINITY), m.bits(scaled))
    return m.float(block.binary("or", number, sign))


def narrow(block: Block, value: Value, dtype: DType) -> Value:
    """A float32 rounded to the 16-bit float type `dtype`, to nearest, ties to even."""
    m = _Bits(block, value.lanes)
    bits = m.bits(value)
    number = m.apply("and", bits, _MAGNITUDE)
    odd = m.apply("and", m.apply("lshr", bits, 16 if dtype is DType.BFLOAT16 else 13), 1)
    unordered = m.compare("ugt", number, _INFINITY)
    if dtype is DType.BFLOAT16:
        rounded = m.apply("lshr", block.binary("add", m.apply("add", bits, 0x7FFF), odd), 16)
        quiet = m.apply("or", m.apply("lshr", bits, 16), 0x40)
        result = block.select(unordered, quiet, rounded)
    else:
        normal = m.apply("lshr", m.apply("add", block.binary("add", number, odd), 0xFFF - _REBIAS), 13)
        # Below the least normal number: adding 1/2 leaves the multiple of 2**-24 in the lowest bits, rounded.
        shifted = block.binary("fadd", m.float(number), constant(0.5, DType.FLOAT32, value.lanes))
        small = m.apply("sub", m.bits(shifted), 126 << 23)
        result = block.select(m.compare("ult", number, _REBIAS + (1 << 23)), small, normal)
        beyond = block.select(unordered, m.number(0x7E00), m.number(0x7C00))
        result = block.select(m.compare("uge", number, _REBIAS + (31 << 23)), beyond, result)
        sign = m.apply("and", m.apply("lshr", bits, 16), 0x8000)
        result = block.binary("or", result, sign)
    return block.define(f"trunc {result.typed} to {type_text(dtype, value.lanes)}", dtype, value.lanes)


def round_tf32(block: Block, value: Value) -> Value:
    """A float32 rounded to 10 bits of mantissa, to nearest, ties away from zero; infinities and NaN unchanged."""
    m = _Bits(block, value.lanes)
    bits = m.bits(value)
    special = block.binary("icmp eq", m.apply("and", bits, _INFINITY), m.number(_INFINITY), DType.BOOL)
    rounded = m.apply("and", m.apply("add", bits, 0x1000), -0x2000)
    return m.float(block.select(special, bits, rounded))


class _Bits:
    """Integer operations on the bits of float32 values."""

    def __init__(self, block: Block, lanes: int) -> None:
        self.block = block
        self.lanes = lanes
        self.type = type_text(DType.INT32, lanes)

    def number(self, value: int) -> Value:
        return constant(value, DType.INT32, self.lanes)

    def apply(self, instruction: str, a: Value, b: int) -> Value:
        return self.block.binary(instruction, a, self.number(b))

    def compare(self, how: str, a: Value, b: int) -> Value:
        return self.block.binary(f"icmp {how}", a, self.number(b), DType.BOOL)

    def bits(self, value: Value) -> Value:
        return self.block.define(f"bitcast {value.typed} to {self.type}", DType.INT32, self.lanes)

    def float(self, value: Value) -> Value:
        to = type_text(DType.FLOAT32, self.lanes)
        return self.block.define(f"bitcast {value.typed} to {to}", DType.FLOAT32, self.lanes)

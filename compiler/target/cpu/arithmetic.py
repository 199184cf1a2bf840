"""Arithmetic of the IR as instructions on values that are there: wrapping integers, NaN in extremes, conversions."""

from __future__ import annotations

from ...ir.types import DType
from .half_floats import HALF_FLOATS, narrow, widen
from .text import Block, Value, constant, type_text


def extremum(block: Block, op: str, x: Value, y: Value, second_is_number: bool = False) -> Value:
    """The lesser or greater of two; a float NaN on either side is the result."""
    if x.dtype is not DType.FLOAT32:
        sign = "u" if x.dtype in (DType.UINT8, DType.BOOL) else "s"
        condition = block.binary(f"icmp {sign}{'lt' if op == 'min' else 'gt'}", y, x, DType.BOOL)
        return block.select(condition, y, x)
    # y if y beats x, else x: one instruction on x86, which gives x where x is not a number.
    condition = block.binary(f"fcmp {'olt' if op == 'min' else 'ogt'}", y, x, DType.BOOL)
    result = block.select(condition, y, x)
    if second_is_number:
        return result
    unordered = block.binary("fcmp uno", y, y, DType.BOOL)
    return block.select(unordered, y, result)


def floor_divide(block: Block, op: str, x: Value, divisor: int) -> Value:
    """`x // divisor` or `x % divisor` for a divisor above 0."""
    dtype = x.dtype
    y = constant(divisor, dtype)
    if dtype is DType.UINT8:
        return block.binary("udiv" if op == "//" else "urem", x, y)
    if divisor & (divisor - 1) == 0:
        if op == "//":
            return block.binary("ashr", x, constant(divisor.bit_length() - 1, dtype))
        return block.binary("and", x, constant(divisor - 1, dtype))
    rest = block.binary("srem", x, y)
    negative = block.binary("icmp slt", rest, constant(0, dtype), DType.BOOL)
    if op == "%":
        return block.select(negative, block.binary("add", rest, y), rest)
    quotient = block.binary("sdiv", x, y)
    return block.select(negative, block.binary("sub", quotient, constant(1, dtype)), quotient)


def convert(block: Block, value: Value, dtype: DType) -> Value:
    """A value converted as `Cast` says; floats beyond int64 saturate there first, NaN is 0."""
    source = value.dtype
    if source is dtype:
        return value
    if source in HALF_FLOATS:
        return convert(block, widen(block, value), dtype)
    if dtype in HALF_FLOATS:
        return narrow(block, convert(block, value, DType.FLOAT32), dtype)
    if dtype is DType.BOOL:
        zero = constant(0, source)
        comparison = "fcmp une" if source is DType.FLOAT32 else "icmp ne"
        return block.binary(comparison, value, zero, DType.BOOL)
    to = type_text(dtype, value.lanes)
    unsigned = source in (DType.UINT8, DType.BOOL)
    if dtype is DType.FLOAT32:
        word = "uitofp" if unsigned else "sitofp"
    elif source is DType.FLOAT32:
        wide = type_text(DType.INT64, value.lanes)
        name = f"llvm.fptosi.sat.{suffix(DType.INT64, value.lanes)}.{suffix(source, value.lanes)}"
        whole = Value(block.call(wide, name, (value.type, value.text)), DType.INT64, value.lanes)
        return convert(block, whole, dtype)
    elif max(source.bits, 1) >= dtype.bits and source is not DType.BOOL:
        if source.bits == dtype.bits:
            return Value(value.text, dtype, value.lanes)
        word = "trunc"
    else:
        word = "zext" if unsigned else "sext"
    return block.define(f"{word} {value.typed} to {to}", dtype, value.lanes)


def suffix(dtype: DType, lanes: int) -> str:
    """How LLVM's intrinsics spell a type in their names."""
    scalar = {"float": "f32"}.get(type_text(dtype), type_text(dtype))
    return scalar if lanes == 1 else f"v{lanes}{scalar}"


def memory_suffix(dtype: DType, lanes: int) -> str:
    """The same for what lies in memory."""
    return suffix(DType.INT8 if dtype is DType.BOOL else dtype, lanes)


def comparison(op: str, dtype: DType) -> str:
    """The instruction of a comparison."""
    if dtype is DType.FLOAT32:
        return "fcmp " + {"<": "olt", "<=": "ole", "==": "oeq", "!=": "une"}[op]
    sign = "u" if dtype in (DType.UINT8, DType.BOOL) else "s"
    return "icmp " + {"<": f"{sign}lt", "<=": f"{sign}le", "==": "eq", "!=": "ne"}[op]

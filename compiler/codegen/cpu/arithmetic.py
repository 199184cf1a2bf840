"""Arithmetic of the IR as LLVM instructions on values: wrapping integers, NaN in extremes, conversions."""

from __future__ import annotations

from ...ir.types import DType
from .half_floats import HALF_FLOATS, narrow, widen
from .text import Block, Value, constant, type_text


def extremum(block: Block, op: str, x: Value, y: Value, second_is_number: bool = False) -> Value:
    """The lesser or greater of two; a float NaN on either side is the result."""
    if not x.dtype.is_float:
        sign = "u" if x.dtype.is_unsigned else "s"
        condition = block.binary(f"icmp {sign}{'lt' if op == 'min' else 'gt'}", y, x, DType.BOOL)
        return block.select(condition, y, x)
    # y if y is beyond x, else x: one instruction on x86, which returns x if x is not a number.
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
    if dtype.is_unsigned:
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
    """A value converted with the semantics of `Cast`; floats beyond the range of int64 (or uint64) saturate first, NaN
    is 0.
    """
    source = value.dtype
    if source is dtype:
        return value
    if source in HALF_FLOATS:
        return convert(block, widen(block, value), dtype)
    if dtype in HALF_FLOATS:
        return narrow(block, convert(block, value, DType.FLOAT32), dtype)
    if dtype is DType.BOOL:
        zero = constant(0, source)
        comparison = "fcmp une" if source.is_float else "icmp ne"
        return block.binary(comparison, value, zero, DType.BOOL)
    to = type_text(dtype, value.lanes)
    unsigned = source.is_unsigned
    if dtype.is_float and source.is_float:
        word = "fpext" if dtype.bits > source.bits else "fptrunc"
    elif dtype.is_float:
        word = "uitofp" if unsigned else "sitofp"
    elif source.is_float:
        held, word = (DType.UINT64, "u") if dtype is DType.UINT64 else (DType.INT64, "s")
        wide = type_text(held, value.lanes)
        name = f"llvm.fpto{word}i.sat.{suffix(held, value.lanes)}.{suffix(source, value.lanes)}"
        whole = Value(block.call(wide, name, (value.type, value.text)), held, value.lanes)
        return convert(block, whole, dtype)
    elif max(source.bits, 1) >= dtype.bits and source is not DType.BOOL:
        if source.bits == dtype.bits:
            return Value(value.text, dtype, value.lanes)
        word = "trunc"
    else:
        word = "zext" if unsigned else "sext"
    return block.define(f"{word} {value.typed} to {to}", dtype, value.lanes)


def suffix(dtype: DType, lanes: int) -> str:
    """The spelling of a type in the names of LLVM's intrinsics."""
    scalar = {"float": "f32", "double": "f64"}.get(type_text(dtype), type_text(dtype))
    return scalar if lanes == 1 else f"v{lanes}{scalar}"


def memory_suffix(dtype: DType, lanes: int) -> str:
    """`suffix` of a type in memory, where bools are bytes."""
    return suffix(DType.INT8 if dtype is DType.BOOL else dtype, lanes)


def comparison(op: str, dtype: DType) -> str:
    """The LLVM instruction of a comparison, with its predicate."""
    if dtype.is_float:
        return "fcmp " + {"<": "olt", "<=": "ole", "==": "oeq", "!=": "une"}[op]
    sign = "u" if dtype.is_unsigned else "s"
    return "icmp " + {"<": f"{sign}lt", "<=": f"{sign}le", "==": "eq", "!=": "ne"}[op]

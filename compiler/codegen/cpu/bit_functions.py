"""Scalar functions of integers and of bits: shifts, masks, quotients rounded toward zero and their remainders."""

from __future__ import annotations

from ...ir.types import DType
from .half_floats import HALF_FLOATS, narrow, widen
from .text import Block, Value, constant, type_text

_MASKS = {"bit_and": "and", "bit_or": "or", "bit_xor": "xor"}
_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "round_even": "roundeven", "truncate": "trunc"}


def call_bits(block: Block, name: str, arguments: list[Value], dtype: DType) -> Value | None:
    """Emits the scalar function `name`, with a result of type `dtype`, on `arguments`, lane by lane. Returns None if
    this file does not define `name` for this type.
    """
    if name == "bitcast":
        return _bitcast(block, arguments[0], dtype)
    if name in _ROUNDINGS and dtype.is_float:
        return _rounded(block, _ROUNDINGS[name], arguments[0])
    if name == "fmod" and dtype.is_float:
        return None
    if not dtype.is_integer or len(arguments) != 2:
        return None
    lanes = max(a.lanes for a in arguments)
    x, y = (block.splat(a, lanes) for a in arguments)
    if name in _MASKS:
        return block.binary(_MASKS[name], x, y)
    if name in ("shift_left", "shift_right"):
        # LLVM defines no result for shifts by all bits or more.
        word = "shl" if name == "shift_left" else "lshr" if dtype.is_unsigned else "ashr"
        inside = block.binary("icmp ult", y, constant(dtype.bits, dtype, lanes), DType.BOOL)
        most = constant(dtype.bits - 1, dtype, lanes)
        moved = block.binary(word, x, block.select(inside, y, most))
        # An arithmetic shift by all bits leaves copies of the sign.
        return moved if word == "ashr" else block.select(inside, moved, constant(0, dtype, lanes))
    if name in ("quotient", "remainder"):
        return _divided(block, name, x, y)
    return None


def _divided(block: Block, name: str, x: Value, y: Value) -> Value:
    """x / y rounded toward zero (`name` "quotient"), or the remainder of this division (`name` "remainder"). The result
    is 0 where y is 0, as in numpy; the machine's instruction would stop the process there.
    """
    dtype, lanes = x.dtype, x.lanes
    zero, one = constant(0, dtype, lanes), constant(1, dtype, lanes)
    nothing = block.binary("icmp eq", y, zero, DType.BOOL)
    safe = block.select(nothing, one, y)
    if dtype.is_unsigned:
        result = block.binary("udiv" if name == "quotient" else "urem", x, safe)
        return block.select(nothing, zero, result)
    # The least number divided by -1 would also stop the process.
    negated = block.binary("icmp eq", y, constant(-1, dtype, lanes), DType.BOOL)
    safe = block.select(negated, one, safe)
    if name == "remainder":
        # Divisors 0 and -1 were replaced by 1, which leaves remainder 0.
        return block.binary("srem", x, safe)
    result = block.binary("sdiv", x, safe)
    result = block.select(negated, block.binary("sub", zero, x), result)
    return block.select(nothing, zero, result)


def _rounded(block: Block, name: str, x: Value) -> Value:
    if x.dtype in HALF_FLOATS:
        return narrow(block, _rounded(block, name, widen(block, x)), x.dtype)
    scalar = "f64" if x.dtype is DType.FLOAT64 else "f32"
    suffix = scalar if x.lanes == 1 else f"v{x.lanes}{scalar}"
    return Value(block.call(x.type, f"llvm.{name}.{suffix}", (x.type, x.text)), x.dtype, x.lanes)


def _bitcast(block: Block, x: Value, dtype: DType) -> Value:
    """The bits of `x` as type `dtype` of equal size; 16-bit floats are represented by their bits."""
    to = type_text(dtype, x.lanes)
    if x.type == to:
        return Value(x.text, dtype, x.lanes)
    return block.define(f"bitcast {x.typed} to {to}", dtype, x.lanes)

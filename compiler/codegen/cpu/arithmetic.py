"""Arithmetic of the IR as LLVM instructions: integers that wrap, minimum and maximum that propagate NaN, conversions,
quantized arithmetic.

Quantized arithmetic is vector code, bit-exact to `vdla.isa.arithmetic`: requantization, addition or multiplication of
two quantized values, and QuantizeLinear. Each of these functions ends in `Quantized.saturate`. Limits are integers, so
clamping before rounding equals clamping after it, and the clamped value is small enough to be rounded by one addition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdla.isa.scales import INT8_HIGH, INT8_LOW

from ...ir.types import DType
from .errors import LoweringError
from .functions import ROUNDING
from .half_floats import HALF_FLOATS, narrow, widen
from .machine import CpuTarget
from .text import Block, Value, constant, type_text


def floor_divide(block: Block, op: str, x: Value, divisor: int) -> Value:
    """The integer `x // divisor`, rounded down, or `x % divisor`, according to `op`, for a divisor above 0."""
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
    """`value` converted to `dtype`, as `Cast` of the IR does. For an integer type a float first saturates to int64 (to
    uint64 if that is `dtype`) and then wraps to `dtype`; NaN becomes 0.
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
    """The suffix for a type in the names of LLVM's intrinsics, such as "v8f32"."""
    scalar = {"float": "f32", "double": "f64"}.get(type_text(dtype), type_text(dtype))
    return scalar if lanes == 1 else f"v{lanes}{scalar}"


def memory_suffix(dtype: DType, lanes: int) -> str:
    """The suffix for a type in memory in the names of LLVM's intrinsics: "v8i8" for 8 bools (bytes in memory)."""
    return suffix(DType.INT8 if dtype is DType.BOOL else dtype, lanes)


def comparison(op: str, dtype: DType) -> str:
    """The LLVM instruction of comparison `op` ("<", "<=", "==", "!=") of `dtype`s, such as "fcmp olt" or "icmp ult"."""
    if dtype.is_float:
        return "fcmp " + {"<": "olt", "<=": "ole", "==": "oeq", "!=": "une"}[op]
    sign = "u" if dtype.is_unsigned else "s"
    return "icmp " + {"<": f"{sign}lt", "<=": f"{sign}le", "==": "eq", "!=": "ne"}[op]


_OF_OPERATORS = frozenset({"rescale", "combine_add", "combine_multiply"})
"""Names of the quantized functions for operators other than sums of products; `quantized_operators` emits them."""
Known = int | float | None
"""The value of an argument of a function if it is constant when the code is emitted, else None."""


def call_quantized(
    block: Block,
    target: CpuTarget,
    name: str,
    arguments: Sequence[Value],
    known: Sequence[Known],
) -> Value | None:
    """Emits a call of the quantized function `name` (`vdla.compiler.te.functions`) on `arguments` and returns its
    value; None if `name` is not a quantized function. `known`: the value of each argument if it is constant, else None.

    Raises LoweringError if a zero point, limit or `unsigned` is not constant.
    """
    if name in _OF_OPERATORS:
        from .quantized_operators import QuantizedOperator

        return QuantizedOperator(block, target, name, arguments, known).value()
    q = Quantized(block, target, name, arguments, known)
    functions: dict[str, Callable[[], Value]] = {
        "float32_from_bits": q.float32_from_bits,
        "requantize": q.requantize,
        "quantize": q.quantize,
    }
    return functions[name]() if name in functions else None


class Quantized:
    """One call of a quantized function: its arguments, and the block into which its code is emitted."""

    def __init__(
        self,
        block: Block,
        target: CpuTarget,
        name: str,
        arguments: Sequence[Value],
        known: Sequence[Known],
    ) -> None:
        self.block = block
        self.target = target
        self.name = name
        self.arguments = arguments
        self.known = known

    def float32_from_bits(self) -> Value:
        """Emits the float32 whose bits are the int32 argument of the call."""
        return self.cast("bitcast", self.arguments[0], DType.FLOAT32)

    def requantize(self) -> Value:
        """Emits the requantization of an int32 sum to 8 bits: sum * scale, rounded, plus the zero point, clamped. The
        arguments of the call are (sum, scale, zero point, low, high)."""
        total, scale = self.arguments[:2]
        return self.scaled(total, scale, self.whole(2), self.whole(3), self.whole(4))

    def quantize(self) -> Value:
        """Emits x / scale, rounded, plus the zero point, clamped to int8; NaN gives any int8. The arguments of the call
        are (x, scale, zero point).
        """
        quotient = self.block.binary("fdiv", self.arguments[0], self.arguments[1])
        return self.saturate(quotient, self.whole(2), INT8_LOW, INT8_HIGH)

    def scaled(self, total: Value, scale: Value, zero_point: int, low: int, high: int) -> Value:
        """Requantizes an int32 `total`: rounds total * scale half to even, adds `zero_point`, clamps to low .. high."""
        product = self.block.binary("fmul", self.to_float(total), scale)
        return self.saturate(product, zero_point, low, high)

    def saturate(self, value: Value, zero_point: int, low: int, high: int) -> Value:
        """`value` rounded half to even, plus `zero_point`, clamped to low .. high."""
        block = self.block
        limited = block.extremum("max", value, constant(low - zero_point, DType.FLOAT32), True)
        limited = block.extremum("min", limited, constant(high - zero_point, DType.FLOAT32), True)
        # The lowest byte of ROUNDING's bits is 0, so that of the sum is the whole number.
        shifted = block.binary("fadd", limited, constant(ROUNDING, DType.FLOAT32))
        octets = self.cast("trunc", self.cast("bitcast", shifted, DType.INT32), DType.INT8)
        return block.binary("add", octets, constant(zero_point, DType.INT8)) if zero_point else octets

    def to_float(self, value: Value) -> Value:
        """An int32 as the nearest float32."""
        return convert(self.block, value, DType.FLOAT32)

    def cast(self, word: str, value: Value, dtype: DType) -> Value:
        """Converts `value` to `dtype` by one LLVM instruction, whose opcode is `word`."""
        return self.block.define(
            f"{word} {value.typed} to {type_text(dtype, value.lanes)}", dtype, value.lanes
        )

    def whole(self, position: int) -> int:
        """The integer value of argument number `position`. Raises LoweringError if the argument is not constant."""
        value = self.known[position]
        if value is None:
            raise LoweringError(f"argument {position} of {self.name} must be a constant on this target")
        return int(value)

"""Vector code for scalar functions (`Call`); no mathematical library is called.

The polynomials are fitted to float64 values for the least relative error.
`tests/compiler/codegen/cpu/test_functions.py` checks that each function is accurate to a few units in the last place
for all arguments, infinities and NaN included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.types import DType
from .bit_functions import call_bits
from .errors import LoweringError
from .text import Block, Value, constant, type_text

LN2_HIGH, LN2_LOW = 0.693145751953125, 1.4286068203094173e-06
"""ln 2 as a sum of two numbers; the first has so few bits that its product with the exponent of a float32 is exact."""
ROUNDING = 12582912.0
"""1.5 * 2**23: adding it to a float32 below 2**22 leaves the nearest whole number in the lowest bits of the sum."""
EXP_TERMS = (1.0, 1.0, 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040)
"""Taylor series of exp x, up to |x| = ln 2 / 2, where the remainder is below 2**-27."""
LOG_TERMS = (2.0, 2 / 3, 2 / 5, 2 / 7, 2 / 9)
"""Series of log m = 2 artanh s, where s = (m - 1) / (m + 1), in powers of s**2 for s**2 up to 0.1716**2."""
TANH_NEAR = 0.625
TANH_TERMS = (1.0, -0.3333325982093811, 0.13331127166748047, -0.05372106656432152, 0.02059098333120346, -0.005659984890371561)  # fmt: skip  # noqa: E501
"""Polynomial of tanh x / x in x**2 up to TANH_NEAR**2; relative error 4e-9."""
ERF_TERMS = (1.128379225730896, -0.37612637877464294, 0.11283782124519348, -0.0268654003739357, 0.005220945458859205, -0.0008482828852720559, 0.0001125694761867635, -9.64151604421204e-06)  # fmt: skip  # noqa: E501
"""Polynomial of erf x / x in x**2 up to 1; relative error 4e-11."""
ERFC_TERMS = (-0.000510309764649719, -1.6259750127792358, -0.9207650423049927, -0.14865149557590485, 0.03145842254161835, -0.004240956623107195, 0.00026772666024044156)  # fmt: skip  # noqa: E501
"""Polynomial of log2(erfc x), for x from 1 to ERFC_END; erfc has an error of 1e-9."""
ERFC_END = 4.0
"""For all x from this number on, 1 - erfc x rounds to 1 in float32."""
EXP2_TERMS = (1.0000001192092896, 0.6931469440460205, 0.24022120237350464, 0.05550713092088699, 0.009675540961325169, 0.0013276479439809918)  # fmt: skip  # noqa: E501
"""Polynomial of 2**x for x from -1/2 to 1/2; relative error 8e-8."""


def call_function(block: Block, name: str, arguments: list[Value], dtype: DType) -> Value:
    """Emits the scalar function `name`, with a result of type `dtype`, on `arguments`, lane by lane. Raises
    LoweringError for functions that this target does not have for this type.
    """
    if (value := call_bits(block, name, arguments, dtype)) is not None:
        return value
    m = _Math(block)
    if name == "divide" and len(arguments) == 2 and dtype in (DType.FLOAT32, DType.FLOAT64):
        return m.divide(*arguments)
    if name == "sqrt" and dtype is DType.FLOAT64:
        return m.sqrt(arguments[0])
    functions: dict[str, Callable[[Value], Value]] = {
        "exp": m.exp,
        "tanh": m.tanh,
        "sigmoid": m.sigmoid,
        "log": m.log,
        "sqrt": m.sqrt,
        "erf": m.erf,
    }
    if dtype is DType.FLOAT32 and name not in functions:
        from .double_functions import call_double

        if (value := call_double(block, name, arguments)) is not None:
            return value
    if name not in functions or len(arguments) != 1 or dtype is not DType.FLOAT32:
        raise LoweringError(
            f"function {name} is not supported on this target; supported are divide, {', '.join(functions)}"
        )
    return functions[name](arguments[0])


class _Math:
    """Arithmetic on float32 values of any number of lanes."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def number(self, value: float, like: Value) -> Value:
        return constant(value, DType.FLOAT32, like.lanes)

    def add(self, a: Value, b: Value | float) -> Value:
        return self.block.binary("fadd", a, b if isinstance(b, Value) else self.number(b, a))

    def subtract(self, a: Value | float, b: Value) -> Value:
        return self.block.binary("fsub", a if isinstance(a, Value) else self.number(a, b), b)

    def multiply(self, a: Value, b: Value | float) -> Value:
        return self.block.binary("fmul", a, b if isinstance(b, Value) else self.number(b, a))

    def divide(self, a: Value | float, b: Value) -> Value:
        return self.block.binary("fdiv", a if isinstance(a, Value) else self.number(a, b), b)

    def multiply_add(self, a: Value, b: Value | float, c: Value) -> Value:
        """a * b + c, fused where the processor can."""
        product = self.block.binary("fmul contract", a, b if isinstance(b, Value) else self.number(b, a))
        return self.block.binary("fadd contract", product, c)

    def polynomial(self, terms: Sequence[float], x: Value) -> Value:
        total = self.number(terms[-1], x)
        for term in reversed(terms[:-1]):
            total = self.multiply_add(total, x, self.number(term, x))
        return total

    def compare(self, how: str, a: Value, b: float) -> Value:
        return self.block.binary(f"fcmp {how}", a, self.number(b, a), DType.BOOL)

    def limit(self, x: Value, low: float, high: float) -> Value:
        """x clamped to low .. high; NaN stays NaN."""
        x = self.block.select(self.compare("olt", x, low), self.number(low, x), x)
        return self.block.select(self.compare("ogt", x, high), self.number(high, x), x)

    def intrinsic(self, name: str, x: Value) -> Value:
        scalar = "f64" if x.dtype is DType.FLOAT64 else "f32"
        suffix = scalar if x.lanes == 1 else f"v{x.lanes}{scalar}"
        text = self.block.call(x.type, f"llvm.{name}.{suffix}", (x.type, x.text))
        return Value(text, x.dtype, x.lanes)

    def bits(self, x: Value) -> Value:
        """The int32 with the bits of a float32."""
        to = type_text(DType.INT32, x.lanes)
        return self.block.define(f"bitcast {x.typed} to {to}", DType.INT32, x.lanes)

    def of_bits(self, x: Value) -> Value:
        to = type_text(DType.FLOAT32, x.lanes)
        return self.block.define(f"bitcast {x.typed} to {to}", DType.FLOAT32, x.lanes)

    def integer(self, instruction: str, a: Value, b: int) -> Value:
        return self.block.binary(instruction, a, constant(b, DType.INT32, a.lanes))

    def power_of_two(self, exponent: Value) -> Value:
        """2**exponent for an int32 within -126 .. 127; undefined for other exponents."""
        return self.of_bits(self.integer("shl", self.integer("add", exponent, 127), 23))

    def exp(self, x: Value) -> Value:
        """exp x, as 2**n * exp(r) for x = n * ln 2 + r, with a whole number n and |r| at most ln 2 / 2."""
        x = self.limit(x, -104.0, 89.0)
        shifted = self.add(self.multiply(x, 1.4426950408889634), ROUNDING)
        n = self.add(shifted, -ROUNDING)
        exponent = self.integer("sub", self.bits(shifted), 0x4B400000)
        r = self.multiply_add(n, -LN2_HIGH, x)
        r = self.multiply_add(n, -LN2_LOW, r)
        value = self.polynomial(EXP_TERMS, r)
        # Two factors, because one could exceed the exponent range: results may be subnormal or infinite.
        half = self.integer("ashr", exponent, 1)
        rest = self.block.binary("sub", exponent, half)
        return self.multiply(self.multiply(value, self.power_of_two(half)), self.power_of_two(rest))

    def sigmoid(self, x: Value) -> Value:
        """The logistic function: 1 / (1 + e) or e / (1 + e) with e = exp(-|x|), which never overflows."""
        e = self.exp(self.subtract(0.0, self.absolute(x)))
        top = self.block.select(self.compare("olt", x, 0.0), e, self.number(1.0, x))
        return self.divide(top, self.add(e, 1.0))

    def tanh(self, x: Value) -> Value:
        square = self.multiply(x, x)
        near = self.multiply(self.polynomial(TANH_TERMS, square), x)
        far = self.subtract(
            1.0, self.divide(2.0, self.add(self.exp(self.multiply(self.absolute(x), 2.0)), 1.0))
        )
        far = self.with_sign(far, x)
        return self.block.select(self.compare("ole", self.absolute(x), TANH_NEAR), near, far)

    def erf(self, x: Value) -> Value:
        square = self.multiply(x, x)
        near = self.multiply(self.polynomial(ERF_TERMS, square), x)
        size = self.absolute(x)
        power = self.polynomial(ERFC_TERMS, self.limit(size, 0.0, ERFC_END))
        shifted = self.add(power, ROUNDING)
        part = self.polynomial(EXP2_TERMS, self.block.binary("fsub", power, self.add(shifted, -ROUNDING)))
        whole = self.power_of_two(self.integer("sub", self.bits(shifted), 0x4B400000))
        far = self.subtract(1.0, self.multiply(part, whole))
        return self.block.select(self.compare("ole", size, 1.0), near, self.with_sign(far, x))

    def log(self, x: Value) -> Value:
        """log x, as e * ln 2 + log m for x = m * 2**e with m from sqrt(1/2) to sqrt(2)."""
        subnormal = self.compare("olt", x, 1.1754943508222875e-38)
        scaled = self.block.select(subnormal, self.multiply(x, 8388608.0), x)
        # Relative to sqrt(1/2): the exponent gives whole powers of two, the mantissa the rest.
        shifted = self.integer("sub", self.bits(scaled), 0x3F3504F3)
        exponent = self.integer("ashr", shifted, 23)
        mantissa = self.integer("add", self.integer("and", shifted, 0x007FFFFF), 0x3F3504F3)
        m = self.of_bits(mantissa)
        to = type_text(DType.FLOAT32, x.lanes)
        e = self.block.define(f"sitofp {exponent.typed} to {to}", DType.FLOAT32, x.lanes)
        e = self.block.select(subnormal, self.add(e, -23.0), e)
        s = self.divide(self.add(m, -1.0), self.add(m, 1.0))
        series = self.multiply(self.polynomial(LOG_TERMS, self.multiply(s, s)), s)
        result = self.multiply_add(e, LN2_HIGH, self.multiply_add(e, LN2_LOW, series))
        infinity = self.number(float("inf"), x)
        # log of +inf and NaN is the argument; of 0 it is -inf; of negative numbers NaN.
        result = self.block.select(self.compare("ult", x, float("inf")), result, x)
        unordered = self.block.binary("fcmp uno", x, x, DType.BOOL)
        result = self.block.select(unordered, x, result)
        result = self.block.select(self.compare("oeq", x, 0.0), self.subtract(0.0, infinity), result)
        return self.block.select(self.compare("olt", x, 0.0), self.number(float("nan"), x), result)

    def sqrt(self, x: Value) -> Value:
        """The square root, by one instruction, correctly rounded."""
        return self.intrinsic("sqrt", x)

    def absolute(self, x: Value) -> Value:
        return self.of_bits(self.integer("and", self.bits(x), 0x7FFFFFFF))

    def with_sign(self, size: Value, sign: Value) -> Value:
        """`size`, which is not negative, with the sign bit of `sign`."""
        bit = self.integer("and", self.bits(sign), -0x80000000)
        return self.of_bits(self.block.binary("or", self.bits(size), bit))

"""Scalar functions that are computed in float64 and rounded to float32 once: trigonometric, hyperbolic, powers.

Their series are exact to at least 1e-10, so that a result is the nearest float32 or its neighbour. Vectors of float64
have half the lanes, an acceptable cost: these functions are rare in networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...ir.types import DType
from .text import Block, Value, constant, type_text

QUARTER_TURN = (1.570796012878418, 3.139164164167596e-07, 6.223372171896613e-14)
"""pi / 2 as a sum of three numbers; the first two have so few bits that products with whole numbers below 2**31 are
exact.
"""
SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(7))
COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(8))
"""Taylor series of the cosine, up to pi / 4."""
ARCTANGENT = tuple((-1) ** k / (2 * k + 1) for k in range(12))
"""Taylor series of arctan(t) / t in powers of t**2, for t up to tan(pi / 8). There t**2 is at most 0.1716."""
POWER = tuple(math.log(2) ** k / math.factorial(k) for k in range(12))
"""Taylor series of 2**r, for r up to 1/2."""
LOGARITHM = tuple(2 / (2 * k + 1) / math.log(2) for k in range(10))
"""Series of log2 m = 2 artanh s / ln 2 in powers of s**2, where s = (m - 1) / (m + 1), for s up to 0.1716."""
HYPERBOLIC_SINE = tuple(1 / math.factorial(2 * k + 1) for k in range(7))
"""Taylor series of sinh x / x in x**2, for |x| up to 1/2."""


def call_double(block: Block, name: str, arguments: list[Value]) -> Value | None:
    """Emits the float32 function `name` on `arguments`, lane by lane; None if this file does not define `name`."""
    m = _Double(block)
    unary: dict[str, Callable[[Value], Value]] = {
        "sin": m.sin,
        "cos": m.cos,
        "tan": m.tan,
        "asin": m.asin,
        "acos": m.acos,
        "atan": m.atan,
        "sinh": m.sinh,
        "cosh": m.cosh,
        "asinh": m.asinh,
        "acosh": m.acosh,
        "atanh": m.atanh,
    }
    wide = [m.widened(a) for a in arguments]
    if name == "power" and len(wide) == 2:
        return m.narrowed(m.power(*wide))
    if name in unary and len(wide) == 1:
        return m.narrowed(unary[name](wide[0]))
    return None


class _Double:
    """Arithmetic on float64 values of any number of lanes."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def widened(self, x: Value) -> Value:
        to = type_text(DType.FLOAT64, x.lanes)
        return self.block.define(f"fpext {x.typed} to {to}", DType.FLOAT64, x.lanes)

    def narrowed(self, x: Value) -> Value:
        to = type_text(DType.FLOAT32, x.lanes)
        return self.block.define(f"fptrunc {x.typed} to {to}", DType.FLOAT32, x.lanes)

    def number(self, value: float, like: Value) -> Value:
        return constant(value, DType.FLOAT64, like.lanes)

    def apply(self, instruction: str, a: Value, b: Value | float) -> Value:
        return self.block.binary(instruction, a, b if isinstance(b, Value) else self.number(b, a))

    def add(self, a: Value, b: Value | float) -> Value:
        return self.apply("fadd", a, b)

    def subtract(self, a: Value, b: Value | float) -> Value:
        return self.apply("fsub", a, b)

    def multiply(self, a: Value, b: Value | float) -> Value:
        return self.apply("fmul", a, b)

    def divide(self, a: Value, b: Value | float) -> Value:
        return self.apply("fdiv", a, b)

    def negative(self, x: Value) -> Value:
        return self.subtract(self.number(-0.0, x), x)

    def compare(self, how: str, a: Value, b: Value | float) -> Value:
        other = b if isinstance(b, Value) else self.number(b, a)
        return self.block.binary(f"fcmp {how}", a, other, DType.BOOL)

    def select(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        like = a if isinstance(a, Value) else b
        assert isinstance(like, Value)
        values = [v if isinstance(v, Value) else self.number(v, like) for v in (a, b)]
        return self.block.select(condition, *values)

    def polynomial(self, terms: Sequence[float], x: Value) -> Value:
        total = self.number(terms[-1], x)
        for term in reversed(terms[:-1]):
            product = self.block.binary("fmul contract", total, x)
            total = self.block.binary("fadd contract", product, self.number(term, x))
        return total

    def intrinsic(self, name: str, x: Value) -> Value:
        suffix = "f64" if x.lanes == 1 else f"v{x.lanes}f64"
        text = self.block.call(x.type, f"llvm.{name}.{suffix}", (x.type, x.text))
        return Value(text, DType.FLOAT64, x.lanes)

    def bits(self, x: Value) -> Value:
        to = type_text(DType.INT64, x.lanes)
        return self.block.define(f"bitcast {x.typed} to {to}", DType.INT64, x.lanes)

    def of_bits(self, x: Value) -> Value:
        to = type_text(DType.FLOAT64, x.lanes)
        return self.block.define(f"bitcast {x.typed} to {to}", DType.FLOAT64, x.lanes)

    def integer(self, instruction: str, a: Value, b: int) -> Value:
        return self.block.binary(instruction, a, constant(b, DType.INT64, a.lanes))

    def whole(self, x: Value) -> Value:
        """Converts a float64 that holds a whole number to int64; NaN becomes 0."""
        to = type_text(DType.INT64, x.lanes)
        kind = ("i64", "f64") if x.lanes == 1 else (f"v{x.lanes}i64", f"v{x.lanes}f64")
        text = self.block.call(to, f"llvm.fptosi.sat.{kind[0]}.{kind[1]}", (x.type, x.text))
        return Value(text, DType.INT64, x.lanes)

    def with_sign(self, size: Value, sign: Value) -> Value:
        """`size`, which is not negative, with the sign bit of `sign`."""
        bit = self.integer("and", self.bits(sign), -(2**63))
        return self.of_bits(self.block.binary("or", self.bits(size), bit))

    def absolute(self, x: Value) -> Value:
        return self.of_bits(self.integer("and", self.bits(x), 2**63 - 1))

    # Angles

    def range_reduced(self, x: Value) -> tuple[Value, Value]:
        """Range reduction: returns x - n * pi / 2 and the integer n, for the multiple of pi / 2 nearest to x. |x| must
        be below 2**31; infinities give NaN.
        """
        n = self.intrinsic("roundeven", self.multiply(x, 2 / math.pi))
        for part in QUARTER_TURN:
            x = self.subtract(x, self.multiply(n, part))
        return x, self.whole(n)

    def shifted_sine(self, x: Value, ahead: int) -> Value:
        """The sine of x + `ahead` * pi / 2."""
        r, n = self.range_reduced(x)
        n = self.integer("add", n, ahead)
        square = self.multiply(r, r)
        sine, cosine = self.multiply(self.polynomial(SINE, square), r), self.polynomial(COSINE, square)
        odd = self.block.binary(
            "icmp ne", self.integer("and", n, 1), constant(0, DType.INT64, n.lanes), DType.BOOL
        )
        back = self.block.binary(
            "icmp ne", self.integer("and", n, 2), constant(0, DType.INT64, n.lanes), DType.BOOL
        )
        value = self.select(odd, cosine, sine)
        return self.select(back, self.negative(value), value)

    def sin(self, x: Value) -> Value:
        """sin x; the result for a zero keeps its sign."""
        return self.select(self.compare("oeq", x, 0.0), x, self.shifted_sine(x, 0))

    def cos(self, x: Value) -> Value:
        return self.shifted_sine(x, 1)

    def tan(self, x: Value) -> Value:
        return self.divide(self.sin(x), self.cos(x))

    def atan(self, x: Value) -> Value:
        """arctan x. Reduces |x| above 1 to t = 1 / |x|, then t above tan(pi / 8) to (t - 1) / (t + 1)."""
        size = self.absolute(x)
        large = self.compare("ogt", size, 1.0)
        t = self.select(large, self.divide(self.number(1.0, x), size), size)
        middle = self.compare("ogt", t, math.tan(math.pi / 8))
        u = self.select(middle, self.divide(self.subtract(t, 1.0), self.add(t, 1.0)), t)
        angle = self.multiply(self.polynomial(ARCTANGENT, self.multiply(u, u)), u)
        angle = self.select(middle, self.add(angle, math.pi / 4), angle)
        angle = self.select(large, self.subtract(self.number(math.pi / 2, x), angle), angle)
        return self.with_sign(angle, x)

    def asin(self, x: Value) -> Value:
        rest = self.subtract(self.number(1.0, x), self.multiply(x, x))
        return self.atan(self.divide(x, self.intrinsic("sqrt", rest)))

    def acos(self, x: Value) -> Value:
        return self.subtract(self.number(math.pi / 2, x), self.asin(x))

    # Exponents

    def exp2(self, p: Value) -> Value:
        """2**p, with p clamped to -200 .. 200: outside, results in float32 are zero or infinite."""
        p = self.select(self.compare("olt", p, -200.0), -200.0, p)
        p = self.select(self.compare("ogt", p, 200.0), 200.0, p)
        n = self.intrinsic("roundeven", p)
        value = self.polynomial(POWER, self.subtract(p, n))
        scale = self.integer("shl", self.integer("add", self.whole(n), 1023), 52)
        return self.multiply(value, self.of_bits(scale))

    def log2(self, x: Value) -> Value:
        """log2 x; NaN for negative x. Subnormal float64 are not supported: x comes from a float32, whose conversion is
        never subnormal.
        """
        # Relative to sqrt(1/2): the exponent counts whole powers of two, the mantissa is the rest.
        least = 0x3FE6A09E667F3BCD
        shifted = self.integer("sub", self.bits(x), least)
        exponent = self.integer("ashr", shifted, 52)
        m = self.of_bits(self.integer("add", self.integer("and", shifted, 2**52 - 1), least))
        to = type_text(DType.FLOAT64, x.lanes)
        e = self.block.define(f"sitofp {exponent.typed} to {to}", DType.FLOAT64, x.lanes)
        s = self.divide(self.subtract(m, 1.0), self.add(m, 1.0))
        result = self.add(e, self.multiply(self.polynomial(LOGARITHM, self.multiply(s, s)), s))
        result = self.select(self.compare("oeq", x, math.inf), math.inf, result)
        result = self.select(self.compare("oeq", x, 0.0), -math.inf, result)
        return self.select(
            self.compare("uge", x, 0.0), self.select(self.compare("uno", x, x), x, result), math.nan
        )

    def log(self, x: Value) -> Value:
        return self.multiply(self.log2(x), math.log(2))

    def exp(self, x: Value) -> Value:
        return self.exp2(self.multiply(x, 1 / math.log(2)))

    def sinh(self, x: Value) -> Value:
        near = self.multiply(self.polynomial(HYPERBOLIC_SINE, self.multiply(x, x)), x)
        far = self.multiply(self.subtract(self.exp(x), self.exp(self.negative(x))), 0.5)
        return self.select(self.compare("olt", self.absolute(x), 0.5), near, far)

    def cosh(self, x: Value) -> Value:
        return self.multiply(self.add(self.exp(x), self.exp(self.negative(x))), 0.5)

    def asinh(self, x: Value) -> Value:
        size = self.absolute(x)
        square = self.multiply(x, x)
        far = self.log(self.add(size, self.intrinsic("sqrt", self.add(square, 1.0))))
        near = self.multiply(size, self.polynomial((1.0, -1 / 6), square))
        return self.with_sign(self.select(self.compare("olt", size, 1e-3), near, far), x)

    def acosh(self, x: Value) -> Value:
        root = self.intrinsic("sqrt", self.subtract(self.multiply(x, x), 1.0))
        value = self.log(self.add(x, root))
        return self.select(self.compare("olt", x, 1.0), math.nan, value)

    def atanh(self, x: Value) -> Value:
        size = self.absolute(x)
        quotient = self.divide(self.add(size, 1.0), self.subtract(self.number(1.0, x), size))
        far = self.multiply(self.log(quotient), 0.5)
        square = self.multiply(x, x)
        near = self.multiply(size, self.polynomial((1.0, 1 / 3, 1 / 5, 1 / 7, 1 / 9), square))
        return self.with_sign(self.select(self.compare("olt", size, 0.1), near, far), x)

    def power(self, x: Value, y: Value) -> Value:
        """x to the power of y, as IEEE 754 defines pow."""
        size = self.absolute(x)
        value = self.exp2(self.multiply(y, self.log2(size)))
        whole = self.compare("oeq", self.intrinsic("roundeven", y), y)
        half = self.multiply(y, 0.5)
        even = self.compare("oeq", self.intrinsic("roundeven", half), half)
        signed = self.select(even, value, self.with_sign(value, x))
        negative = self.block.binary("icmp slt", self.bits(x), constant(0, DType.INT64, x.lanes), DType.BOOL)
        ordinary = self.block.binary("and", self.compare("olt", x, 0.0), self.compare("ogt", x, -math.inf))
        odd_root = self.select(ordinary, math.nan, value)
        value = self.select(negative, self.select(whole, signed, odd_root), value)
        infinite = self.compare("oeq", self.absolute(y), math.inf)
        one = self.block.binary("and", infinite, self.compare("oeq", size, 1.0))
        for always in (one, self.compare("oeq", x, 1.0), self.compare("oeq", y, 0.0)):
            value = self.select(always, 1.0, value)
        return value

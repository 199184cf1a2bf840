"""Scalar functions of float32 networks as expressions, which treat NaN and infinities as IEEE 754 and ONNX do.

Arguments are float32 expressions, or Python numbers for constants. Bodies of `te.ops.float_elementwise` are made of
these functions and of the operators of `ir.expr`. The expression of some functions contains its argument several times;
LLVM merges the copies.
"""

from __future__ import annotations

import math

from ..ir.conditions import not_equal
from ..ir.expr import Call, Expr, Operand, Var, dtype_of, equal, maximum, minimum, select, wrap
from ..ir.types import DType
from ..ir.visit import walk_expr

Scalar = Expr | float
ELEMENT = Var("element", DType.FLOAT32)
"""The variable that stands for an element of an operator's result, in an expression that is fused after the operator.
"""
ROUNDING = 12582912.0
"""1.5 * 2**23: a float32 of this size has no fractional bits, so adding it to a smaller number rounds the number."""


def argument(position: int, dtype: DType = DType.FLOAT32) -> Var:
    """The variable for the element of input `position` (0, 1, ...) in the body of an element-wise operator."""
    return Var(f"argument{position}", dtype)


def argument_types(body: Expr) -> dict[str, DType]:
    """The types of a body's arguments, by name."""
    return {e.name: e.dtype for e in walk_expr(body) if isinstance(e, Var) and e.name != ELEMENT.name}


def number(value: Scalar) -> Expr:
    """`value` as an expression: a Python number becomes a float32 constant, an expression is returned unchanged."""
    return wrap(value, DType.FLOAT32)


def divide(a: Scalar, b: Scalar) -> Expr:
    """a / b, correctly rounded; in float64 if `a` is float64, else in float32."""
    if isinstance(a, Operand) and dtype_of(a) is DType.FLOAT64:  # type: ignore[arg-type]
        return Call("divide", (a, wrap(b, DType.FLOAT64)), DType.FLOAT64)  # type: ignore[arg-type]
    return _call("divide", a, b)


def exp(x: Scalar) -> Expr:
    """e to the power of x."""
    return _call("exp", x)


def log(x: Scalar) -> Expr:
    """The natural logarithm; -inf at 0, NaN below."""
    return _call("log", x)


def sqrt(x: Scalar) -> Expr:
    """The square root, correctly rounded; NaN below 0."""
    return _call("sqrt", x)


def tanh(x: Scalar) -> Expr:
    """The hyperbolic tangent."""
    return _call("tanh", x)


def sigmoid(x: Scalar) -> Expr:
    """1 / (1 + exp(-x))."""
    return _call("sigmoid", x)


def erf(x: Scalar) -> Expr:
    """The error function."""
    return _call("erf", x)


DOUBLES = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")
"""Functions of one float32 that are computed in float64; the trigonometric functions need angles of at most 2**31
quarter turns.
"""


def in_double(function: str, x: Expr) -> Expr:
    """The call of `function`, one of `DOUBLES`, for the float32 number x: computed in float64, rounded to float32."""
    return _call(function, x)


def general_power(x: Scalar, exponent: Scalar) -> Expr:
    """x**exponent for any two float32, as defined by IEEE 754's pow."""
    return _call("power", x, exponent)


def whole(function: str, x: Expr) -> Expr:
    """x, a float, rounded to a whole number of its type; `function`: "floor", "ceil", "round_even" or "truncate"."""
    return Call(function, (x,), dtype_of(x))


def of_bits(function: str, a: Expr, b: Expr) -> Expr:
    """A function of two integers of one type, by name.

    The functions are "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "quotient" (rounded toward zero) and
    "remainder" (of this quotient). A shift by a negative number or by at least the width shifts all bits out. Quotient
    and remainder are 0 for a divisor of 0.
    """
    return Call(function, (a, b), dtype_of(a))


def floor_remainder(a: Expr, b: Expr) -> Expr:
    """The remainder of the integers a and b that has the sign of b."""
    rest = of_bits("remainder", a, b)
    opposite = not_equal(rest < 0, b < 0)
    return select(equal(rest, 0), rest, select(opposite, rest + b, rest))


def bit_cast(x: Expr, dtype: DType) -> Expr:
    """The bits of x as a number of another type of the same size."""
    return Call("bitcast", (x,), dtype)


def round_tf32(x: Scalar) -> Expr:
    """x with a mantissa of 10 bits (NVIDIA's tf32), nearest, ties away from zero: PTX's cvt.rna.tf32.f32."""
    return _call("round_tf32", x)


def negative(x: Expr) -> Expr:
    """-x; a zero changes its sign, too."""
    return x * -1.0


def absolute(x: Expr) -> Expr:
    """|x|."""
    return select(x <= 0.0, 0.0 - x, x)


def relu(x: Expr) -> Expr:
    """The greater of x and 0."""
    return maximum(x, 0.0)


def leaky_relu(x: Expr, slope: Scalar) -> Expr:
    """x, but slope * x for x below 0. If the slope is an input, this is ONNX's PRelu."""
    return select(x < 0.0, number(slope) * x, x)


def clip(x: Expr, low: Scalar = -math.inf, high: Scalar = math.inf) -> Expr:
    """x limited to low .. high; `high` if low > high."""
    return minimum(maximum(x, low), high)


def round_half_even(x: Expr) -> Expr:
    """x rounded to the nearest whole number, ties to even, for |x| up to 2**22; NaN stays NaN."""
    return (x + ROUNDING) - ROUNDING


def elu(x: Expr, alpha: float = 1.0) -> Expr:
    """x, but alpha * (exp(x) - 1) for x below 0."""
    return select(x < 0.0, (exp(x) - 1.0) * alpha, x)


def selu(x: Expr, alpha: float, gamma: float) -> Expr:
    """gamma * elu(x, alpha)."""
    return elu(x, alpha) * gamma


def celu(x: Expr, alpha: float = 1.0) -> Expr:
    """x, but alpha * (exp(x / alpha) - 1) for x below 0."""
    return select(x < 0.0, (exp(divide(x, alpha)) - 1.0) * alpha, x)


def hard_sigmoid(x: Expr, alpha: float = 0.2, beta: float = 0.5) -> Expr:
    """alpha * x + beta limited to 0 .. 1."""
    return clip(x * alpha + beta, 0.0, 1.0)


def hard_swish(x: Expr) -> Expr:
    """x * hard_sigmoid(x, 1/6, 1/2)."""
    return x * hard_sigmoid(x, 1 / 6, 0.5)


def swish(x: Expr) -> Expr:
    """x * sigmoid(x), also called SiLU."""
    return x * sigmoid(x)


def gelu(x: Expr) -> Expr:
    """x times the standard normal cumulative distribution function at x: x / 2 * (1 + erf(x / sqrt 2))."""
    return (x * 0.5) * (erf(x * math.sqrt(0.5)) + 1.0)


def gelu_tanh(x: Expr) -> Expr:
    """The approximation x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3))), ONNX's Gelu "tanh"."""
    inner = (x * x * x * 0.044715 + x) * math.sqrt(2 / math.pi)
    return (x * 0.5) * (tanh(inner) + 1.0)


def softsign(x: Expr) -> Expr:
    """x / (1 + |x|)."""
    return divide(x, absolute(x) + 1.0)


def softplus(x: Expr) -> Expr:
    """log(1 + exp(x)), as max(x, 0) + log(1 + u) with u = exp(-|x|), which does not overflow.

    With w = 1 + u rounded to float32, log(1 + u) is u * log(w) / (w - 1) up to a few units in the last place, and u if
    w is 1 (Goldberg, "What Every Computer Scientist Should Know About Floating-Point Arithmetic", Theorem 4).
    """
    u = exp(negative(absolute(x)))
    w = u + 1.0
    return relu(x) + select(equal(w, 1.0), u, u * divide(log(w), w - 1.0))


def mish(x: Expr) -> Expr:
    """x * tanh(softplus(x))."""
    return x * tanh(softplus(x))


def power(x: Expr, exponent: float) -> Expr:
    """x**exponent for multiples of 1/2 from -16 to 16, by multiplications and square roots. Raises ValueError for
    other exponents.
    """
    whole, half = divmod(abs(exponent), 1.0)
    if half not in (0.0, 0.5) or abs(exponent) > 16:
        raise ValueError(
            f"x**{exponent} cannot be written as a few multiplications; use exp(exponent * log(x)) for x above 0"
        )
    result: Expr | None = None
    if half:
        # For exponents that are not whole numbers, IEEE's pow treats -inf and -0 like inf and 0; sqrt does not.
        x = select(equal(x, -math.inf), math.inf, x + 0.0)
        result = sqrt(x)
    square, rest = x, int(whole)
    while rest:
        if rest & 1:
            result = square if result is None else result * square
        square, rest = square * square, rest >> 1
    if result is None:
        return number(1.0)
    return divide(1.0, result) if exponent < 0 else result


def _call(function: str, *arguments: Scalar) -> Expr:
    return Call(function, tuple([number(a) for a in arguments]), DType.FLOAT32)

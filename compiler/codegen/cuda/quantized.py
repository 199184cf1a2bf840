"""Translates calls of quantized functions (`te.functions`) to source text in the language of a `Dialect`. Results are
bit-exact to `vdla.isa.arithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from vdla.isa.arithmetic import UNSIGNED_OFFSET
from vdla.isa.scales import INT8_HIGH, INT8_LOW

from ...ir.expr import Call, Const, Expr
from ...ir.types import DType
from .errors import LoweringError
from .text import PRODUCT, SUM, Text, call

if TYPE_CHECKING:
    from .expressions import ExpressionEmitter


def call_quantized(values: ExpressionEmitter, expr: Call) -> Text:
    """The text of a call of a quantized function, with an int8 as result. Raises LoweringError for other functions, and
    for a zero point or a limit that is not constant.
    """
    if (emit := _FUNCTIONS.get(expr.function)) is None:
        raise LoweringError(
            f"function {expr.function} is not supported on this target; supported are {', '.join(_FUNCTIONS)}"
        )
    return emit(_Emitter(values, expr))


class _Emitter:
    """Emits one call of a quantized function. The method that has the function's name returns the text of the result,
    an int8. The other methods return texts of parts of the result.
    """

    def __init__(self, values: ExpressionEmitter, expr: Call) -> None:
        self.values, self.dialect = values, values.dialect
        self.function, self.arguments = expr.function, expr.arguments

    def requantize(self) -> Text:
        """The text of a requantization: sum * scale, rounded, plus the zero point, clamped to low .. high.

        The arguments of the call are (sum, scale, zero point, low, high).
        """
        scaled = self.product(self.real(self.text(0)), self.text(1))
        return self.saturate(scaled, self.whole(2), self.whole(3), self.whole(4))

    def rescale(self) -> Text:
        """The text of a requantization: (value - its zero point) * ratio, rounded, plus the zero point of the result,
        clamped to low .. high.

        The arguments of the call are (value, zero point of the value, ratio, zero point of the result, low, high).
        """
        scaled = self.product(self.real(self.less(0, self.whole(1))), self.text(2))
        return self.saturate(scaled, self.whole(3), self.whole(4), self.whole(5))

    def quantize(self) -> Text:
        """The text of a quantization to int8: value / scale, rounded, plus the zero point, clamped.

        The arguments of the call are (value, scale, zero point).
        """
        quotient = self.dialect.operated("/", PRODUCT, self.text(0), self.text(1))
        return self.saturate(quotient, self.whole(2), INT8_LOW, INT8_HIGH)

    def combine_add(self) -> Text:
        """The text of combine_add(a, b, ratio of a, ratio of b, offset, unsigned, low, high): a and b, each times its
        ratio, and the offset are added, rounded and clamped. `unsigned`: int8 values stand for uint8 values.
        """
        shift = UNSIGNED_OFFSET if self.whole(5) else 0
        inner = call(self.dialect.fused, self.real(self.less(1, -shift)), self.text(3), self.text(4))
        total = call(self.dialect.fused, self.real(self.less(0, -shift)), self.text(2), inner)
        return self.saturate(total, -shift, self.whole(6), self.whole(7))

    def combine_multiply(self) -> Text:
        """The text of combine_multiply(a, b, zero point of a, zero point of b, ratio, zero point, unsigned, low, high):
        the product of a and b, each minus its zero point, is multiplied by the ratio; the sum with the zero point is
        rounded and clamped. `unsigned`: the sum is rounded as a uint8 value, 128 above the int8 result.
        """
        shift = UNSIGNED_OFFSET if self.whole(6) else 0
        product = self.product(self.less(0, self.whole(2)), self.less(1, self.whole(3)))
        scaled = self.product(self.real(product), self.text(4))
        total = self.dialect.operated("+", SUM, scaled, self.number(self.whole(5) + shift))
        return self.saturate(total, -shift, self.whole(7), self.whole(8))

    def saturate(self, value: Text, zero_point: int, low: int, high: int) -> Text:
        """`value` rounded half to even, plus `zero_point`, clamped to low .. high."""
        dialect = self.dialect
        limited = call(dialect.math["round_even"], value)
        for name, limit in (("maximum", low), ("minimum", high)):
            self.values.used.add(name)
            limited = call(name, limited, self.number(limit - zero_point))
        whole = dialect.converted(DType.INT32, limited)
        return dialect.converted(DType.INT8, self.shifted(whole, zero_point))

    def less(self, position: int, zero_point: int) -> Text:
        """The int8 argument with index `position` minus the constant `zero_point`, as int32."""
        return self.shifted(self.dialect.converted(DType.INT32, self.text(position)), -zero_point)

    def shifted(self, whole: Text, by: int) -> Text:
        """An int32 plus the constant `by`."""
        if not by:
            return whole
        return self.dialect.operated("+" if by > 0 else "-", SUM, whole, self.dialect.integer(abs(by)))

    def product(self, a: Text, b: Text) -> Text:
        return self.dialect.operated("*", PRODUCT, a, b)

    def real(self, whole: Text) -> Text:
        """An int32 as the nearest float32."""
        return self.dialect.converted(DType.FLOAT32, whole)

    def number(self, value: int) -> Text:
        return self.dialect.literal(value, DType.FLOAT32)

    def text(self, position: int) -> Text:
        return self.values.emit(self.arguments[position])

    def whole(self, position: int) -> int:
        """The integer value of the argument with index `position`. Raises LoweringError if it is not constant."""
        value: Expr = self.arguments[position]
        if not isinstance(value, Const):
            raise LoweringError(f"argument {position} of {self.function} must be a constant on this target")
        return int(value.value)


_FUNCTIONS: Mapping[str, Callable[[_Emitter], Text]] = MappingProxyType(
    {
        "requantize": _Emitter.requantize,
        "rescale": _Emitter.rescale,
        "quantize": _Emitter.quantize,
        "combine_add": _Emitter.combine_add,
        "combine_multiply": _Emitter.combine_multiply,
    }
)

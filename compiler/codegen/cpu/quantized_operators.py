"""LLVM code for operators on quantized values other than sums of products: rescaling, addition, multiplication.

Like the code of `arithmetic.Quantized`, it is bit-exact to `vdla.isa.arithmetic`.
"""

from __future__ import annotations

from vdla.isa.arithmetic import UNSIGNED_OFFSET

from ...ir.types import DType
from .arithmetic import Quantized, convert
from .text import Value, constant, type_text


class QuantizedOperator(Quantized):
    """One call of `rescale`, `combine_add` or `combine_multiply`: its arguments, and the block into which its code is
    emitted.
    """

    def value(self) -> Value:
        """Emits the called function and returns its result."""
        functions = {
            "rescale": self.rescale,
            "combine_add": self.combine_add,
            "combine_multiply": self.combine_multiply,
        }
        return functions[self.name]()

    def rescale(self) -> Value:
        """Emits a requantization: (value - its zero point) * ratio, rounded, plus the zero point of the result,
        clamped.

        The arguments of the call are (value, zero point of the value, ratio, zero point of the result, low, high).
        """
        difference = self.less(self.arguments[0], self.whole(1))
        return self.scaled(difference, self.arguments[2], self.whole(3), self.whole(4), self.whole(5))

    def combine_add(self) -> Value:
        """Emits the function combine_add(a, b, ratio of a, ratio of b, offset, unsigned, low, high): a and b, each
        times its ratio, and the offset are added, rounded and clamped. `unsigned`: int8 values stand for uint8 values.
        """
        a, b, ratio_a, ratio_b, offset = self.arguments[:5]
        shift = UNSIGNED_OFFSET if self.whole(5) else 0
        inner = self.fused_multiply_add(self.less(b, -shift), ratio_b, offset)
        total = self.fused_multiply_add(self.less(a, -shift), ratio_a, inner)
        return self.saturate(total, -shift, self.whole(6), self.whole(7))

    def combine_multiply(self) -> Value:
        """Emits the function combine_multiply(a, b, zero point of a, zero point of b, ratio, zero point, unsigned, low,
        high): the product of a and b, each minus its zero point, is multiplied by the ratio; the sum with the zero
        point is rounded and clamped. `unsigned`: the sum is rounded as a uint8 value, 128 above the int8 result.
        """
        a, b = self.less(self.arguments[0], self.whole(2)), self.less(self.arguments[1], self.whole(3))
        shift = UNSIGNED_OFFSET if self.whole(6) else 0
        product = self.to_float(self.block.binary("mul", a, b))
        scaled = self.block.binary("fmul", product, self.arguments[4])
        zero_point = constant(self.whole(5) + shift, DType.FLOAT32)
        total = self.block.binary("fadd", scaled, zero_point)
        return self.saturate(total, -shift, self.whole(7), self.whole(8))

    def less(self, value: Value, zero_point: int) -> Value:
        """Subtracts the constant `zero_point` from a quantized 8-bit value; the result is int32."""
        wide = convert(self.block, value, DType.INT32)
        return self.block.binary("sub", wide, constant(zero_point, DType.INT32)) if zero_point else wide

    def fused_multiply_add(self, whole: Value, factor: Value, addend: Value) -> Value:
        """whole * factor + addend with one rounding; `whole` is an int32 of at most 24 significant bits."""
        lanes = max(whole.lanes, factor.lanes, addend.lanes)
        whole, factor, addend = (self.block.splat(v, lanes) for v in (whole, factor, addend))
        if self.target.fused_multiply_add:
            kind = type_text(DType.FLOAT32, lanes)
            function = f"llvm.fma.{'f32' if lanes == 1 else f'v{lanes}f32'}"
            arguments = [(kind, v.text) for v in (self.to_float(whole), factor, addend)]
            return Value(self.block.call(kind, function, *arguments), DType.FLOAT32, lanes)
        return self.rounded_once(whole, factor, addend)

    def rounded_once(self, whole: Value, factor: Value, addend: Value) -> Value:
        """whole * factor + addend with one rounding to float32, for processors without an FMA instruction. In float64
        the product is exact, and the sum is rounded to odd, so that its conversion to float32 rounds correctly.

        The method is the same as in `vdla.isa.arithmetic.fused_multiply_add`, which names the source.
        """
        lanes, block = whole.lanes, self.block
        double, long = ("double", "i64") if lanes == 1 else (f"<{lanes} x double>", f"<{lanes} x i64>")

        def step(instruction: str, a: str, b: str, kind: str = double) -> str:
            return block.assign(f"{instruction} {kind} {a}, {b}")

        def every(text: str, element: str) -> str:
            return text if lanes == 1 else f"splat ({element} {text})"

        exact = block.assign(f"sitofp {whole.typed} to {double}")
        ratio = block.assign(f"fpext {factor.typed} to {double}")
        term = block.assign(f"fpext {addend.typed} to {double}")
        product = step("fmul", exact, ratio)
        total = step("fadd", product, term)
        carried = step("fsub", total, product)
        lost = step("fsub", product, step("fsub", total, carried))
        error = step("fadd", lost, step("fsub", term, carried))
        zero = every("0.0", "double")
        away = step(
            "icmp eq", step("fcmp ogt", error, zero), step("fcmp ogt", total, zero), self.bools(lanes)
        )
        bits = block.assign(f"bitcast {double} {total} to {long}")
        last = step("and", bits, every("1", "i64"), long)
        even = step("icmp eq", last, every("0", "i64"), long)
        inexact = step("fcmp une", error, zero)
        moves = step("and", even, inexact, self.bools(lanes))
        one, minus = every("1", "i64"), every("-1", "i64")
        direction = block.assign(f"select {self.bools(lanes)} {away}, {long} {one}, {long} {minus}")
        change = block.assign(
            f"select {self.bools(lanes)} {moves}, {long} {direction}, {long} {every('0', 'i64')}"
        )
        odd = block.assign(f"bitcast {long} {step('add', bits, change, long)} to {double}")
        return block.define(
            f"fptrunc {double} {odd} to {type_text(DType.FLOAT32, lanes)}", DType.FLOAT32, lanes
        )

    def bools(self, lanes: int) -> str:
        """LLVM type of a vector of `lanes` conditions (i1)."""
        return type_text(DType.BOOL, lanes)

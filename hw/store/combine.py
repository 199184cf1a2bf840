"""Stage B of the store pipeline for one lane: the operation after requantization (stage A), which combines two int8
values (`vdla.isa.arithmetic`: combine_add, combine_multiply, rescale).
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..copies import copy
from . import floats
from .constants import (
    DISTANCE_BITS,
    FIXED_BITS,
    FLOAT_EXPONENT,
    GUARD,
    INNER_BITS,
    PRODUCT_BITS,
    ZERO_SHIFT,
    constants_layout,
)
from .pipeline import delay, register
from .products import multiply_narrow
from .round_twice import ROUND_CYCLES, round_twice

COMBINE_STAGES = 22 + ROUND_CYCLES
"""Latency of `Combine` in cycles: from `value` and `operand` to `result`."""

_HALF = floats.MANTISSA_BITS // 2


class Combine(wiring.Component):
    """Stage B of the store unit (the operation after requantization) for one lane: adds, multiplies or rescales int8
    values, then clamps. A pair of `value` and `operand` may enter in every cycle; the other inputs must not change
    while pairs are in the pipeline.

    Members:

    - `value`, `operand`: the pair, int8. `value` is the result of stage A (requantization). A uint8 is stored less 128.
    - `multiply`, `operand_used`: select the function of `vdla.isa.arithmetic`. It is combine_multiply if both are 1,
      rescale if only `multiply` is 1, else combine_add.
    - `swap`: makes `operand` the first input of combine_add.
    - `unsigned`: 1 if the values of the model are uint8.
    - `zero_point`, `operand_zero_point`: zero points of `value` and `operand`.
    - `low`, `high`: bounds to which the result is clamped.
    - `constants`: ratios, offset and exponents, as `Constants` computes them.
    - `result`: the result for a pair leaves COMBINE_STAGES cycles after the pair enters.

    There are three multipliers. In combine_add, the second and third multiply each input by its ratio. In the other two
    functions, the first computes an integer product, which is rounded to float32; the second multiplies the upper half
    of the rounded number by the ratio, the third the lower half. The normalizer and the later steps serve all
    functions.
    """

    value: In(signed(8))
    operand: In(signed(8))
    multiply: In(1)
    operand_used: In(1)
    swap: In(1)
    unsigned: In(1)
    zero_point: In(signed(16))
    operand_zero_point: In(signed(16))
    low: In(signed(8))
    high: In(signed(8))
    constants: In(constants_layout())
    result: Out(signed(8))

    def __init__(self, *, number: int = 0) -> None:
        """`number`: which copy of the select signals (`copies.copy`) the lane uses: the lane's index modulo KINDS."""
        self._number = number
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        """Builds the pipeline. The name of a register ends in the stage (1 to COMBINE_STAGES) in which combine_add
        writes it.

        In the other modes the integer product reaches the normalizer 4 stages earlier than combine_add's inner sum. In
        these 4 stages it is multiplied by the ratio, so both paths meet in stage 15.
        """
        m = Module()
        k = self.constants
        multiply = copy(m, self.multiply, self._number, "multiply")
        second_distance = copy(m, k.distance, self._number, "second_distance")
        integer_3, integer_sign_3 = self._integer_product(m)
        first_2, first_sign_2 = self._input(m, Mux(self.swap, self.operand, self.value), "first")
        second_2, second_sign_2 = self._input(m, Mux(self.swap, self.value, self.operand), "second")
        mantissa_12 = Signal(floats.MANTISSA_BITS)  # the value as it enters stage 13
        left_13 = register(
            m, Mux(multiply, mantissa_12[_HALF:], delay(m, first_2, 10, "first_12")), "left_13"
        )
        left_3 = register(m, Mux(multiply, mantissa_12[:_HALF], second_2), "left_3")
        product_16 = multiply_narrow(m, left_13, k.mantissa_a, "product_a")
        product_6 = multiply_narrow(m, left_3, k.mantissa_b, "product_b")

        sign_5 = delay(m, second_sign_2 ^ k.sign_b, 3, "sign_5")
        sign_6 = register(m, sign_5, "sign_6")
        negate_6 = register(m, sign_5 ^ k.offset.sign, "negate_6")
        inner = floats.add_signed(Cat(Const(0, GUARD), product_6[:PRODUCT_BITS]), k.addend, negate_6)
        inner_7 = register(m, inner[: INNER_BITS + 1].as_signed(), "inner_7")
        sign_7 = register(m, sign_6, "sign_7") ^ inner_7[-1]
        magnitude = floats.absolute(m, inner_7, INNER_BITS, "inner_magnitude")
        normal_8 = register(m, Mux(multiply, integer_3, magnitude), "normal_8")
        sign_8 = register(m, Mux(multiply, integer_sign_3, sign_7), "sign_8")

        mantissa, exponent_14 = self._normalize(m, normal_8)
        m.d.comb += mantissa_12.eq(mantissa)
        mantissa_14 = delay(m, mantissa, 2, "mantissa_14")
        sign_14 = delay(m, sign_8, 6, "sign_14")
        # A product of zero leaves the offset unchanged; the offset's bits may have been shifted out of the sum.
        plain_14 = delay(m, (second_2 == 0) | (k.mantissa_b == 0), 12, "plain_14")
        scaled, scaled_exponent = self._scaled(m, product_16, product_6, exponent_14)
        unchanged = plain_14 & ~multiply
        mantissa_15 = register(
            m, Mux(multiply, scaled, Mux(unchanged, k.offset.mantissa, mantissa_14)), "mantissa_15"
        )
        exponent_15 = register(
            m,
            Mux(multiply, scaled_exponent, Mux(unchanged, k.offset.exponent, exponent_14)),
            "exponent_15",
        )
        # For the other modes, the sign came four stages earlier; the product with the ratio takes five.
        sign_15 = register(
            m,
            Mux(
                multiply,
                delay(m, sign_14, 4, "sign_scaled") ^ k.sign_a,
                Mux(unchanged, k.offset.sign, sign_14),
            ),
            "sign_15",
        )

        distance = floats.limit(m, FLOAT_EXPONENT - exponent_15, DISTANCE_BITS, "first_distance")
        distance_16 = register(m, distance, "distance_16")
        first = Cat(Const(0, FIXED_BITS - floats.MANTISSA_BITS), register(m, mantissa_15, "mantissa_16"))
        second = Mux(multiply, k.zero_magnitude << ZERO_SHIFT, product_16[:PRODUCT_BITS])
        first_19 = self._place(m, first, distance_16, "first")
        second_19 = self._place(
            m, Cat(Const(0, FIXED_BITS - PRODUCT_BITS), second), second_distance, "second"
        )
        second_sign_18 = Mux(multiply, k.zero_sign, delay(m, first_sign_2 ^ k.sign_a, 16, "second_sign_18"))
        first_sign_18 = delay(m, sign_15, 3, "first_sign_18")
        negate_19 = register(m, first_sign_18 ^ second_sign_18, "negate_19")
        total_20 = register(m, floats.add_signed(first_19, second_19, negate_19), "total_20")
        rounded_25 = round_twice(m, total_20)
        sign_25 = delay(m, first_sign_18, 2 + ROUND_CYCLES, "sign_25")
        final_26 = register(m, floats.add_signed(k.last_addend, rounded_25, sign_25), "final_26")
        m.d.sync += self.result.eq(floats.clamp(m, final_26, self.low, self.high, "clamped"))
        return m

    def _input(self, m: Module, number: Value, name: str) -> tuple[Value, Value]:
        """Returns (magnitude of 8 bits, sign) of an input of combine_add; `number`: the input in the stored domain
        (int8; uint8 values less 128).
        """
        chosen = Signal(signed(8), name=f"{name}_chosen")
        m.d.comb += chosen.eq(number)
        # The stored value is 128 less; adding 128 inverts only the top bit.
        shifted = Cat(chosen[:7], chosen[7] ^ self.unsigned, chosen[7] & ~self.unsigned)
        number_1 = register(m, shifted.as_signed(), f"{name}_1")
        size = floats.absolute(m, number_1, 8, f"{name}_size")
        return register(m, size, f"{name}_2"), register(m, number_1[-1], f"{name}_sign_2")

    def _integer_product(self, m: Module) -> tuple[Value, Value]:
        """Multiplies the two inputs, each minus its zero point (without an operand, the second factor is 1); returns
        (magnitude of 32 bits, sign).
        """
        sizes, signs = [], []
        other = Mux(self.operand_used, self.operand - self.operand_zero_point, 1)
        for distance, name in ((self.value - self.zero_point, "own"), (other, "other")):
            distance_1 = register(m, distance, f"{name}_1")
            size = floats.absolute(m, distance_1, 16, f"{name}_size")
            sizes.append(register(m, size, f"{name}_2"))
            signs.append(register(m, distance_1[-1], f"{name}_sign_2"))
        return (
            register(m, sizes[0] * sizes[1], "integer_3"),
            register(m, signs[0] ^ signs[1], "integer_sign_3"),
        )

    def _normalize(self, m: Module, normal_8: Value) -> tuple[Value, Value]:
        """Normalizes the unsigned number `normal_8`, valid in stage 8, and rounds it to float32. Returns the mantissa,
        a combinational value in stage 13; and, in stage 14, the number's exponent with the exponent of the ratio added.
        """
        # A step's shift distance drives many multiplexers, so it is a register, computed in parallel with the number.
        count = register(m, floats.leading_zeros(m, normal_8, 16, "zeros_by_16"), "count_9")
        normal, sticky, zeros = register(m, normal_8, "normal_9"), Const(0, 1), []
        for stage, step in ((10, 16), (11, 4), (12, 1)):
            shifted = floats.shift_left(m, normal, count, step, f"normal_by_{step}")
            normal = register(m, shifted, f"normal_{stage}")
            zeros.insert(0, delay(m, count, 13 - stage, f"zeros_by_{step}_12"))
            if step > 1:
                following = floats.leading_zeros(m, shifted, step // 4, f"zeros_by_{step // 4}")
                count = register(m, following, f"count_{stage}")
            if step > 1:
                # No later step shifts bits below these places into the mantissa or the guard bit.
                places = floats.MANTISSA_BITS + step
                low = len(normal) - places
                sticky = register(m, sticky | normal[:low].any(), f"sticky_{stage + 1}")
                normal = normal[low:]
        kept, guard, below = self._split(normal)
        mantissa, carry = floats.round_mantissa(m, kept, guard, Cat(sticky, below), "inner_rounded")
        exponent_13 = register(m, self.constants.inner_exponent - Cat(*zeros), "exponent_13")
        carry_13 = register(m, carry, "carry_13")
        exponent = floats.add_with_carry(exponent_13, self.constants.scaled_exponent, carry_13)
        return mantissa, register(m, exponent, "exponent_14")

    def _split(self, normal: Value) -> tuple[Value, Value, Value]:
        """Splits a normalized number into (mantissa, guard bit, sticky bits)."""
        low = len(normal) - floats.MANTISSA_BITS
        return normal[low:], normal[low - 1], normal[: low - 1]

    def _scaled(self, m: Module, high: Value, low: Value, exponent: Value) -> tuple[Value, Value]:
        """Multiplies a rounded integer product by the ratio, and returns (mantissa, exponent) of the result. `high`,
        `low`: the ratio times the upper and the lower half of the integer product's mantissa. `exponent`: the integer
        product's exponent. The returned mantissa has a 25th bit if rounding carries into it.
        """
        product = register(m, ((high << _HALF) + low)[: 2 * floats.MANTISSA_BITS], "scaled_product")
        # The product has 47 or 48 bits, or is zero or too small to matter.
        short = ~product[-1]
        kept, guard, sticky = self._split(Mux(short, product << 1, product)[: len(product)])
        late = delay(m, exponent, 3, "scaled_exponent_late")
        exponent = register(m, late + Mux(short, 23, 24), "scaled_exponent")
        kept = register(m, kept, "scaled_kept")
        guard, sticky = register(m, guard, "scaled_guard"), register(m, sticky.any(), "scaled_sticky")
        # The next stages are fixed point: no need to normalize again.
        return kept + floats.round_up(kept, guard, sticky), exponent

    def _place(self, m: Module, bits: Value, distance: Value, name: str) -> Value:
        """`bits` >> `distance`, valid three cycles later (stages 17 to 19); the last bit is also 1 if a 1 bit was
        shifted out.
        """
        at = 0
        for stage, levels in ((17, 2), (18, 2), (19, DISTANCE_BITS - 4)):
            shifted = floats.shift_right(m, bits, distance[at : at + levels], 1 << at, f"{name}_by_{1 << at}")
            bits = register(m, shifted, f"{name}_{stage}")
            distance = register(m, distance, f"{name}_distance_{stage}")
            at += levels
        return bits

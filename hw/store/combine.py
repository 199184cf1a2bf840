"""Stage B of the store pipeline for one lane: an int8 with a second one (`vdla.isa.arithmetic`: combine_add,
combine_multiply, rescale)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from . import floats

COMBINE_STAGES = 7
"""Cycles from `value` and `operand` to `result`, which the store FIFO takes in that same cycle."""

_WIDE = 32  # bits of the product of a mantissa and an 8-bit magnitude
_GUARD = 3  # places below such a product: two and one that stands for all others
_ABOVE = _WIDE + _GUARD + 2  # an addend from this place on feels the product only as a trifle
_SUM_BITS = _ABOVE + floats.MANTISSA_BITS
_INNER_BITS = _SUM_BITS + 1

_POINT = 37
"""Fraction bits of the fixed-point numbers that the last sum adds; the last one stands for all beyond it.

If both terms have bits below 2^-36, then both are below 2^-3 and the result is 0 whatever these bits are: a
mantissa's last bit is 2^-23 of its first, and the integer factor is below 2^9.
"""
_FIXED_BITS = _POINT + 49
"""Terms of combine_add stay below 2^49 for ratios and offsets up to 2^40 (the checker's limit)."""
_DISTANCE_BITS = 7
_PRODUCT_EXPONENT = _FIXED_BITS - _WIDE - _POINT
_FLOAT_EXPONENT = _FIXED_BITS - floats.MANTISSA_BITS - _POINT


def constants_layout() -> data.StructLayout:
    """What all lanes share, from `Constants`: see there."""
    return data.StructLayout(
        {
            "ratio_a": floats.float_layout(),
            "ratio_b": floats.float_layout(),
            "offset": floats.float_layout(),
            "addend": _SUM_BITS,
            "sum_exponent": signed(floats.EXPONENT_BITS + 1),
            "distance": _DISTANCE_BITS,
        }
    )


class Constants(wiring.Component):
    """The configuration registers as the lanes need them, one cycle behind.

    Members: `ratio_self`, `ratio_operand`, `offset` (bits of finite float32), `swap`, `multiply`. `constants`: the
    ratios in the order of combine_add's inputs (`multiply`: ratio_a is the own one); the offset, and its mantissa
    aligned with the product with ratio_b (`addend`, whose last bit is 2^sum_exponent); the distance that aligns the
    product with ratio_a for the last sum.
    """

    ratio_self: In(32)
    ratio_operand: In(32)
    offset: In(32)
    swap: In(1)
    multiply: In(1)
    constants: Out(constants_layout())

    def elaborate(self, platform: object) -> Module:
        """One shifter for all lanes: how far offset and product lie apart depends on the ratio alone."""
        m = Module()
        own = floats.unpack(m, self.ratio_self, "own")
        other = floats.unpack(m, self.ratio_operand, "other")
        offset = floats.unpack(m, self.offset, "offset_float")
        a, b = Signal(floats.float_layout()), Signal(floats.float_layout())
        turned = self.swap & ~self.multiply
        m.d.comb += [a.eq(Mux(turned, other, own)), b.eq(Mux(turned, own, other))]
        below, above = b.exponent - _GUARD, offset.exponent - _ABOVE
        exponent = Signal(signed(floats.EXPONENT_BITS + 1))
        m.d.comb += exponent.eq(Mux(below > above, below, above))
        top = Cat(Const(0, _ABOVE), offset.mantissa)
        distance = floats.limit(m, exponent - above, 6, "distance")
        result = self.constants
        m.d.sync += [
            result.ratio_a.eq(a),
            result.ratio_b.eq(b),
            result.offset.eq(offset),
            result.addend.eq(floats.shift_right(m, top, distance, "addend")),
            result.sum_exponent.eq(exponent),
            result.distance.eq(
                floats.limit(m, _PRODUCT_EXPONENT - a.exponent, _DISTANCE_BITS, "last_distance")
            ),
        ]
        return m


class Combine(wiring.Component):
    """One lane, a new pair every cycle; all members but the pair hold still while pairs are under way.

    Members: `value` (of stage A) and `operand`, int8 in the stored domain. Modes: `multiply` with `operand_used`:
    combine_multiply; `multiply` without: rescale; else combine_add. `swap`: the operand is the first input. `unsigned`;
    `zero_point` and `operand_zero_point` of the two, `last_zero_point` of the result; `low`, `high`; `constants`.
    `result`: for the pair of cycle t, in cycle t + COMBINE_STAGES.

    Two multipliers. In combine_add both multiply at once; in the other modes one forms the integer product and,
    when that is rounded to float32, the other one scales it: the pipeline's later half is the same.
    """

    value: In(signed(8))
    operand: In(signed(8))
    multiply: In(1)
    operand_used: In(1)
    swap: In(1)
    unsigned: In(1)
    zero_point: In(signed(16))
    operand_zero_point: In(signed(16))
    last_zero_point: In(signed(16))
    low: In(signed(8))
    high: In(signed(8))
    constants: In(constants_layout())
    result: Out(signed(8))

    def elaborate(self, platform: object) -> Module:
        """Names of registers end in the stage (1 to 7) in which combine_add writes them."""
        m = Module()
        k = self.constants
        rounded_4 = Signal(floats.float_layout())
        a_1, exponent_a_1, sign_a_1 = Signal(48), Signal(signed(12)), Signal()
        b_1, sign_b_1 = Signal(40), Signal()
        self._multiply(m, rounded_4, (a_1, exponent_a_1, sign_a_1), (b_1, sign_b_1))

        inner_2, inner_sign_2, plain_2 = Signal(_INNER_BITS), Signal(), Signal()
        product = Cat(Const(0, _GUARD), b_1[:_WIDE])
        total, negative = _add(m, product, sign_b_1, k.addend, k.offset.sign, _INNER_BITS, "inner")
        m.d.sync += [inner_2.eq(total), inner_sign_2.eq(negative), plain_2.eq(b_1 == 0)]

        chosen, chosen_sign = Signal(_INNER_BITS), Signal()
        m.d.comb += [
            chosen.eq(Mux(self.multiply, b_1, inner_2)),
            chosen_sign.eq(Mux(self.multiply, sign_b_1, inner_sign_2)),
        ]
        normal_3, zeros_3, sign_3, plain_3 = Signal(_INNER_BITS), Signal(6), Signal(), Signal()
        shifted, zeros = floats.normalize(m, chosen, "normal")
        m.d.sync += [
            normal_3.eq(shifted),
            zeros_3.eq(zeros),
            sign_3.eq(chosen_sign),
            plain_3.eq(plain_2 & ~self.multiply),
        ]

        exponent = Signal(signed(12))
        m.d.comb += exponent.eq(Mux(self.multiply, 0, k.sum_exponent) - zeros_3)
        rounded = floats.round_mantissa(m, normal_3, exponent, sign_3, "rounded")
        # A product of zero leaves the offset as it is; its bits may have been shifted out of the sum.
        m.d.sync += rounded_4.eq(Mux(plain_3, k.offset, rounded))

        delayed, delayed_sign = a_1[:_WIDE], sign_a_1
        for stage in (2, 3, 4):
            late, late_sign = Signal(_WIDE, name=f"a_{stage}"), Signal(name=f"sign_a_{stage}")
            m.d.sync += [late.eq(delayed), late_sign.eq(delayed_sign)]
            delayed, delayed_sign = late, late_sign

        scaled = self._scaled(m, a_1, exponent_a_1, sign_a_1)
        first, first_5, first_sign_5 = Signal(floats.float_layout()), Signal(_FIXED_BITS), Signal()
        m.d.comb += first.eq(Mux(self.multiply, scaled, rounded_4))
        distance = floats.limit(m, _FLOAT_EXPONENT - first.exponent, _DISTANCE_BITS, "first_distance")
        placed = Cat(Const(0, _FIXED_BITS - floats.MANTISSA_BITS), first.mantissa)
        second_5, second_sign_5 = Signal(_FIXED_BITS), Signal()
        placed_second = Cat(Const(0, _FIXED_BITS - _WIDE), delayed)
        zero = Signal(signed(17))
        shift = Signal(8)
        m.d.comb += [
            shift.eq(Mux(self.unsigned, 128, 0)),
            zero.eq(Mux(self.operand_used, self.last_zero_point + shift, 0)),
        ]
        magnitude = Signal(17)
        m.d.comb += magnitude.eq(Mux(zero < 0, -zero, zero))
        m.d.sync += [
            first_5.eq(floats.shift_right(m, placed, distance, "first_shifted")),
            first_sign_5.eq(first.sign),
            second_5.eq(
                Mux(
                    self.multiply,
                    Cat(Const(0, _POINT), magnitude),
                    floats.shift_right(m, placed_second, k.distance, "second_shifted"),
                )
            ),
            second_sign_5.eq(Mux(self.multiply, zero < 0, delayed_sign)),
        ]

        total_6, sign_6 = Signal(_FIXED_BITS + 1), Signal()
        total, negative = _add(m, first_5, first_sign_5, second_5, second_sign_5, _FIXED_BITS + 1, "last")
        m.d.sync += [total_6.eq(total), sign_6.eq(negative)]

        low_end, top = _POINT - floats.FRACTION_BITS, _POINT + floats.INTEGER_BITS
        integer = Signal(floats.INTEGER_BITS)
        m.d.comb += integer.eq(Mux(total_6[top:].any(), (1 << floats.INTEGER_BITS) - 1, total_6[_POINT:top]))
        twice = floats.round_twice(m, integer, total_6[low_end:_POINT], total_6[:low_end], "twice")
        value_7 = Signal(signed(floats.INTEGER_BITS + 2))
        m.d.sync += value_7.eq(Mux(sign_6, -twice, twice))

        rescale = self.multiply & ~self.operand_used
        final = Signal(signed(floats.INTEGER_BITS + 3))
        m.d.comb += [
            final.eq(value_7 + Mux(rescale, self.last_zero_point, -shift)),
            self.result.eq(floats.clamp(m, final, self.low, self.high, "clamped")),
        ]
        return m

    def _multiply(
        self,
        m: Module,
        rounded: data.View,
        a: tuple[Signal, Signal, Signal],
        b: tuple[Signal, Signal],
    ) -> None:
        """The two multipliers: `a` gets product, exponent and sign; `b` product and sign."""
        k = self.constants
        shift = Mux(self.unsigned, 128, 0)
        first, second = Signal(signed(9)), Signal(signed(9))
        own, other = Signal(signed(17)), Signal(signed(17))
        m.d.comb += [
            first.eq(Mux(self.swap, self.operand, self.value) + shift),
            second.eq(Mux(self.swap, self.value, self.operand) + shift),
            own.eq(self.value - self.zero_point),
            other.eq(Mux(self.operand_used, self.operand - self.operand_zero_point, 1)),
        ]

        def size(number: Signal, bits: int, name: str) -> Signal:
            result = Signal(bits, name=name)
            m.d.comb += result.eq(Mux(number < 0, -number, number))
            return result

        left_a, right_a = Signal(24), Signal(24)
        left_b, right_b = Signal(24), Signal(16)
        m.d.comb += [
            left_a.eq(Mux(self.multiply, rounded.mantissa, size(first, 8, "size_first"))),
            right_a.eq(k.ratio_a.mantissa),
            left_b.eq(Mux(self.multiply, size(own, 16, "size_own"), k.ratio_b.mantissa)),
            right_b.eq(Mux(self.multiply, size(other, 16, "size_other"), size(second, 8, "size_second"))),
        ]
        m.d.sync += [
            a[0].eq(left_a * right_a),
            a[1].eq(rounded.exponent + k.ratio_a.exponent),
            a[2].eq(Mux(self.multiply, rounded.sign, first < 0) ^ k.ratio_a.sign),
            b[0].eq(left_b * right_b),
            b[1].eq(Mux(self.multiply, (own < 0) ^ (other < 0), (second < 0) ^ k.ratio_b.sign)),
        ]

    def _scaled(self, m: Module, product: Signal, exponent: Signal, sign: Signal) -> data.View:
        """The product of two mantissas as a float: it has 47 or 48 bits, or is zero or too small to matter."""
        short = Signal()
        normal = Signal(48, name="scaled_normal")
        m.d.comb += [short.eq(~product[47]), normal.eq(Mux(short, product << 1, product))]
        return floats.round_mantissa(m, normal, exponent - short, sign, "scaled")


def _add(
    m: Module, x: Signal, x_sign: Signal, y: Signal, y_sign: Signal, bits: int, name: str
) -> tuple[Signal, Value]:
    """Magnitude (`bits` wide) and sign of the sum of two numbers in sign and magnitude."""
    total, less = Signal(bits, name=f"{name}_total"), Signal(name=f"{name}_less")
    m.d.comb += less.eq(x < y)
    with m.If(x_sign == y_sign):
        m.d.comb += total.eq(x + y)
    with m.Elif(less):
        m.d.comb += total.eq(y - x)
    with m.Else():
        m.d.comb += total.eq(x - y)
    return total, Mux(less, y_sign, x_sign)

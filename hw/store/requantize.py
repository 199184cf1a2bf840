"""Stage A of the store pipeline for one lane: int32 to int8 by a float32 scale (`vdla.isa.arithmetic.requantize`)."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from . import floats

REQUANTIZE_STAGES = 6
"""Cycles from `total` to `result`."""

_PRODUCT_BITS = 2 * floats.MANTISSA_BITS
_LAST_BIT = floats.INTEGER_BITS - _PRODUCT_BITS
"""Power of two of the last bit of an aligned product: the integer bits end at the product's top."""


class Requantize(wiring.Component):
    """clamp(rne(float32(total) * scale) + zero_point, low, high), a new `total` every cycle.

    Members: `total` int32; `scale` bits of a finite float32; `zero_point`, `low`, `high`. All but `total` must not
    change while a total is under way. `result`: for the total of cycle t, in cycle t + REQUANTIZE_STAGES.
    """

    total: In(signed(32))
    scale: In(32)
    zero_point: In(signed(16))
    low: In(signed(8))
    high: In(signed(8))
    result: Out(signed(8))

    def elaborate(self, platform: object) -> Module:
        """A cycle each: normalize, round to float32; multiply, align; round twice, clamp."""
        m = Module()
        scale = floats.unpack(m, self.scale, "scale_float")

        magnitude = Signal(32)
        normal, negative, zeros = Signal(32), Signal(), Signal(5)
        m.d.comb += magnitude.eq(Mux(self.total < 0, -self.total, self.total))
        shifted, count = floats.normalize(m, magnitude, "normal")
        m.d.sync += [normal.eq(shifted), zeros.eq(count), negative.eq(self.total < 0)]

        number = Signal(floats.float_layout())
        m.d.sync += number.eq(floats.round_mantissa(m, normal, -zeros, negative, "rounded"))

        product, exponent, product_sign = Signal(_PRODUCT_BITS), Signal(signed(12)), Signal()
        m.d.sync += [
            product.eq(number.mantissa * scale.mantissa),
            exponent.eq(number.exponent + scale.exponent),
            product_sign.eq(number.sign ^ scale.sign),
        ]

        aligned, aligned_sign, overflow = Signal(_PRODUCT_BITS), Signal(), Signal()
        distance = floats.limit(m, _LAST_BIT - exponent, 6, "distance")
        m.d.sync += [
            aligned.eq(floats.shift_right(m, product, distance, "aligned_product")),
            aligned_sign.eq(product_sign),
            # Both factors are normalized if this is large, so one of the top bits is set unless it is zero.
            overflow.eq((exponent > _LAST_BIT) & product[-2:].any()),
        ]

        place = -_LAST_BIT
        integer = Signal(floats.INTEGER_BITS)
        m.d.comb += integer.eq(Mux(overflow, (1 << floats.INTEGER_BITS) - 1, aligned[place:]))
        rounded = floats.round_twice(
            m,
            integer,
            aligned[place - floats.FRACTION_BITS : place],
            aligned[: place - floats.FRACTION_BITS],
            "twice",
        )
        value = Signal(signed(floats.INTEGER_BITS + 2))
        m.d.sync += value.eq(Mux(aligned_sign, -rounded, rounded))

        sum_ = Signal(signed(floats.INTEGER_BITS + 3))
        m.d.comb += sum_.eq(value + self.zero_point)
        m.d.sync += self.result.eq(floats.clamp(m, sum_, self.low, self.high, "clamped"))
        return m

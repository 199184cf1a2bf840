"""Stage A of the store pipeline for one lane: int32 to int8 by a float32 scale (`vdla.isa.arithmetic.requantize`)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from . import floats
from .pipeline import delay, register
from .products import WIDE_CYCLES, multiply_wide

LANE = "requantize_lane"
"""Name of the Verilog module that the requantization of all lanes shares."""

REQUANTIZE_STAGES = 12 + WIDE_CYCLES
"""Latency of `Requantize` in cycles: from `total` to `result`."""

SCALE_STAGE = 4
"""Cycles from the input `total` of `Requantize` to the use of `scale`."""

_PLACES = 7
"""Number of fraction bits of a rounded product before its alignment shift. The product also has 18 integer bits."""


class Requantize(wiring.Component):
    """Stage A (requantization): computes clamp(rne(float32(total) * scale) + zero_point, low, high), where rne rounds
    half to even. Accepts a new `total` every cycle.

    Members: `total`: int32. `scale`: bits of a finite float32, taken SCALE_STAGE cycles after its total. `zero_point`,
    `low`, `high`: as in the formula; these three must not change while a total is in the pipeline. `result`: leaves
    REQUANTIZE_STAGES cycles after its total entered.
    """

    total: In(signed(32))
    scale: In(32)
    zero_point: In(signed(16))
    low: In(signed(8))
    high: In(signed(8))
    result: Out(signed(8))

    def elaborate(self, platform: object) -> Module:
        """Builds the pipeline; the name of a register ends in the number of the stage that writes it."""
        m = Module()
        scale = Signal(floats.float_layout(), reset_less=True)
        m.d.sync += scale.eq(floats.unpack(m, self.scale, "scale_float"))
        mantissa_5, exponent_5, carry_5, sign_5 = self._number(m)
        exponent_6 = register(m, floats.add_with_carry(exponent_5, scale.exponent, carry_5), "exponent_6")
        product_9 = multiply_wide(m, mantissa_5, scale.mantissa, "product")
        kept_10, guard_10, sticky_10, distance_10, overflow_10 = self._rounding(m, product_9, exponent_6)
        sign_13 = delay(m, sign_5 ^ scale.sign, 8, "sign_13")

        # A carry needs no second normalization: the next stages are fixed point.
        total_11 = register(m, kept_10 + floats.round_up(kept_10, guard_10, sticky_10), "total_11")
        distance_11 = register(m, distance_10, "distance_11")
        shifted = floats.shift_right(m, total_11, distance_11[:3], 1, "shifted_fine")
        shifted_12 = register(m, shifted, "shifted_12")
        distance_12 = register(m, distance_11[3:], "distance_12")
        overflow_12 = delay(m, overflow_10, 2, "overflow_12")
        shifted = floats.shift_right(m, shifted_12, distance_12, 8, "shifted_coarse")
        # The top bit, 2^17, exceeds every zero point, so the result saturates.
        shifted_13 = register(m, shifted | Cat(Const(0, len(shifted) - 1), overflow_12), "shifted_13")

        integer = shifted_13[_PLACES:]
        up = floats.round_up(integer, shifted_13[_PLACES - 1], shifted_13[: _PLACES - 1])
        integer_14 = register(m, integer + up, "integer_14")
        sign_14 = register(m, sign_13, "sign_14")
        sum_15 = register(m, floats.add_signed(self.zero_point, integer_14, sign_14), "sum_15")
        m.d.sync += self.result.eq(floats.clamp(m, sum_15, self.low, self.high, "clamped"))
        return m

    def _number(self, m: Module) -> tuple[Value, Value, Value, Value]:
        """Converts `total` to float32. Returns (mantissa, exponent, carry, sign), valid five cycles later. If carry is
        1, rounding has overflowed the mantissa, and the true exponent is larger by 1.
        """
        magnitude_1 = register(m, floats.absolute(m, self.total, 32, "magnitude"), "magnitude_1")
        sign_4 = delay(m, self.total[31], 4, "sign_4")
        shifted, eights = floats.normalize_step(m, magnitude_1, 8, "normal_8")
        normal_2 = register(m, shifted, "normal_2")
        shifted, twos = floats.normalize_step(m, normal_2, 2, "normal_2s")
        normal_3 = register(m, shifted, "normal_3")
        one = ~normal_3[31]
        upper = normal_3[-floats.MANTISSA_BITS - 2 :]
        normal_4 = register(m, Mux(one, upper << 1, upper)[: len(upper)], "normal_4")
        sticky_4 = register(m, normal_3[: -len(upper)].any(), "sticky_4")
        eights_3 = delay(m, eights, 2, "eights_3")
        zeros_4 = register(m, Cat(one, register(m, twos, "twos_3"), eights_3), "zeros_4")
        mantissa, carry = floats.round_mantissa(
            m, normal_4[2:], normal_4[1], Cat(normal_4[0], sticky_4), "rounded"
        )
        return (
            register(m, mantissa, "mantissa_5"),
            register(m, 8 - zeros_4, "exponent_5"),
            register(m, carry, "carry_5"),
            register(m, sign_4, "sign_5"),
        )

    def _rounding(
        self, m: Module, product_9: Value, exponent_6: Value
    ) -> tuple[Value, Value, Value, Value, Value]:
        """Prepares the rounding of `product_9`, a product of two mantissas, valid in stage 9, with the exponent
        `exponent_6`, valid in stage 6. Returns, in stage 10, (the product's first 24 bits, guard bit, sticky bit, shift
        distance to fixed point, whether the product is too large for fixed point).
        """
        # A product of 48 bits loses 24 of them, one of 47 bits only 23.
        far_7 = register(m, -(_PLACES + floats.MANTISSA_BITS) - exponent_6, "far_7")
        distances_9, overflows_9 = [], []
        for more, name in enumerate(("long", "short")):
            distance_8 = register(m, far_7 + more, f"{name}_8")
            distances_9.append(register(m, floats.limit(m, distance_8, 5, f"{name}_limit"), f"{name}_9"))
            overflows_9.append(register(m, distance_8[-1], f"overflow_{name}_9"))
        short = ~product_9[-1]
        kept, guard, sticky = Signal(floats.MANTISSA_BITS), Signal(), Signal()
        low = len(product_9) - floats.MANTISSA_BITS - 1
        m.d.comb += [
            Cat(guard, kept).eq(Mux(short, product_9[low - 1 : -1], product_9[low:])),
            sticky.eq(product_9[: low - 1].any() | (~short & product_9[low - 1])),
        ]
        return (
            register(m, kept, "kept_10"),
            register(m, guard, "guard_10"),
            register(m, sticky, "sticky_10"),
            register(m, Mux(short, distances_9[1], distances_9[0]), "distance_10"),
            # If this exponent is large, both factors are normalized, so the top bit is set unless the product is zero.
            register(m, Mux(short, overflows_9[1], overflows_9[0]) & kept[-1], "overflow_10"),
        )

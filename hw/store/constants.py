"""Computes the constants of stage B (the operation after requantization) from configuration registers, once for all
lanes.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.arithmetic import CONSTANT_BITS

from . import floats
from .pipeline import register

CONSTANTS_CYCLES = 5
"""Cycles from a change of an input of `Constants` to the constants computed from it."""

PRODUCT_BITS = 32
"""Width in bits of the product of a mantissa and an 8-bit magnitude, or of two 16-bit magnitudes."""

GUARD = 3
"""Number of bits that combine_add appends to the product of an input and a ratio, below its last bit, before the offset
is added: two bits, and a sticky bit, which is the OR of all lower bits of the offset.
"""

_ABOVE = PRODUCT_BITS + GUARD + 2  # of an addend at this bit or above, the product changes only the rounding

SUM_BITS = _ABOVE + floats.MANTISSA_BITS
INNER_BITS = SUM_BITS + 1

POINT = 37
"""Number of fraction bits of the fixed-point terms of the last sum in stage B (the operation after requantization). The
last bit is sticky: the OR of all lower bits.

These bits suffice. If both terms have bits below 2^-36, then both are below 2^-3, because a mantissa's last bit is
2^-23 of its first and the integer factor is below 2^9. The result is then 0, whatever these bits are.
"""

FIXED_BITS = POINT + CONSTANT_BITS + 9
"""Width in bits of the fixed-point terms of the last sum in stage B (the operation after requantization). The checker
requires ratios and offset of at most 2^CONSTANT_BITS, so the terms of combine_add are below 2^(CONSTANT_BITS + 9).
"""

DISTANCE_BITS = FIXED_BITS.bit_length()
FLOAT_EXPONENT = FIXED_BITS - floats.MANTISSA_BITS - POINT
"""Exponent of a float whose mantissa fills the top bits of a fixed-point number. The number has FIXED_BITS bits, of
which the lowest POINT bits are the fraction.
"""

_PRODUCT_EXPONENT = FIXED_BITS - PRODUCT_BITS - POINT
ZERO_SHIFT = -_PRODUCT_EXPONENT
"""Number of places by which a zero point is shifted left, so that its binary point is that of an unshifted product."""

assert 0 <= ZERO_SHIFT <= PRODUCT_BITS - 16
_INNER_DROP = INNER_BITS - floats.MANTISSA_BITS


def constants_layout() -> data.StructLayout:
    """Layout of the constants that all lanes of stage B (the operation after requantization) share. The component
    `Constants` outputs them as its member `constants`; its docstring explains each field.
    """
    return data.StructLayout(
        {
            "mantissa_a": floats.MANTISSA_BITS,
            "sign_a": 1,
            "mantissa_b": floats.MANTISSA_BITS,
            "sign_b": 1,
            "offset": floats.float_layout(),
            "addend": SUM_BITS,
            "inner_exponent": signed(floats.EXPONENT_BITS + 1),
            "scaled_exponent": signed(floats.EXPONENT_BITS),
            "distance": DISTANCE_BITS,
            "zero_magnitude": 16,
            "zero_sign": 1,
            "last_addend": signed(17),
        }
    )


class Constants(wiring.Component):
    """Computes constants of stage B (the operation after requantization) that all lanes share, from the configuration
    registers.

    Inputs: `ratio_self`, `ratio_operand`, `offset`: bits of finite float32. `zero_point`: zero point of the result.
    `multiply`, `operand_used`: the operation is combine_multiply if both are 1, rescale if only `multiply` is 1, else
    combine_add. `swap`: the operand is combine_add's first input. `unsigned`: the model's values are uint8.

    Fields of the output `constants`, which is valid CONSTANTS_CYCLES later:

    - `mantissa_a`, `sign_a`, `mantissa_b`, `sign_b`: the ratios a and b of combine_add's first and second input; with
      `multiply`, both are `ratio_self`.
    - `offset`: the float32 offset. `addend`: its mantissa, shifted so that it can be added to the product of an input
      and ratio b. The shift depends only on the exponents of the offset and of the ratio.
    - `inner_exponent`: exponent of a normalized inner sum or integer product. `scaled_exponent`: number added to that
      exponent for a scaled product.
    - `distance`: right shift that converts the second term of the last sum to fixed point. `zero_magnitude`,
      `zero_sign`: this second term, in the operations that add the zero point of the result.
    - `last_addend`: the number added after the last rounding.
    """

    ratio_self: In(32)
    ratio_operand: In(32)
    offset: In(32)
    zero_point: In(signed(16))
    multiply: In(1)
    operand_used: In(1)
    swap: In(1)
    unsigned: In(1)
    constants: Out(constants_layout())

    def elaborate(self, platform: object) -> Module:
        """Builds the pipeline; the name of a register ends in the number of the cycle that writes it."""
        m = Module()
        own = floats.unpack(m, self.ratio_self, "own")
        other = floats.unpack(m, self.ratio_operand, "other")
        unpacked = floats.unpack(m, self.offset, "offset_float")
        a, b = (Signal(floats.float_layout(), name=name, reset_less=True) for name in ("a_1", "b_1"))
        offset = Signal(floats.float_layout(), name="offset_1", reset_less=True)
        turned = self.swap & ~self.multiply
        m.d.sync += [
            a.eq(Mux(turned, other, own)),
            b.eq(Mux(turned | self.multiply, own, other)),
            offset.eq(unpacked),
        ]
        below, above = b.exponent - GUARD, offset.exponent - _ABOVE
        exponent_2 = register(m, Mux(below > above, below, above), "exponent_2")
        above_2 = register(m, above, "above_2")
        distance_3 = register(m, floats.limit(m, exponent_2 - above_2, 6, "limited"), "distance_3")
        inner = register(m, Mux(self.multiply, 0, exponent_2) + _INNER_DROP, "inner_exponent_3")
        top = Cat(Const(0, _ABOVE), offset.mantissa)
        partly_4 = register(m, floats.shift_right(m, top, distance_3[:3], 1, "addend_fine"), "partly_4")
        rest_4 = register(m, distance_3[3:], "rest_4")

        shift = register(m, Mux(self.unsigned, 128, 0), "shift_1")
        product = self.multiply & self.operand_used
        zero = register(m, Mux(product, self.zero_point + shift, 0), "zero_2")
        rescale = self.multiply & ~self.operand_used
        last = register(m, Mux(rescale, self.zero_point, -shift), "last_2")
        second_exponent = register(m, Mux(self.multiply, _PRODUCT_EXPONENT, a.exponent), "second_exponent_2")
        distance = floats.limit(m, _PRODUCT_EXPONENT - second_exponent, DISTANCE_BITS, "last_distance")

        result = Signal(constants_layout(), name="result", reset_less=True)
        m.d.comb += self.constants.eq(result)
        m.d.sync += [
            result.mantissa_a.eq(a.mantissa),
            result.sign_a.eq(a.sign),
            result.mantissa_b.eq(b.mantissa),
            result.sign_b.eq(b.sign),
            result.offset.eq(offset),
            result.addend.eq(floats.shift_right(m, partly_4, rest_4, 8, "addend_coarse")),
            result.inner_exponent.eq(inner),
            result.scaled_exponent.eq(Mux(self.multiply, a.exponent, 0)),
            result.distance.eq(distance),
            result.zero_magnitude.eq(floats.absolute(m, zero, 16, "zero_magnitude")),
            result.zero_sign.eq(zero[-1]),
            result.last_addend.eq(last),
        ]
        return m

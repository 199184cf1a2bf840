"""Combinational parts of float32 arithmetic: normalizing, rounding, shifting without forgetting what falls off.

A finite float is held as sign, `mantissa` (24 bits, hidden bit included) and `exponent`, the power of two of the
mantissa's last bit: value = mantissa x 2^exponent. Exponents have more bits than float32's, so nothing that
is not zero becomes zero and subnormal numbers need no care (their hidden bit is 0).
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

MANTISSA_BITS = 24
EXPONENT_BITS = 11

INTEGER_BITS = 19
"""Integer bits that `round_twice` looks at: sums with a 16-bit zero point saturate int8 long before."""

FRACTION_BITS = 25
"""Fraction bits that decide how a float32 of 0.5 or more was rounded; all below is one sticky bit."""


def float_layout() -> data.StructLayout:
    """sign, exponent of the last mantissa bit, mantissa."""
    return data.StructLayout({"mantissa": MANTISSA_BITS, "exponent": signed(EXPONENT_BITS), "sign": 1})


def unpack(m: Module, bits: Value, name: str) -> data.View:
    """The finite float32 number whose encoding is `bits` (32)."""
    number = Signal(float_layout(), name=name)
    field = bits[23:31]
    m.d.comb += [
        number.sign.eq(bits[31]),
        number.mantissa.eq(Cat(bits[:23], field.any())),
        number.exponent.eq(Mux(field.any(), field, 1) - 150),
    ]
    return number


def normalize(m: Module, bits: Value, name: str) -> tuple[Value, Value]:
    """`bits` shifted left until its top bit is set, and by how much (all places, if `bits` is zero)."""
    width = len(bits)
    step = 1 << ((width - 1).bit_length() - 1)
    zeros = []
    while step:
        empty = Signal(name=f"{name}_empty_{step}")
        shifted = Signal(width, name=f"{name}_{step}")
        m.d.comb += [empty.eq(~bits[width - step :].any()), shifted.eq(Mux(empty, bits << step, bits))]
        zeros.insert(0, empty)
        bits = shifted
        step >>= 1
    return bits, Cat(*zeros)


def shift_right(m: Module, bits: Value, amount: Value, name: str) -> Value:
    """`bits` >> `amount`, with 1 in the last bit if anything but zeros was lost: enough for any later rounding that
    looks at bits further left."""
    width = len(bits)
    for level in range(len(amount)):
        step = 1 << level
        shifted = Signal(width, name=f"{name}_{step}")
        if step < width:
            moved = Cat(bits[step] | bits[:step].any(), bits[step + 1 :])
        else:
            moved = bits.any()
        m.d.comb += shifted.eq(Mux(amount[level], moved, bits))
        bits = shifted
    return bits


def limit(m: Module, amount: Value, bits: int, name: str) -> Signal:
    """Signed `amount` held within 0 .. 2^bits - 1: a shift distance."""
    result = Signal(bits, name=name)
    top = (1 << bits) - 1
    m.d.comb += result.eq(Mux(amount < 0, 0, Mux(amount > top, top, amount)))
    return result


def round_mantissa(m: Module, bits: Value, exponent: Value, sign: Value, name: str) -> data.View:
    """The float nearest to normalized `bits` (or zero), ties to even; `exponent` is that of bits' last bit.

    `bits` must be wider than a mantissa by two; its last bit may stand for lost ones.
    """
    drop = len(bits) - MANTISSA_BITS
    kept = bits[drop:]
    up = Signal(name=f"{name}_up")
    total = Signal(MANTISSA_BITS + 1, name=f"{name}_total")
    result = Signal(float_layout(), name=name)
    m.d.comb += [
        up.eq(bits[drop - 1] & (bits[: drop - 1].any() | kept[0])),
        total.eq(kept + up),
        # Only 0b1111... carries out, and then all that is left is one bit.
        result.mantissa.eq(Cat(total[: MANTISSA_BITS - 1], total[MANTISSA_BITS - 1 :].any())),
        result.exponent.eq(exponent + drop + total[MANTISSA_BITS]),
        result.sign.eq(sign),
    ]
    return result


def round_twice(m: Module, integer: Value, fraction: Value, sticky: Value, name: str) -> Signal:
    """rint(float32(x)) for exact x >= 0 = `integer` + 0.`fraction` (+ something below, if `sticky`).

    Both round half to even. With u the distance of float32 numbers around x, float32(x) is the tie n + 1/2 exactly
    when x is within u/2 of it, both ends included (the tie is an even multiple of u). So the integer is n + 1 if
    x > n + 1/2 + u/2 or, for odd n, if x >= n + 1/2 - u/2. Below 1/2 all is 0. `integer` has INTEGER_BITS bits,
    `fraction` FRACTION_BITS.
    """
    half = Const(1 << (FRACTION_BITS - 1), FRACTION_BITS)
    # u/2 = 2^(k - 24), with k the place of the integer's first one, -1 without.
    leading = Signal(INTEGER_BITS + 1, name=f"{name}_leading")
    m.d.comb += leading[0].eq(~integer.any())
    for place in range(INTEGER_BITS):
        m.d.comb += leading[place + 1].eq(integer[place] & ~integer[place + 1 :].any())
    above, below = Signal(FRACTION_BITS, name=f"{name}_above"), Signal(FRACTION_BITS, name=f"{name}_below")
    up = Signal(name=f"{name}_up")
    result = Signal(INTEGER_BITS + 1, name=name)
    m.d.comb += [
        above.eq(half | leading),
        below.eq(half - leading),
        up.eq(Mux(integer[0], fraction >= below, (fraction > above) | ((fraction == above) & sticky.any()))),
        result.eq(integer + up),
    ]
    return result


def clamp(m: Module, value: Value, low: Value, high: Value, name: str) -> Signal:
    """min(max(value, low), high), 8 bits signed."""
    floored = Signal(signed(len(value)), name=f"{name}_floored")
    result = Signal(signed(8), name=name)
    m.d.comb += [
        floored.eq(Mux(value < low, low, value)),
        result.eq(Mux(floored > high, high, floored)),
    ]
    return result

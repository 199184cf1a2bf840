"""Combinational parts of float32 arithmetic, each short enough for one cycle; the lanes insert the registers.

A finite float is represented by sign, `mantissa` (24 bits, hidden bit included) and `exponent`, the power of two of the
mantissa's last bit: value = mantissa x 2^exponent. Exponents have more bits than those of float32, so no nonzero number
becomes zero, and subnormal numbers are no special case (their hidden bit is 0).
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from .pipeline import register

MANTISSA_BITS = 24
EXPONENT_BITS = 11

INTEGER_BITS = 17
"""Number of integer bits that are kept of a rounded number. A larger number need not be exact: from 2^16 on, the result
saturates to the bounds of int8, whatever 16-bit zero point is added.
"""

FRACTION_BITS = 25
"""Number of bits below the binary point that matter when a sum of 0.5 or more is rounded to float32 and then to an
integer. One sticky bit represents all lower bits.
"""


def float_layout() -> data.StructLayout:
    """Layout of a float: mantissa, exponent (of the mantissa's last bit), sign."""
    return data.StructLayout({"mantissa": MANTISSA_BITS, "exponent": signed(EXPONENT_BITS), "sign": 1})


def unpack(m: Module, bits: Value, name: str) -> data.View:
    """The finite float32 number whose encoding is `bits` (32 bits)."""
    number = Signal(float_layout(), name=name)
    field = bits[23:31]
    m.d.comb += [
        number.sign.eq(bits[31]),
        number.mantissa.eq(Cat(bits[:23], field.any())),
        number.exponent.eq(Mux(field.any(), field, 1) - 150),
    ]
    return number


def absolute(m: Module, number: Value, bits: int, name: str) -> Signal:
    """Absolute value of a signed `number`, in `bits` bits; the caller ensures that they suffice."""
    result = Signal(bits, name=name)
    negative = number[-1]
    m.d.comb += result.eq((number ^ negative.replicate(len(number))) + negative)
    return result


def add_with_carry(x: Value, y: Value, carry: Value) -> Value:
    """The signed sum x + y + carry, computed in one carry chain; one bit wider than Amaranth's x + y."""
    bits = len(x + y) + 1
    # The carry enters the chain through an additional lowest bit.
    left, right = (Cat(carry, (value + Const(0, signed(bits)))[:bits]) for value in (x, y))
    return (left + right)[1 : bits + 1].as_signed()


def add_signed(x: Value, y: Value, subtract: Value) -> Value:
    """The signed value x - y if `subtract`, else x + y, computed in one carry chain; wide enough for every result."""
    number = y + Const(0, signed(2))
    return add_with_carry(x, (number[:] ^ subtract.replicate(len(number))).as_signed(), subtract)


def leading_zeros(m: Module, bits: Value, step: int, name: str) -> Value:
    """The number of times (0 to 3, in 2 bits) that `bits` can be shifted left by `step` without shifting out a 1
    bit.
    """
    width = len(bits)
    twice, once = Signal(name=f"{name}_twice"), Signal(name=f"{name}_once")
    high, low = bits[width - step :].any(), bits[width - 3 * step : width - 2 * step].any()
    m.d.comb += [twice.eq(~bits[width - 2 * step :].any()), once.eq(~Mux(twice, low, high))]
    return Cat(once, twice)


def shift_left(m: Module, bits: Value, count: Value, step: int, name: str) -> Value:
    """`bits` << (`count` x `step`), of the same width; `count` has 2 bits."""
    result = Signal(len(bits), name=name)
    once, twice = count
    m.d.comb += result.eq(
        Mux(
            twice,
            Mux(once, bits << 3 * step, bits << 2 * step),
            Mux(once, bits << step, bits),
        )
    )
    return result


def normalize_step(m: Module, bits: Value, step: int, name: str) -> tuple[Value, Value]:
    """Returns (`bits` << (n x `step`), n), where n (2 bits) is the largest of 0 to 3 that shifts out no 1 bit."""
    count = leading_zeros(m, bits, step, f"{name}_zeros")
    return shift_left(m, bits, count, step, name), count


def shift_right(m: Module, bits: Value, amount: Value, step: int, name: str) -> Value:
    """`bits` >> (`amount` x `step`), with 1 in the last bit if a 1 bit was shifted out; this sticky bit suffices for a
    later rounding to any higher bit. `step` is a power of two.
    """
    width = len(bits)
    for level in range(len(amount)):
        places = step << level
        shifted = Signal(width, name=f"{name}_{places}")
        if places < width:
            moved = Cat(bits[: places + 1].any(), bits[places + 1 :])
        else:
            moved = bits.any()
        m.d.comb += shifted.eq(Mux(amount[level], moved, bits))
        bits = shifted
    return bits


def limit(m: Module, amount: Value, bits: int, name: str) -> Signal:
    """Signed `amount` clamped to 0 .. 2^bits - 1, for use as a shift distance."""
    number, result = Signal(amount.shape(), name=f"{name}_number"), Signal(bits, name=name)
    above = number[bits:-1].any()
    m.d.comb += [
        number.eq(amount),
        result.eq((number[:bits] | above.replicate(bits)) & (~number[-1]).replicate(bits)),
    ]
    return result


def round_up(mantissa: Value, guard: Value, sticky: Value) -> Value:
    """1 if rounding to nearest, ties to even, adds 1 to `mantissa`; `guard` is the bit below `mantissa`, `sticky` are
    all bits below `guard`.
    """
    return guard & (sticky.any() | mantissa[0])


def round_mantissa(m: Module, mantissa: Value, guard: Value, sticky: Value, name: str) -> tuple[Value, Value]:
    """Rounds the normalized (or zero) `mantissa` to nearest, ties to even, by the bits below it (`guard`, `sticky`: see
    `round_up`). Returns (mantissa, carry); if the carry is 1, the exponent is one larger.
    """
    total = Signal(MANTISSA_BITS + 1, name=name)
    m.d.comb += total.eq(mantissa + round_up(mantissa, guard, sticky))
    # Only 0b1111... carries out, and the result is then a single one.
    return Cat(total[: MANTISSA_BITS - 1], total[MANTISSA_BITS - 1 :].any()), total[MANTISSA_BITS]


def clamp(m: Module, value: Value, low: Value, high: Value, name: str) -> Signal:
    """Computes min(max(value, low), high), 8 bits signed. The bounds must not change, because a register delays `low`
    by a cycle.
    """
    lower = register(m, Mux(low > high, high, low), f"{name}_lower")
    # The sign of a difference needs one carry chain, unlike `<`.
    above, below = high - value, value - lower
    result = Signal(signed(8), name=name)
    m.d.comb += result.eq(Mux(above[-1], high, Mux(below[-1], lower, value)))
    return result

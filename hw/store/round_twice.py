"""The last rounding of stage B: an exact sum to float32, and that to an integer."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from .constants import POINT
from .floats import FRACTION_BITS, INTEGER_BITS
from .pipeline import delay, register

ROUND_CYCLES = 4
"""Cycles from a sum to its rounded value."""


def round_twice(m: Module, total: Value) -> Value:
    """rint(float32(x)) of the signed fixed-point x with POINT fraction bits, the last one for all beyond.

    Both round half to even. Let n = floor(x) and f = x - n, and u the distance of float32 numbers around n + 1/2. Then
    float32(x) is the tie n + 1/2 exactly if x is within u/2 of it, both ends included (the tie is an even multiple
    of u). So the result is n + 1 if f > 1/2 + u/2 or, for odd n, if f >= 1/2 - u/2; else n. That holds for negative x
    too: there |n + 1/2| = ~n + 1/2. u/2 = 2^(k - 24), k the place of the first one in n (or ~n), -1 without.

    ROUND_CYCLES later, of INTEGER_BITS + 2 bits; x of more than INTEGER_BITS becomes the outermost n.
    """
    negative_1 = register(m, total[-1], "negative_1")
    outside = (
        total[POINT + INTEGER_BITS : -1] ^ total[-1].replicate(len(total) - 1 - POINT - INTEGER_BITS)
    ).any()
    integer = total[POINT : POINT + INTEGER_BITS]
    digits = register(
        m,
        (integer ^ total[-1].replicate(INTEGER_BITS)) | outside.replicate(INTEGER_BITS),
        "digits_1",
    )
    fraction_2 = delay(m, total[POINT - FRACTION_BITS : POINT], 2, "fraction_2")
    sticky_2 = delay(m, total[: POINT - FRACTION_BITS].any(), 2, "sticky_2")

    integer_3 = delay(m, digits ^ negative_1.replicate(INTEGER_BITS), 2, "integer_3")
    negative_3 = delay(m, negative_1, 2, "negative_3")
    # In places of the fraction, whose last is 2^-25: u/2 is place k + 1, and reached[p] says that k >= p.
    reached = register(m, Cat(*(digits[place:].any() for place in range(INTEGER_BITS))), "reached_2")
    below_half = fraction_2[: FRACTION_BITS - 1]
    places = len(below_half)
    wide = Cat(reached, *([0] * (places - INTEGER_BITS)))
    before = Cat(1, wide[: places - 1])
    beyond = register(m, (below_half & ~before).any(), "beyond_3")
    same = register(m, (below_half & before & ~wide).any(), "same_3")
    more = register(m, (below_half & wide).any() | sticky_2, "more_3")
    close = register(m, (below_half | wide).all(), "close_3")
    half = register(m, fraction_2[-1], "half_3")

    up = Signal(name="rounded_up")
    m.d.comb += up.eq(Mux(integer_3[0], half | close, half & (beyond | (same & more))))
    return register(m, Cat(integer_3, negative_3).as_signed() + up, "rounded_4")

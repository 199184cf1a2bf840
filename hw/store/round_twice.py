"""The last rounding of stage B (the operation of a store after requantization): an exact sum to float32, then the
float32 number to an integer.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from .constants import POINT
from .floats import FRACTION_BITS, INTEGER_BITS
from .pipeline import delay, register

ROUND_CYCLES = 5
"""Cycles from the input of `round_twice` to the rounded value."""

_GROUP = 4


def round_twice(m: Module, total: Value) -> Value:
    """Rounds the signed fixed-point number x in `total` to float32 and then to an integer: rint(float32(x)). Each
    rounding is half to even. x has POINT fraction bits; its last bit is sticky, which means the OR of all bits from
    there down.

    Let n = floor(x), f = x - n, and u the distance between float32 numbers around n + 1/2. Then float32(x) is the tie n
    + 1/2 exactly if x is within u/2 of the tie, both ends included (the tie is an even multiple of u). So the result is
    n + 1 if f > 1/2 + u/2 or, for odd n, if f >= 1/2 - u/2; else n. The same holds for negative x, where |n + 1/2| = ~n
    + 1/2. u/2 = 2^(k - 24), where k is the index of the highest 1 in n (in ~n if x is negative), or -1 if there is no
    1.

    The result has INTEGER_BITS + 2 bits and comes ROUND_CYCLES later. An x of more than INTEGER_BITS integer bits
    counts as the largest n, or the least if it is negative.
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
    fraction_3 = delay(m, total[POINT - FRACTION_BITS : POINT], 3, "fraction_3")
    sticky_3 = delay(m, total[: POINT - FRACTION_BITS].any(), 3, "sticky_3")

    integer_4 = delay(m, digits ^ negative_1.replicate(INTEGER_BITS), 3, "integer_4")
    negative_4 = delay(m, negative_1, 3, "negative_4")
    # Bit indices of the fraction, whose last bit is 2^-25: u/2 is bit k + 1, and reached[p] means k >= p. It takes two
    # cycles: within groups of bits, then across groups.
    groups = [digits[low : low + _GROUP] for low in range(0, INTEGER_BITS, _GROUP)]
    inside_2 = [
        register(m, Cat(*(group[place:].any() for place in range(len(group)))), f"inside_2_{number}")
        for number, group in enumerate(groups)
    ]
    reached = register(
        m,
        Cat(
            *(
                inside | Cat(*(above[0] for above in inside_2[number:])).any().replicate(len(inside))
                for number, inside in enumerate(inside_2, 1)
            )
        ),
        "reached_3",
    )
    below_half = fraction_3[: FRACTION_BITS - 1]
    places = len(below_half)
    wide = Cat(reached, *([0] * (places - INTEGER_BITS)))
    before = Cat(1, wide[: places - 1])
    beyond = register(m, (below_half & ~before).any(), "beyond_4")
    same = register(m, (below_half & before & ~wide).any(), "same_4")
    more = register(m, (below_half & wide).any() | sticky_3, "more_4")
    close = register(m, (below_half | wide).all(), "close_4")
    half = register(m, fraction_3[-1], "half_4")

    up = Signal(name="rounded_up")
    m.d.comb += up.eq(Mux(integer_4[0], half | close, half & (beyond | (same & more))))
    return register(m, Cat(integer_4, negative_4).as_signed() + up, "rounded_5")

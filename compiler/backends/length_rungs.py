"""Chooses rungs: the few input lengths, in tokens, for which a model is compiled. An input of another length is padded
to the next longer rung. The choice bounds the cost of padding for all lengths.

Targets work in blocks of powers of two. So a round length often costs less than a slightly shorter length that is not
round: on `vta`, MiniLM takes 13.7 million cycles for 512 tokens and 15.8 million for 500. Rungs are therefore round
numbers if possible.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, isqrt

TOLERANCE = 0.03
"""Default tolerance with exact costs. An input is padded to the next longer length with an executable (its rung). The
tolerance is the largest extra cost of this padding, relative to the cost of an executable for the input's own length.
"""
LADDER_TOLERANCE = 0.025
"""Default tolerance where exact costs are unknown. It is lower than `TOLERANCE` because padding the inputs and cropping
the outputs also takes time. For short lengths this time is about as much as the tolerance allows.
"""
FIXED = 4
"""Where exact costs are unknown, the cost of a length is estimated as its tokens plus this number. The number stands
for costs that do not depend on the length, such as reading the weights. It is small, because weights in a cache cost
little, and because the cost of short lengths grows in steps of the kernels' tiles.
"""


def roundest(least: int, most: int) -> int:
    """The roundest number in `least` .. `most`: the number that is divisible by the largest power of two (512 for 500
    .. 600). Returns `most` if `most` <= `least`.
    """
    if most <= least:
        return most
    power = 1 << (most - least).bit_length()
    while most // power * power < least:
        power //= 2
    return most // power * power


def rungs_by_cost(least: int, most: int, cost: Callable[[int], int], tolerance: float) -> list[int]:
    """The rungs (lengths that get an executable) for all lengths from `least` to `most`, ascending. `cost` gives the
    exact cost of a length; it is called for few lengths.

    A range of lengths, `low` to `high`, shares the rung `high` if the rung costs at most 1 + `tolerance` times as much
    as each of three lengths: `low`, the roundest length below `high` (`roundest`), and the roundest length below that
    one. Otherwise the range is split near its geometric mean, and both parts are treated in the same way. At the end, a
    rung is dropped if the next longer rung can serve the rung's lengths, too. The longer rung may cost at most 1 +
    `tolerance` times as much as each of these lengths whose cost is known.
    """
    known: dict[int, int] = {}

    def taken(length: int) -> int:
        if length not in known:
            known[length] = cost(length)
        return known[length]

    def shared(low: int, high: int) -> bool:
        round_one = roundest(low, high - 1)
        lengths = dict.fromkeys((low, round_one, roundest(low, max(round_one - 1, low))))
        return all(taken(high) <= (1 + tolerance) * taken(length) for length in lengths)

    ranges: list[tuple[int, int]] = []
    waiting = [(least, most)]
    while waiting:
        low, high = waiting.pop()
        if low == high or shared(low, high):
            ranges.append((low, high))
            continue
        middle = isqrt(low * high)
        around = (high - low) // 4
        middle = min(roundest(max(low, middle - around), middle + around), high - 1)
        waiting += [(low, middle), (middle + 1, high)]
    rungs: list[int] = []
    # Ranges are in descending order.
    for low, high in ranges:
        limit = known[rungs[-1]] / (1 + tolerance) if rungs else 0
        if not rungs or any(known[length] < limit for length in known if low <= length < rungs[-1]):
            rungs.append(high)
    return rungs[::-1]


def rungs_by_ratio(least: int, most: int, tolerance: float) -> list[int]:
    """The rungs (lengths that get an executable) for all lengths from `least` to `most`, ascending. The estimated cost
    of a length is its tokens plus `FIXED`. A rung costs at most 1 + `tolerance` times as much as each length that is
    padded to the rung. No power of two is strictly between two neighbouring rungs.
    """
    rungs = [most]
    while True:
        # `low`: the least length for which the rung above is cheap enough; the next rung must hold `low` - 1.
        above = rungs[-1]
        low = ceil((above + FIXED) / (1 + tolerance)) - FIXED
        if low <= least:
            return rungs[::-1]
        below = min(low, above) - 1
        round_one = roundest(below, below + (above - 1 - below) // 3)
        rungs.append(max(round_one, 1 << (above - 1).bit_length() - 1, least))

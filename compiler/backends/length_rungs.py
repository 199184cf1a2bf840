"""Which lengths get an executable of their own: few, and no length in the range pays much for the pads of its rung.

Machines work in blocks of powers of two, so that round lengths cost less than their neighbours, often less than shorter
ones: on `vta`, MiniLM takes 13.7 million cycles for 512 tokens and 15.8 for 500. So rungs are round where they can be.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, isqrt

TOLERANCE = 0.03
"""Of its own cost, what a length may pay more on its rung, unless told, where costs are exact."""
LADDER_TOLERANCE = 0.025
"""The same where they are not; pads and crops take about as much again of a short length."""
FIXED = 4
"""Without exact costs: a length costs as much as its tokens and so many more, since reading the weights does not depend
on tokens. Few: where weights fit a cache they cost little, and tiles of kernels make steps of short lengths."""


def roundest(least: int, most: int) -> int:
    """The multiple of the greatest power of two from `least` to `most`; `most` where that is below `least`."""
    if most <= least:
        return most
    power = 1 << (most - least).bit_length()
    while most // power * power < least:
        power //= 2
    return most // power * power


def rungs_by_cost(least: int, most: int, cost: Callable[[int], int], tolerance: float) -> list[int]:
    """Rungs between `least` and `most`, ascending, by the exact `cost` of a length, which is asked for few.

    Lengths from `low` to `high` share the rung `high` where that costs at most `tolerance` more than the least of them,
    and than the roundest two below `high`. Else they are divided near their geometric middle. Last, a rung goes where
    the one above it costs all lengths known of both little enough.
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
    # The last range comes first.
    for low, high in ranges:
        limit = known[rungs[-1]] / (1 + tolerance) if rungs else 0
        if not rungs or any(known[length] < limit for length in known if low <= length < rungs[-1]):
            rungs.append(high)
    return rungs[::-1]


def rungs_by_ratio(least: int, most: int, tolerance: float) -> list[int]:
    """Rungs, ascending, where the cost of a length is not known exactly but taken to be that of its tokens and `FIXED`
    more. Powers of two are among them, but where the range needs none."""
    rungs = [most]
    while True:
        # The least length for which the rung above is cheap enough; the next rung holds the one below that.
        above = rungs[-1]
        low = ceil((above + FIXED) / (1 + tolerance)) - FIXED
        if low <= least:
            return rungs[::-1]
        below = min(low, above) - 1
        round_one = roundest(below, below + (above - 1 - below) // 3)
        rungs.append(max(round_one, 1 << (above - 1).bit_length() - 1, least))

"""The loops of a sum in a chosen order, with the innermost steps unrolled."""

from __future__ import annotations

from collections.abc import Sequence

from ...schedule import Schedule
from .borders import has_loop


def unrolled_steps(extents: Sequence[int], wanted: int) -> tuple[int, ...]:
    """The number of unrolled iterations of each loop, outermost first, for at most `wanted` steps in all.

    The innermost loops are unrolled whole, the next loop by its largest divisor that fits; the outermost loop, which
    may be split into partial sums, is not unrolled.
    """
    factors = [1] * len(extents)
    for i in reversed(range(1, len(extents))):
        factors[i] = max((d for d in range(1, min(wanted, extents[i]) + 1) if extents[i] % d == 0), default=1)
        if factors[i] < extents[i]:
            break
        wanted //= factors[i]
    return tuple(factors)


def ordered_terms(
    s: Schedule, name: str, terms: Sequence[tuple[str, int]], wanted: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The loops of the sum `name` over `terms` (loop and extent, outermost first), and the loops to unroll.

    The loops are called `name`.loop; a loop that is unrolled in part is split in two.
    """
    order: list[str] = []
    unrolled: list[str] = []
    for (loop, extent), factor in zip(terms, unrolled_steps([e for _, e in terms], wanted), strict=True):
        if 1 < factor < extent:
            outer, inner = s.split(f"{name}.{loop}", factor)
            order += [outer, inner]
            unrolled.append(inner)
        else:
            order.append(f"{name}.{loop}")
            if factor > 1:
                unrolled.append(f"{name}.{loop}")
    return tuple(order), tuple(unrolled)


def unroll_terms(s: Schedule, unrolled: Sequence[str]) -> None:
    """Unrolls these loops, under the names that partial sums gave them (see `partial_sums.sum_in_parts`)."""
    for loop in unrolled:
        s.unroll(f"{loop}.rf" if has_loop(s, f"{loop}.rf") else loop)

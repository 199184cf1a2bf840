"""The loops of a sum: their order, the innermost steps unrolled, and long sums cut into partial sums.

Partial sums are for accuracy: rounding errors grow with the number of terms added in sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...passes.sum_in_blocks import BLOCK_TERMS, LONGEST
from ...schedule import Schedule
from .loops import has_loop


def unrolled_steps(extents: Sequence[int], wanted: int) -> tuple[int, ...]:
    """The number of unrolled iterations of each loop, outermost first; their product is at most `wanted`.

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
    """The loops of the sum `name`, outermost first, and the ones among them to unroll, at most `wanted` steps in all.

    `terms`: (loop, extent), outermost first. The loops are called `name`.loop; a loop that is unrolled partially is
    split in two.
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
    """Unrolls the loops `unrolled`, whose names may have the suffix .rf of partial sums (see `sum_in_parts`)."""
    for loop in unrolled:
        s.unroll(f"{loop}.rf" if has_loop(s, f"{loop}.rf") else loop)


def part_size(terms: int, unit: int = 1) -> int | None:
    """The number of units, of `unit` terms each, in a partial sum of a sum of `terms`; None if the sum is too short to
    be cut.

    Parts divide the sum evenly if such parts are more than half as long as the longest.
    """
    units = terms // unit
    most = max(1, BLOCK_TERMS // unit)
    if units <= max(most, LONGEST // unit):
        return None
    return even_part(units, most)


def even_part(units: int, most: int) -> int:
    """The largest divisor of `units` that is at most `most`, if it is more than half of `most`; else `most`."""
    even = max(d for d in range(1, most + 1) if units % d == 0)
    return even if even * 2 > most else most


def sum_in_parts(
    s: Schedule, name: str, buffer: str, terms: tuple[str, ...], around: Sequence[str], part: int | None
) -> tuple[str, ...]:
    """Orders the loops of the sum `name` into `buffer`, a tile in registers: parts, terms of a part, the tile.

    `terms`: the reduction loops, outermost first; the first is split into parts of `part` iterations (None: one part).
    `around`: the loops of the tile. Initialization becomes a separate nest. Returns, for each resulting nest, the
    suffix of the names in `around` (see `named`).
    """
    if part is None:
        s.reorder(*terms, *around)
        s.decompose_reduction(name, terms[0])
        return ("", ".init")
    parts, own = _parts(s, name, terms, part)
    s.reorder(parts, *_single(s, own), *around)
    s.decompose_reduction(name, parts)
    _sum_of_part(s, name, buffer, parts, own, around, parts)
    return ("", ".init", ".rf", ".rf.init")


def sum_in_memory(
    s: Schedule,
    name: str,
    buffer: str,
    terms: tuple[str, ...],
    around: Sequence[str],
    part: int,
    cuts: Mapping[str, int],
) -> tuple[dict[str, str], ...]:
    """Like `sum_in_parts`, but with the sums of many tiles in memory: a part is added to all of them before the next
    part.

    `cuts`: the loops in `around` that are tiled, outermost first, with the size of a tile: each becomes loop.0, over
    tiles, and loop.1. Returns for each nest the names of a tile's loops. The nest that starts sums has no tiles, and no
    names for the loops in `cuts`.
    """
    parts, own = _parts(s, name, terms, part)
    s.reorder(parts, *_single(s, own), *around)
    s.decompose_reduction(name, parts)
    (starts,) = named(around, ".init")
    s.reorder(*(starts[loop] for loop in (*cuts, *(loop for loop in around if loop not in cuts))))
    tiles, inside = zip(*(s.split(loop, size) for loop, size in cuts.items()), strict=True)
    of_tile = {loop: loop for loop in around} | dict(zip(cuts, inside, strict=True))
    s.reorder(parts, *tiles, *of_tile.values())
    _sum_of_part(s, name, buffer, parts, own, around, tiles[-1])
    started = {loop: new for loop, new in starts.items() if loop not in cuts}
    return (of_tile, started, *named(around, ".rf", ".rf.init"))


def named(around: Sequence[str], *suffixes: str) -> tuple[dict[str, str], ...]:
    """For each suffix, the names of a tile's loops in the nest with that suffix, by plain name."""
    return tuple({loop: f"{loop}{suffix}" for loop in around} for suffix in suffixes)


def _parts(s: Schedule, name: str, terms: tuple[str, ...], part: int) -> tuple[str, list[str]]:
    """Splits the first loop of `terms` and sums each part separately. Returns the loop over parts and the loops of a
    part.
    """
    first, *rest = terms
    parts, inner = s.split(first, part) if part > 1 else (first, None)
    s.rfactor(name, parts)
    return parts, [*([] if inner is None else [inner]), *rest]


def _single(s: Schedule, own: Sequence[str]) -> list[str]:
    """The loops of a part that have one iteration: no condition contains their variables, so both nests have them."""
    return [loop for loop in own if has_loop(s, f"{loop}.rf")]


def _sum_of_part(
    s: Schedule, name: str, buffer: str, parts: str, own: Sequence[str], around: Sequence[str], at: str
) -> None:
    """Schedules the sum of a part in registers, inside the loop `at`."""
    single = _single(s, own)
    own = [f"{loop}.rf" if loop in single else loop for loop in own]
    s.compute_at(f"{name}.rf", at)
    s.set_scope(f"{buffer}.rf", "register")
    s.reorder(f"{parts}.rf", *own, *[f"{loop}.rf" for loop in around])
    s.decompose_reduction(f"{name}.rf", own[0])

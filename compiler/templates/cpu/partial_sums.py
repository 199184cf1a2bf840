"""Long sums in parts: rounding errors grow with the number of terms that are added one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...passes.sum_in_blocks import BLOCK_TERMS, LONGEST
from ...schedule import Schedule
from .borders import has_loop


def part_size(terms: int, unit: int = 1) -> int | None:
    """How many units, of `unit` terms each, make a part of a sum of `terms`; None where the sum is short.

    Parts divide the sum where they then are at least half as long as they may be.
    """
    units = terms // unit
    most = max(1, BLOCK_TERMS // unit)
    if units <= max(most, LONGEST // unit):
        return None
    return even_part(units, most)


def even_part(units: int, most: int) -> int:
    """The greatest size of parts up to `most` that divides so many units; `most` where that is at most half of it."""
    even = max(d for d in range(1, most + 1) if units % d == 0)
    return even if even * 2 > most else most


def sum_in_parts(
    s: Schedule, name: str, buffer: str, terms: tuple[str, ...], around: Sequence[str], part: int | None
) -> tuple[str, ...]:
    """Orders the loops of the sum `name` into `buffer`, a tile in registers: parts, terms of a part, the tile.

    `terms` are the reduction loops, outermost first, of which the first is cut into parts of `part` iterations (None:
    one part), `around` those of the tile; sums start apart. Returns what the loops' names in `around` end with in the
    nests that this leaves (see `named`). Cuts nothing where a part is the whole loop.
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
    """As `sum_in_parts`, but many tiles' sums lie in memory, and a part is added to all of them before the next one.

    `cuts` are the loops of `around` over tiles, outermost first, and the size of a tile in each: loop becomes loop.0,
    over tiles, and loop.1. Returns what the loops of a tile are called in each nest. Where sums start there are no
    tiles, and those of `cuts` have no names.
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
    """What the loops of a tile are called in nests in which their names end so."""
    return tuple({loop: f"{loop}{suffix}" for loop in around} for suffix in suffixes)


def _parts(s: Schedule, name: str, terms: tuple[str, ...], part: int) -> tuple[str, list[str]]:
    """Cuts the first of these loops and sums up each part apart: the loop over parts, and the loops of a part."""
    first, *rest = terms
    parts, inner = s.split(first, part) if part > 1 else (first, None)
    s.rfactor(name, parts)
    return parts, [*([] if inner is None else [inner]), *rest]


def _single(s: Schedule, own: Sequence[str]) -> list[str]:
    """Of the loops of a part those of one iteration, which are in no condition, so that both nests have them."""
    return [loop for loop in own if has_loop(s, f"{loop}.rf")]


def _sum_of_part(
    s: Schedule, name: str, buffer: str, parts: str, own: Sequence[str], around: Sequence[str], at: str
) -> None:
    """The sum of a part in registers, under the loop `at`."""
    single = _single(s, own)
    own = [f"{loop}.rf" if loop in single else loop for loop in own]
    s.compute_at(f"{name}.rf", at)
    s.set_scope(f"{buffer}.rf", "register")
    s.reorder(f"{parts}.rf", *own, *[f"{loop}.rf" for loop in around])
    s.decompose_reduction(f"{name}.rf", own[0])

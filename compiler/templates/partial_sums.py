"""Long sums in parts: rounding errors grow with the number of terms that are added one after the other."""

from __future__ import annotations

from ..passes.sum_in_blocks import BLOCK_TERMS, LONGEST
from ..schedule import Schedule
from .borders import has_loop


def part_size(terms: int, unit: int = 1) -> int | None:
    """How many units, of `unit` terms each, make a part of a sum of `terms`; None where the sum is short.

    Parts divide the sum where they then are at least half as long as they may be.
    """
    units = terms // unit
    most = max(1, BLOCK_TERMS // unit)
    if units <= max(most, LONGEST // unit):
        return None
    even = max(d for d in range(1, most + 1) if units % d == 0)
    return even if even * 2 > most else most


def sum_in_parts(
    s: Schedule, name: str, buffer: str, terms: tuple[str, ...], around: tuple[str, ...], part: int | None
) -> tuple[str, ...]:
    """Orders the loops of the sum `name` into `buffer`, a tile in registers: parts, terms of a part, the tile.

    `terms` are the reduction loops, outermost first, of which the first is cut into parts of `part` iterations (None:
    one part), `around` those of the tile; sums start apart. Returns what the loops' names in `around` end with in the
    nests that this leaves. Cuts nothing where a part is the whole loop.
    """
    first, *rest = terms
    if part is None:
        s.reorder(*terms, *around)
        s.decompose_reduction(name, first)
        return ("", ".init")
    parts, inner = s.split(first, part) if part > 1 else (first, None)
    s.rfactor(name, parts)
    # Loops of one iteration are in no condition, so that both nests have them.
    own = [*([] if inner is None else [inner]), *rest]
    single = [loop for loop in own if has_loop(s, f"{loop}.rf")]
    own = [f"{loop}.rf" if loop in single else loop for loop in own]
    s.reorder(parts, *single, *around)
    s.decompose_reduction(name, parts)
    s.compute_at(f"{name}.rf", parts)
    s.set_scope(f"{buffer}.rf", "register")
    s.reorder(f"{parts}.rf", *own, *[f"{loop}.rf" for loop in around])
    s.decompose_reduction(f"{name}.rf", own[0])
    return ("", ".init", ".rf", ".rf.init")

"""Schedules long sums: cuts their reduction loops into partial sums, and adds prefetches of weights.

Partial sums are for accuracy: rounding errors grow with the number of terms added in sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.stmt import For
from ...ir.visit import loops, walk
from ...schedule import Schedule
from .loops import has_loop, named


def sum_in_parts(
    s: Schedule, name: str, buffer: str, terms: tuple[str, ...], around: Sequence[str], part: int
) -> tuple[str, ...]:
    """Cuts statement `name`, which sums into `buffer` (a tile in registers), into partial sums. The loop over partial
    sums becomes outermost, then come the loops over the terms of one partial sum, then the loops of the tile.

    `terms`: the reduction loops, outermost first; the first loop is split into parts of `part` iterations. `around`:
    the loops of the tile. Initialization becomes a separate nest. Returns, for each resulting nest, the suffix of the
    names of its tile loops.
    """
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
    """Schedules a sum like `sum_in_parts`, but with the sums of many tiles in memory: the loop over partial sums is
    outside of the loops over tiles, so each part of the terms is added to all tiles before the next part.

    `cuts`: the loops in `around` that are tiled, outermost first, with the size of a tile. Each becomes two loops:
    "loop.0" over tiles and "loop.1" within a tile. Returns, for each resulting nest, a mapping from the loops in
    `around` to the loops within a tile. The nest that initializes sums is not tiled; its mapping has no entry for the
    loops in `cuts`.
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


def _parts(s: Schedule, name: str, terms: tuple[str, ...], part: int) -> tuple[str, list[str]]:
    """Splits the first loop of `terms` and sums each part separately. Returns the loop over parts, and the loops over
    the terms of a part.
    """
    first, *rest = terms
    parts, inner = s.split(first, part) if part > 1 else (first, None)
    s.rfactor(name, parts)
    return parts, [*([] if inner is None else [inner]), *rest]


def _single(s: Schedule, own: Sequence[str]) -> list[str]:
    """The loops in `own` (over the terms of one partial sum) that have a single iteration. The initialization of the
    sums also stays inside these loops, because the condition of the first term does not contain their variables.
    """
    return [loop for loop in own if has_loop(s, f"{loop}.rf")]


def _sum_of_part(
    s: Schedule, name: str, buffer: str, parts: str, own: Sequence[str], around: Sequence[str], at: str
) -> None:
    """Schedules the partial sum `name`.rf of one part of a sum: its buffer is in registers, and it is computed inside
    the loop `at`. `parts`: the loop over parts; `own`: the loops over the terms of a part; `around`: the loops of the
    tile.
    """
    single = _single(s, own)
    own = [f"{loop}.rf" if loop in single else loop for loop in own]
    s.compute_at(f"{name}.rf", at)
    s.set_scope(f"{buffer}.rf", "register")
    s.reorder(f"{parts}.rf", *own, *[f"{loop}.rf" for loop in around])
    s.decompose_reduction(f"{name}.rf", own[0])


PREFETCH_BYTES = 4096
"""Number of bytes by which prefetches run ahead of loads: some hundred cycles of work on a tile."""


def prefetch(s: Schedule, loop: str, buffer: str) -> None:
    """Adds prefetches of `buffer`, `PREFETCH_BYTES` ahead, to the reduction loop `loop`. If splits, partial sums and
    peeling have cut the loop into several loops, the innermost of these get the prefetches.
    """
    made = [node for node in loops(s.program) if node.name == loop or node.name.startswith(f"{loop}.")]
    names = {node.name for node in made}
    for node in made:
        if not any(isinstance(inner, For) and inner.name in names for inner in walk(node.body)):
            s.prefetch(node.name, buffer, PREFETCH_BYTES)

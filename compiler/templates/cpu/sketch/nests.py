"""Schedules of nests that are no sums: vectors, squares that are transposed in registers, and loops that threads
share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ....ir.visit import loops
from ....schedule import LegalityError, Schedule
from ..loops import has_loop, parallel_grains, peel_ragged
from .sketch import Sketches
from .stages import Nest


def schedule_nest(s: Schedule, given: Sketches, nest: Nest, values: Mapping[str, int]) -> None:
    """Schedules a nest: its vectorized loop is cut into vectors and moved innermost, the next loop is unrolled."""
    unroll = values.get("nest.unroll", 1)
    if not nest.vectors:
        return
    if nest.ragged:
        _vectorize_rows(s, nest, unroll)
        return
    sizes = {loop.name: loop.size for loop in nest.loops}
    names = list(sizes)
    chosen = nest.vectors[min(values.get("nest.loop", 0), len(nest.vectors) - 1)]
    size, n = sizes[chosen], given.lanes(nest.bits)
    if nest.square and chosen == nest.vectors[0]:
        _transpose(s, given, nest, n)
        return
    width = min(size, n * max(1, min(values.get("nest.vectors", 1), size // n)))
    rest, lane, pieces = [name for name in names if name != chosen], chosen, ""
    rows, row = "", ""
    if rest and sizes[rest[-1]] > unroll > 1:
        rows, row = s.split(rest[-1], unroll)
        sizes[rows] = sizes[rest[-1]] // unroll
        rest[-1] = rows
    if width < size:
        pieces, lane = s.split(chosen, width)
        sizes[pieces] = size // width
        # Other pieces between an element and the next one, which waits for it.
        rest.insert(len(rest) if nest.recurrent else min(names.index(chosen), len(rest)), pieces)
    order = [*rest, *([row] if row else []), lane]
    if order != [loop.name for loop in loops(s.program) if loop.name in order]:
        s.reorder(*order)
    s.vectorize(lane)
    if row:
        s.unroll(row)
    peel_ragged(s, *[name for name in rest if name in (rows, pieces)])
    if given.parallel and not nest.inside:
        around = [(name, sizes[name]) for name in rest if name != pieces or sizes[name] > 1]
        share(s, around, width * (unroll if row else 1))


def _transpose(s: Schedule, given: Sketches, nest: Nest, lanes: int) -> None:
    """Schedules a nest in squares: `nest.square` rows, unrolled, of as many vectorized columns."""
    sizes = {loop.name: loop.size for loop in nest.loops}
    column, row = nest.vectors[0], nest.across
    side = min(lanes, 1 << (sizes[column] - 1).bit_length())
    rows, row = s.split(row, min(nest.square, side))
    columns, column = s.split(column, side)
    s.reorder(rows, columns, row, column)
    s.unroll(row)
    s.vectorize(column)
    if given.parallel and not nest.inside:
        size = min(nest.square, side)
        around = [
            (rows, -(-sizes[nest.across] // size)) if loop.name == nest.across else (loop.name, loop.size)
            for loop in nest.loops
            if loop.name != nest.vectors[0]
        ]
        share(s, [loop for loop in around if loop[1] > 1], size * sizes[nest.vectors[0]])
    peel_ragged(s, rows, columns)


def _vectorize_rows(s: Schedule, nest: Nest, unroll: int) -> None:
    """Schedules a nest of rows cut into pieces: each piece is vectorized whole, and the last, shorter piece is
    peeled.
    """
    s.vectorize(nest.vectors[0])
    count = next((loop.size for loop in nest.loops if loop.name == nest.ragged), 0)
    if count == 0:
        # The ragged loop is around other nests too; `sketch_schedule` peels it at the end.
        return
    peel_ragged(s, nest.ragged)
    if count - 1 > unroll > 1 and has_loop(s, nest.ragged):
        _write_out(s, nest.ragged, unroll)


def _write_out(s: Schedule, loop: str, steps: int) -> None:
    """Unrolls a loop by `steps`; the remaining iterations are peeled."""
    pieces, step = s.split(loop, steps)
    s.unroll(step)
    peel_ragged(s, pieces)


def share(s: Schedule, nested: Sequence[tuple[str, int]], work: int) -> None:
    """Shares one of the `nested` loops (names and iterations, outermost first) among threads, if it is legal and pays;
    `work`: elements of an iteration of the innermost loop.
    """
    trial = Schedule(s.program)
    try:
        parallel_grains(trial, nested, work)
    except LegalityError:
        return
    if trial.trace:
        parallel_grains(s, nested, work)


def share_first(s: Schedule, names: Sequence[str]) -> None:
    """Makes the first of the loops `names` parallel that can legally be."""
    for loop in names:
        try:
            s.parallel(loop)
        except LegalityError:
            continue
        return


def iterations(nested: Sequence[tuple[str, int]]) -> int:
    """Iterations of nested loops together."""
    return prod(size for _, size in nested)

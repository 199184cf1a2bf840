"""Builds the schedule for one setting of the knobs of a sketch (rule-generated schedule) from schedule primitives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ....codegen.cpu.intrinsics import DOT_DEPTH, dot_u8s8
from ....ir.expr import Call, Const
from ....ir.stmt import Assign, For, Program
from ....ir.visit import walk, walk_expr
from ....schedule import Schedule
from ..loops import has_loop, named, parts_of, peel_ragged, team_times
from ..partial_sums import prefetch, sum_in_memory, sum_in_parts
from .cost import effective_values
from .default import default_values
from .nests import schedule_around, schedule_nest, share_first
from .panels import copy_panels
from .sketch import (
    INLINE,
    INNERMOST,
    MIDDLE,
    WHOLE,
    Sketches,
    candidates,
    middle,
    order_of_terms,
    ordered,
    packable,
    part_of,
    permuted,
    unrolled_loops,
    with_consumers,
)
from .stages import Axle, Read, Sum, dot_loop, padded_read
from .taps import borders, inline_producer, peel_borders, skip_dead_taps, taps_of
from .traffic import waits

PARALLEL_WORK = 16384
"""Least number of terms of a sum for which a loop is made parallel."""
MOST_CALLS = 4
"""Largest number of times that a sum's consumer (the nest that reads the sum) is repeated in the code of a tile, if the
consumer calls functions.
"""

Values = Mapping[str, int]


def sketch_schedule(sketches: Sketches, values: Values | None = None) -> Schedule:
    """The program scheduled with `values`, a setting of the knobs of `sketch_space`; None: the default setting.

    Raises LegalityError if a primitive is not legal, which is rare; the setting then counts as a failed trial.
    """
    values = default_values(sketches) if values is None else effective_values(sketches, values)
    s = with_consumers(sketches.program)
    for nest in sketches.stages.nests:
        schedule_nest(s, sketches.target, nest, values, parallel=sketches.parallel)
    tiled = [(summed, _tile(s, sketches, summed, values)) for summed in sketches.stages.sums]
    for summed, tiles in tiled:
        _pack(s, sketches, summed, tiles)
    for summed, tiles in tiled:
        if sketches.parallel:
            share_first(s, tiles.shared)
        if tiles.bordered:
            peel_borders(s, tiles.bordered)
        peel_ragged(s, *tiles.ragged)
        # Sums of several nests, such as the phases of a transposed convolution, are short.
        padded = None if len(tiled) > 1 else padded_read(sketches.program, summed)
        # Products of other pads than zeros, which convolutions of integers have, are no zeros.
        if (
            padded is not None
            and padded[1].pad == Const(0, padded[0].dtype)
            and tiles.knobs.get("producer") != INLINE
        ):
            skip_dead_taps(s, taps_of(sketches.program, summed), tiles.knobs.tile, tiles.knobs.block)
        _prefetch_weights(s, sketches, summed, tiles.knobs)
        if tiles.knobs.dots:
            _tensorize_dots(s, tiles.knobs.vector)
    schedule_around(s, sketches.stages.around, sketches.stages.chains if sketches.parallel else ())
    return s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Knobs:
    """Knob values for a sum. `tile`: elements of a tile along each loop; `block`: tiles of a block (0: all). `vector`:
    the vectorized loop. `dots`: loop whose terms a dot product instruction adds ("": none). `others`: all values.
    """

    tile: dict[str, int]
    block: dict[str, int]
    vector: Axle
    dots: str
    others: Values

    @staticmethod
    def of(sketches: Sketches, summed: Sum, values: Values) -> _Knobs:
        """The knob values for the sum `summed`. The knobs are those of the main sum; each loop of `summed` gets the
        values of the main sum's loop at the same place, counted from the innermost loop.
        """
        assert sketches.main is not None
        first = len(sketches.main.axles) - len(summed.axles)
        tile, block = {}, {}
        for k, axle in enumerate(summed.axles, first):
            tile[axle.name] = min(axle.size, values.get(f"tile.{k}", 1))
            count = -(-axle.size // tile[axle.name])
            wanted = values.get(f"block.{k}", 0)
            block[axle.name] = wanted if 0 < wanted < count else 0
        chosen = candidates(summed)
        vector = chosen[min(values.get("vector", 0), len(chosen) - 1)]
        dots = dot_loop(sketches.target, summed, vector) if tile[vector.name] == vector.size else ""
        if order_of_terms(summed, values.get("terms", 0)) != order_of_terms(summed, 0):
            dots = ""
        return _Knobs(tile=tile, block=block, vector=vector, dots=dots, others=values)

    def get(self, name: str, default: int = 0) -> int:
        return self.others.get(name, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tiles:
    """Names of the loops of a tiled sum, and the settings `knobs` from which they were made.

    `around`: the loops around the sum, outermost first. `ragged`: all loops over blocks and tiles. `of` maps a loop of
    the consumer (the nest that reads the sum) to the loops into which it was split. `shared`: loops whose iterations
    threads may share, best first. `bordered`: loops over tiles whose first and last tile may read pads. `repeated`:
    loops of several iterations.
    """

    knobs: _Knobs
    around: tuple[str, ...]
    ragged: tuple[str, ...]
    of: Mapping[str, tuple[str, ...]]
    shared: tuple[str, ...]
    bordered: tuple[str, ...]
    repeated: frozenset[str]


def _tile(s: Schedule, sketches: Sketches, summed: Sum, values: Values) -> _Tiles:
    knobs = _Knobs.of(sketches, summed, values)
    producer = knobs.get("producer", WHOLE)
    if producer == INLINE:
        for name in summed.producers:
            inline_producer(s, name)
    blocks: dict[str, str] = {}
    tiles: dict[str, str] = {}
    inside: dict[str, str] = {}
    for axle in summed.axles:
        loop, size = axle.name, knobs.tile[axle.name]
        if knobs.block[axle.name]:
            blocks[axle.name], loop = s.split(loop, knobs.block[axle.name] * size)
        tiles[axle.name], inside[axle.name] = s.split(loop, size)
    names, free = tuple(tiles), permuted(summed)
    order = [tiles[name] for name in ordered(names, free, knobs.get("order"))]
    outer = [blocks[name] for name in ordered(names, free, knobs.get("outer")) if name in blocks]
    rows = [inside[a.name] for a in summed.axles if a is not knobs.vector]
    lane = inside[knobs.vector.name]
    others = [loop.name for loop in summed.others if loop.size > 1]
    s.reorder(*outer, *order, *rows, lane, *others)
    tested = borders(s, summed) if producer == INLINE else set()
    stored = bool(knobs.get("stored"))
    bordered = {tiles[a.name] for a in summed.axles if a.inner in tested and a.name not in blocks}
    # Sums in memory are those of a whole block.
    around = outer if stored else [*outer, *order]
    if around:
        s.compute_at(summed.name, around[-1])
    s.set_scope(summed.buffer, "workspace" if stored else "register")
    if producer not in (WHOLE, INLINE):
        at = {MIDDLE: middle(len(outer), len(order)), INNERMOST: len(around) - 1}.get(producer, 0)
        for name, written in summed.producers.items():
            s.compute_at(name, around[at])
            if not knobs.dots:
                # The dot product instruction reads data in the scope of parameters.
                s.set_scope(written, "workspace")
    passes = _sum_up(s, sketches, summed, knobs, rows, lane, ordered(names, free, knobs.get("order")))
    shared: list[str] = []
    counts = dict.fromkeys([*outer, *order], 1.0)
    for axle in summed.axles:
        number, block = axle.size / knobs.tile[axle.name], knobs.block[axle.name]
        if block:
            counts[blocks[axle.name]] = number / block
        counts[tiles[axle.name]] = block or number
    if summed.work >= PARALLEL_WORK:
        times = team_times(
            {name: counts[name] for name in around}, summed.work / (2 * sketches.lanes(summed.bits))
        )
        shared = sorted(times, key=lambda name: times[name])
    return _Tiles(
        knobs=knobs,
        around=tuple(around),
        ragged=(*outer, *passes, *order),
        of={name: tuple([loops[name] for loops in (tiles, blocks) if name in loops]) for name in names},
        shared=tuple(shared),
        bordered=() if stored else tuple([loop for loop in order if loop in bordered]),
        repeated=frozenset([name for name, count in counts.items() if count > 1]),
    )


def _pack(s: Schedule, sketches: Sketches, summed: Sum, tiles: _Tiles) -> None:
    """Packs constants that a sum reads, or copies its other operands into panels (contiguous pieces, each for one
    tile), according to the knobs pack.p and copy.p of parameter number p.
    """
    for read in packable(sketches, summed):
        if tiles.knobs.get(f"pack.{sketches.number(read)}"):
            s.pack(read.buffer, *_packed(summed, read, tiles.knobs))
        elif tiles.knobs.get(f"copy.{sketches.number(read)}"):
            # A loop of one iteration needs no copy of its own.
            own = [
                loop
                for a in summed.axles
                if a.inner in read.loops()
                for loop in tiles.of[a.name]
                if loop in tiles.repeated
            ]
            copy_panels(s, read, tiles.knobs.vector, sketches.lanes(summed.bits), own, tiles.around)


def _prefetch_weights(s: Schedule, sketches: Sketches, summed: Sum, knobs: _Knobs) -> None:
    """Emits prefetches of packed weights at the places where a tile would wait for them. No prefetch is emitted for a
    product that has a single long reduction loop and reads its weights only once. With several reduction loops,
    prefetches save an eighth of the time even if weights are read once (1x1, 2048 channels, 512 filters, one position).
    """
    terms = order_of_terms(summed, knobs.get("terms"))
    long = [name for name in terms if _sizes(summed)[name] > 1]
    for read in packable(sketches, summed):
        again = any(a.size > knobs.tile[a.name] for a in summed.axles if a.inner not in read.loops())
        if (
            len(sketches.stages.sums) > 1
            or not long
            or not (again or len(long) > 1)
            or not knobs.get(f"pack.{sketches.number(read)}")
        ):
            continue
        part = {terms[0]: part_of(summed, terms, knobs.get("part"))} if knobs.get("stored") else {}
        if waits(sketches.target, summed, read, knobs.tile | part, sketches.lanes(summed.bits)):
            # A dot product instruction replaces the inner loop.
            prefetch(s, f"{knobs.dots}.0" if knobs.dots else long[-1], read.buffer)


def _sum_up(
    s: Schedule,
    sketches: Sketches,
    summed: Sum,
    knobs: _Knobs,
    rows: Sequence[str],
    lane: str,
    order: Sequence[str],
) -> tuple[str, ...]:
    """Schedules the sum inside a tile whose consumer has the loops `rows` (unrolled) and `lane` (vectorized). If sums
    are in memory, the sum gets its own loops over tiles. Returns their names, in the order of the loops `order`.
    """
    n = sketches.lanes(summed.bits)
    of_vector = knobs.vector.inner
    wide = {name for read in summed.reads if of_vector in read.loops() for name in read.loops()}
    spatial = [a.inner for a in summed.axles if a is not knobs.vector] + [t.name for t in summed.beside]
    # The loop over rows outside, vectors inside: an element of a row is loaded once for all vectors.
    inner = [name for name in spatial if name not in wide] + [name for name in spatial if name in wide]
    unrolled = list(rows)
    if knobs.tile[knobs.vector.name] > n:
        pieces, lane = s.split(lane, n)
        unrolled.append(pieces)
        pieces, of_vector = s.split(of_vector, n)
        inner.append(pieces)
    terms, part, written = _terms(s, summed, knobs)
    copies = prod(length for name, length in knobs.tile.items() if name != knobs.vector.name)
    whole = len(written) == len([term for term in summed.terms if term.size > 1])
    if copies > MOST_CALLS and whole and _calls(s.program):
        # The sums are complete before the consumer begins: a loop over rows reads them from memory at no cost.
        # Unrolled, the consumer's function calls would be most of the code.
        unrolled.remove(rows[-1])
    cuts: dict[str, int] = {}
    if knobs.get("stored"):
        for axle in sorted(summed.axles, key=lambda axle: order.index(axle.name)):
            loop, size = axle.inner, knobs.tile[axle.name]
            if (knobs.block[axle.name] or -(-axle.size // size)) > 1:
                cuts[loop] = size
        if knobs.vector.inner in cuts:
            size = cuts.pop(knobs.vector.inner)
            cuts |= {inner[-1]: -(-size // n)} if size > n else {of_vector: size}
    around = (*inner, of_vector)
    if knobs.dots:
        step, four = s.split(knobs.dots, DOT_DEPTH)
        s.unroll(four)
        terms = tuple([step if name == knobs.dots else name for name in terms])
        around = (*around, four)
    if cuts:
        nests = sum_in_memory(s, summed.name, summed.buffer, terms, around, part, cuts)
    elif part:
        nests = named(around, *sum_in_parts(s, summed.name, summed.buffer, terms, around, part))
    else:
        s.reorder(*terms, *around)
        s.decompose_reduction(summed.name, terms[0])
        nests = named(around, "", ".init")
    for loop in unrolled:
        s.unroll(loop)
    for names in nests:
        for loop in inner:
            if loop in names:
                s.unroll(names[loop])
        if of_vector in names:
            s.vectorize(names[of_vector])
    for loop in written:
        for name in (loop, f"{loop}.rf"):
            if has_loop(s, name):
                s.unroll(name)
    s.vectorize(lane)
    return tuple([f"{loop}.0" for loop in cuts])


def _terms(s: Schedule, summed: Sum, knobs: _Knobs) -> tuple[tuple[str, ...], int, list[str]]:
    """The reduction loops, outermost first; the iterations of the first loop in a partial sum (0: no partial sums); and
    the loops to unroll.
    """
    sizes = _sizes(summed)
    terms = order_of_terms(summed, knobs.get("terms"))
    part = part_of(summed, terms, knobs.get("part"))
    names: list[str] = []
    first = terms[0]
    # A dot product instruction has unrolled terms of its own.
    most = 1 if knobs.dots else knobs.get("unroll", 1)
    for name, piece in unrolled_loops(summed, terms, part, most):
        if piece == sizes[name]:
            names.append(name)
            continue
        outer, inner = s.split(name, piece)
        k = terms.index(name)
        terms = (*terms[:k], outer, inner, *terms[k + 1 :])
        names.append(inner)
        if name == first:
            part //= piece
    return terms, part, names


def _tensorize_dots(s: Schedule, lane: Axle) -> None:
    """Replaces each loop over lanes around a loop of `DOT_DEPTH` terms with the dot product instruction."""
    for loop in parts_of(s, lane.inner):
        if isinstance(loop.body, For) and loop.body.extent == Const(DOT_DEPTH):
            s.tensorize(loop.name, dot_u8s8(lane.size))


def _sizes(summed: Sum) -> dict[str, int]:
    return {term.name: term.size for term in summed.terms}


def _calls(program: Program) -> bool:
    """Whether any assignment of the program calls a scalar function, whose inlined code has dozens of instructions."""
    values = [node.value for node in walk(program) if isinstance(node, Assign)]
    return any(isinstance(e, Call) for value in values for e in walk_expr(value))


def _packed(summed: Sum, read: Read, knobs: _Knobs) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """The tiles (dimension, size) and the order of dimensions with which `pack` stores the operand `read`: tile by
    tile, inside a tile in the order of summation, vectors innermost.
    """
    length = {a.inner: knobs.tile[a.name] for a in summed.axles}
    length |= {t.name: t.size for t in summed.beside}
    terms = {t.name: t.size for t in summed.terms}
    order = order_of_terms(summed, knobs.get("terms"))
    tiles: list[tuple[int, int]] = []
    outer: list[int] = []
    inner: list[int] = []
    of_term: dict[str, int] = {}
    rank = len(read.shape)
    for d, steps in enumerate(read.steps):
        by_step = sorted(steps, key=lambda item: item[1])
        if any(name in length for name, _ in steps):
            outer.append(d)
            size = 1
            for name, step in by_step:
                if step == size and name in length:
                    size *= length[name]
            if size > 1:
                inner.append(rank + len(tiles))
                tiles.append((d, size))
            continue
        long = [(name, step) for name, step in by_step if terms[name] > 1]
        if not long:
            outer.append(d)
        elif len(long) == 2 and long[0][1] == 1 and long[1][1] == terms[long[0][0]]:
            of_term[long[0][0]] = rank + len(tiles)
            of_term[long[1][0]] = d
            tiles.append((d, long[1][1]))
        else:
            of_term[long[-1][0]] = d
            if len(long) == 1 < long[0][1]:
                # Other sums read the elements that are skipped.
                outer.insert(0, rank + len(tiles))
                tiles.append((d, long[0][1]))
    middle = [of_term[name] for name in order if name in of_term]
    if knobs.dots:
        inner.append(rank + len(tiles))
        tiles.append((next(d for d, steps in enumerate(read.steps) if knobs.dots in dict(steps)), DOT_DEPTH))
    return tuple(tiles), (*outer, *middle, *inner)

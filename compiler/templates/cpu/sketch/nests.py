"""Analysis and schedules of loop nests that are not part of sums. The schedules use vectors, transpose squares in
registers, and share loops among threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

from ....codegen.cpu.machine import CpuTarget
from ....ir.expr import Binary, Const, Load, Var
from ....ir.stmt import Alloc, Assign, Copy, For, Program, Reduce, Seq, Stmt
from ....ir.visit import expressions, free_vars, loops, walk, walk_expr
from ....schedule import LegalityError, Schedule
from ..loops import VECTORS, has_loop, parallel_grains, peel_ragged

LEAST_SQUARE = 4
"""A transposing copy of at least this number of rows is cut into squares, which are transposed in registers; fewer rows
are loaded with strides.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A loop, such as a reduction loop of a sum, and its number of iterations (0: not constant)."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """A loop nest that is part of no sum: its loops, outermost first, and the loops that may be vectorized, best first.

    `ragged`: a loop in whose last iteration the first loop of `vectors` has fewer iterations ("": none). `across`: for
    a nest that transposes a tensor, the loop along which the source is contiguous; the destination is contiguous along
    the first loop of `vectors` ("": none). `square`: largest number of successive iterations of `across` that may be
    transposed together. `inside`: whether there are loops around the nest. `recurrent`: whether the nest reads its own
    results.
    """

    name: str
    loops: tuple[Term, ...]
    vectors: tuple[str, ...]
    ragged: str
    bits: int
    across: str = ""
    square: int = 0
    inside: bool = False
    recurrent: bool = False


class NestFinder:
    """Finds the nests of a program. `around`: names of loops that contain several nests. `chains`: for each outermost
    loop of `around`, a list of (name, iterations): the loop itself and the loops perfectly nested in it.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nests: list[Nest] = []
        self.around: list[str] = []
        self.chains: list[tuple[tuple[str, int], ...]] = []

    def visit(self, node: Stmt, loops: tuple[For, ...] = ()) -> None:
        """Adds the nests in a statement, which is inside of `loops`."""
        match node:
            case Alloc(body=body):
                self.visit(body, loops)
            case Seq(statements=statements):
                self.sequence(statements, loops)
            case For():
                self.nest(node, loops)

    def sequence(self, statements: Sequence[Stmt], loops: tuple[For, ...]) -> None:
        """Visits statements that follow one another, and records the nests in each of them."""
        for statement in statements:
            self.visit(statement, loops)

    def nest(self, node: For, around: tuple[For, ...]) -> None:
        """Adds the loop `node` to the nests found, if it is a perfect nest. If the loop contains several nests, visits
        these nests.
        """
        chain, leaf = chain_of(node)
        if any(isinstance(s, For) for s in walk(leaf)):
            self.around += [n.name for n in chain]
            counts = tuple([(n.name, size_of(n)) for n in chain])
            if not around and all(size > 0 for _, size in counts):
                self.chains.append(counts)
            self.visit(leaf, (*around, *chain))
            return
        if isinstance(leaf, Copy | Alloc) or not any(isinstance(s, Assign | Reduce) for s in walk(leaf)):
            return
        writer = next(s for s in walk(leaf) if isinstance(s, Assign | Reduce))
        last = chain[-1]
        ragged = ""
        if isinstance(last.extent, Const):
            vectors = self.vector_loops(chain, writer)
        else:
            # A row cut into pieces, the last one shorter: each piece is vectorized whole.
            outer = [n.name for n in (*around, *chain) if n.name in free_vars(last.extent)]
            ragged = outer[0] if len(outer) == 1 else ""
            vectors = (last.name,) if ragged and self.may(last.name) else ()
        recurrent = any(
            isinstance(e, Load) and e.buffer.name == writer.buffer.name
            for top in expressions(writer)
            for e in walk_expr(top)
        )
        across, square = "", 0
        if (
            vectors
            and not ragged
            and not recurrent
            and (move := _move_across(chain, writer, vectors[0])) is not None
            and (not move[2] or self.may(move[0], chain))
        ):
            across, square, swapped = move
            if swapped:
                # Vectors run along the source: bytes are stored one by one.
                across, vectors = vectors[0], (across,)
        self.nests.append(
            Nest(
                name=writer.name,
                loops=tuple([Term(name=n.name, size=size_of(n)) for n in chain]),
                vectors=vectors,
                ragged=ragged if vectors else "",
                bits=writer.buffer.dtype.bits,
                across=across,
                square=square,
                inside=bool(around),
                recurrent=recurrent,
            )
        )

    def vector_loops(self, chain: Sequence[For], writer: Assign | Reduce) -> tuple[str, ...]:
        """At most two loops to vectorize: loops with contiguous stores, else contiguous loads. () if extents vary."""
        constant = [n for n in chain if isinstance(n.extent, Const) and n.extent.value > 1]
        if len([n for n in chain if not isinstance(n.extent, Const)]):
            return ()
        accesses = [writer.indices]
        for top in expressions(writer):
            accesses += [e.indices for e in walk_expr(top) if isinstance(e, Load)]
        found: list[str] = []
        loops = {n.name for n in constant}
        for indices in accesses:
            names = next((free_vars(i) for i in reversed(indices) if free_vars(i) & loops), set())
            found += [n.name for n in reversed(constant) if n.name in names and n.name not in found][:1]
        found += [n.name for n in reversed(constant) if n.name not in found]
        return tuple(islice((name for name in found if self.may(name, chain)), 2))

    def may(self, name: str, chain: Sequence[For] = ()) -> bool:
        """Whether a loop of the nest `chain` can legally be made the innermost loop and vectorized."""
        s = Schedule(self.program)
        try:
            if chain and chain[-1].name != name:
                s.reorder(*(n.name for n in chain if n.name != name), name)
            s.vectorize(name)
        except LegalityError:
            return False
        return True


def chain_of(node: Stmt) -> tuple[list[For], Stmt]:
    """The perfectly nested loops from `node` on, outermost first, and the body of the innermost one."""
    chain: list[For] = []
    while isinstance(node, For):
        chain.append(node)
        node = node.body
    return chain, node


def _move_across(chain: Sequence[For], writer: Assign | Reduce, column: str) -> tuple[str, int, bool] | None:
    """For a nest that copies and transposes a tensor, returns (name, side, vectors): the loop along which the source is
    contiguous, the largest side of squares that are transposed in registers, and whether vectors run along loop `name`.
    `column`: the first choice of `vector_loops`, usually the loop along which the destination is contiguous.
    None if the source is contiguous along `column` too or only along loops of fewer than LEAST_SQUARE iterations.
    """
    sizes = {n.name: size_of(n) for n in chain}
    bits = writer.buffer.dtype.bits
    for load in [e for top in expressions(writer) for e in walk_expr(top) if isinstance(e, Load)]:
        if column not in {name for index in load.indices[:-1] for name in free_vars(index)}:
            continue
        words = bits == 32 == load.buffer.dtype.bits
        match load.indices[-1]:
            case Var(name=name) if name != column and sizes.get(name, 0) >= LEAST_SQUARE:
                if words:
                    return name, sizes[name], False
                if bits == 8:
                    return name, sizes[column], True
            case Binary(op="%", a=Var(name=name), b=Const(value=block)) if name != column and words:
                if block >= LEAST_SQUARE and name in sizes:
                    return name, int(block), False
            case _:
                pass
    return None


def size_of(loop: For) -> int:
    """Iterations of a loop; 0 if their number is not constant."""
    return int(loop.extent.value) if isinstance(loop.extent, Const) else 0


def schedule_nests(program: Program, target: CpuTarget, *, parallel: bool) -> Schedule:
    """The default schedule of a program without sums."""
    finder = NestFinder(program)
    finder.visit(program.body)
    s = Schedule(program)
    for nest in finder.nests:
        schedule_nest(s, target, nest, {"nest.vectors": VECTORS}, parallel=parallel)
    schedule_around(s, finder.around, finder.chains if parallel else ())
    return s


def schedule_around(s: Schedule, around: Iterable[str], chains: Iterable[Sequence[tuple[str, int]]]) -> None:
    """Schedules loops that contain several nests. `around`: names of these loops; a last iteration with a shorter inner
    loop is peeled. `chains`: (name, iterations) of directly nested loops; one loop of each chain is shared among
    threads.
    """
    elements = max(prod(p.shape) for p in s.program.parameters)
    for chain in chains:
        share(s, chain, elements // prod(size for _, size in chain))
    peel_ragged(s, *around)


def schedule_nest(
    s: Schedule, target: CpuTarget, nest: Nest, values: Mapping[str, int], *, parallel: bool
) -> None:
    """Schedules a nest with the knobs nest.* in `values`: vectorizes a loop, innermost, and unrolls the next one."""
    unroll = values.get("nest.unroll", 1)
    if not nest.vectors:
        return
    if nest.ragged:
        _vectorize_rows(s, nest, unroll)
        return
    sizes = {loop.name: loop.size for loop in nest.loops}
    names = list(sizes)
    chosen = nest.vectors[min(values.get("nest.loop", 0), len(nest.vectors) - 1)]
    size, n = sizes[chosen], lanes_of(target, nest.bits)
    if nest.square and chosen == nest.vectors[0]:
        try:
            _transpose(Schedule(s.program), nest, n, parallel=False)
        except LegalityError:
            pass
        else:
            _transpose(s, nest, n, parallel=parallel)
            return
    width = min(size, n * max(1, min(values.get("nest.vectors", 1), size // n)))
    rest, lane, pieces = [name for name in names if name != chosen], chosen, ""
    rows, row = "", ""
    # The loop beside an element that waits for another one stays whole: no step of it can move inside.
    if rest and sizes[rest[-1]] > unroll > 1 and not nest.recurrent:
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
    if parallel and not nest.inside:
        around = [(name, sizes[name]) for name in rest if name != pieces or sizes[name] > 1]
        share(s, around, width * (unroll if row else 1))


def _transpose(s: Schedule, nest: Nest, lanes: int, *, parallel: bool) -> None:
    """Schedules a transposing copy in squares that are transposed in registers. A square has at most `lanes` vectorized
    columns, at most `nest.square` unrolled rows, and never more rows than columns.
    """
    sizes = {loop.name: loop.size for loop in nest.loops}
    column, row = nest.vectors[0], nest.across
    side = min(lanes, 1 << (sizes[column] - 1).bit_length())
    rows, row = s.split(row, min(nest.square, side))
    columns, column = s.split(column, side)
    s.reorder(rows, columns, row, column)
    s.unroll(row)
    s.vectorize(column)
    if parallel and not nest.inside:
        size = min(nest.square, side)
        around = [
            (rows, -(-sizes[nest.across] // size)) if loop.name == nest.across else (loop.name, loop.size)
            for loop in nest.loops
            if loop.name != nest.vectors[0]
        ]
        share(s, [loop for loop in around if loop[1] > 1], size * sizes[nest.vectors[0]])
    peel_ragged(s, rows, columns)


def _vectorize_rows(s: Schedule, nest: Nest, unroll: int) -> None:
    """Schedules a nest of rows cut into pieces: each piece is vectorized whole, and the last, shorter piece is peeled.
    `unroll` pieces are unrolled together.
    """
    s.vectorize(nest.vectors[0])
    count = next((loop.size for loop in nest.loops if loop.name == nest.ragged), 0)
    if count == 0:
        # The ragged loop is around other nests too; `sketch_schedule` peels it at the end.
        return
    peel_ragged(s, nest.ragged)
    if count - 1 > unroll > 1 and has_loop(s, nest.ragged):
        _unroll_by(s, nest.ragged, unroll)


def _unroll_by(s: Schedule, loop: str, steps: int) -> None:
    """Unrolls a loop by `steps` iterations; the remaining iterations, if any, become a separate loop (are peeled)."""
    pieces, step = s.split(loop, steps)
    s.unroll(step)
    peel_ragged(s, pieces)


def share(s: Schedule, nested: Sequence[tuple[str, int]], work: int) -> None:
    """Makes one of the `nested` loops (names and iterations, outermost first) parallel, if that is legal and saves
    time. `work`: number of elements that an iteration of the innermost loop computes.
    """
    trial = Schedule(s.program)
    try:
        parallel_grains(trial, nested, work)
    except LegalityError:
        return
    if trial.trace:
        parallel_grains(s, nested, work)


def share_first(s: Schedule, names: Sequence[str]) -> None:
    """Makes one loop parallel: the first in `names` for which this is legal, if there is one."""
    for loop in names:
        try:
            s.parallel(loop)
        except LegalityError:
            continue
        return


def lanes_of(target: CpuTarget, bits: int) -> int:
    """Elements of `bits` bits in one vector register; types below 32 bits count as 32, because arithmetic widens
    them.
    """
    return max(1, target.vector_bits // max(32, bits))

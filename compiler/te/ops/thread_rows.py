"""Softmax, normalizations and reductions with rows distributed over the threads of a GPU's blocks (`te.threads`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from ...ir.expr import Buffer, Const, Expr, Var, minimum
from ...ir.stmt import Alloc, Assign, Program, Stmt, nest, parameters_of, seq
from ...ir.types import DType
from ..blocks import ceil_div
from ..merge import Shape, around_axis, merge_axes
from ..rows import Operator
from ..scalars import divide, exp, log, sqrt
from ..threads import Element, Fold, Place, Sharing, Threads, fold
from .normalization import Normalized
from .reduction import Kind, reduced_value, reduction_result


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """Base of programs that compute a result for each element of X; the rows of X are distributed over blocks of
    threads.

    X has `threads.rows` rows for each of `outer` outer indices (None: X has no outer dimension). `place` returns the
    indices in X of an element from (outer index, row, position in the row). With `kept` each thread reads its elements
    only once, and keeps them in registers.
    """

    x: Buffer
    threads: Threads
    kept: bool
    outer: int | None
    place: Callable[[Expr, Expr, Expr], tuple[Expr, ...]]

    @property
    def grid(self) -> tuple[Expr, Var]:
        """Two indices that a block computes from its grid coordinates: the index along the outer dimension of X, and
        the number of its group of rows. The index with more values is on axis x, which allows the most blocks.
        """
        y, x = Var("block.y"), Var("block.x")
        if self.outer is None:
            return Const(0), x
        return (y, x) if self.threads.blocks >= self.outer else (x, y)

    def at(self, e: Element) -> tuple[Expr, ...]:
        """The indices of an element in X."""
        outer, block = self.grid
        return self.place(outer, block * self.threads.group + e.place.row, e.position)

    def value(self, e: Element) -> Expr:
        """The value of an element: a load of X, or of the register that holds it."""
        return self.threads.kept("elements")[(*e.place.own, e.step)] if self.kept else self.x[self.at(e)]

    def keep(self, statement: str, e: Element, value: Expr) -> tuple[Stmt, ...]:
        """The statement that stores a value of the element in its register; none without `kept`."""
        if not self.kept:
            return ()
        held = self.threads.kept("elements")[(*e.place.own, e.step)]
        return (Assign.to(f"{statement}{e.suffix}", held, value),)

    def load(self, e: Element) -> tuple[tuple[Stmt, ...], Expr]:
        """Statements that load an element in the first stage (with `kept` into its register), and the element's value
        after these statements.
        """
        return self.keep("load", e, self.x[self.at(e)]), self.value(e)

    def fold(
        self, name: str, op: Operator, value: Callable[[Element], tuple[tuple[Stmt, ...], Expr]]
    ) -> Fold:
        """The reduction of every row by `te.threads.fold`: the sum or maximum (`op`) of `value(element)` over the row's
        elements; `value` returns (statements to run before, value).
        """
        return fold(self.threads, self.grid[1], name, op, value, unroll=self.kept)

    def program(
        self,
        name: str,
        parameters: tuple[Buffer, ...],
        folds: Sequence[Fold],
        result: Callable[[Element], Expr],
    ) -> Program:
        """Runs the `folds` in order, then stage "scale", which stores `result(element)` to all of the last
        parameter.
        """
        outer, block = self.grid

        def scale(place: Place) -> Stmt:
            def one(suffix: str, step: Expr, position: Expr) -> Stmt:
                e = Element(suffix=suffix, place=place, step=step, position=position)
                out = parameters[-1]
                return Assign.to(f"scale{suffix}", out[self.at(e)], result(e))

            return self.threads.each("scale", place.lane, one, unroll=self.kept)

        body = self.threads.stage("scale", block, scale)
        for one in reversed(folds):
            body = one.around(body)
        if self.kept:
            body = Alloc(buffer=self.threads.kept("elements"), body=body)
        around = [(block, self.threads.blocks)]
        if isinstance(outer, Var) and self.outer is not None:
            around.insert(0, (outer, self.outer))
        return Program(name=name, parameters=parameters, body=nest(around, body))


def thread_softmax(
    shape: Shape, axis: int, sharing: Sharing, *, logarithm: bool = False, shuffles: bool = False
) -> Program:
    """Softmax on a GPU, with the parameters of `te.ops.softmax`: X and Y [outer, size of the axis, inner], or [outer,
    size] if inner is 1.

    `sharing` distributes rows over threads; if inner is not 1, it distributes the inner rows of each outer index. With
    `shuffles`, threads of a warp combine their results in registers (`te.threads`). The program has the stages "max",
    "sum" and "scale". If `sharing.kept` is set, statement "load" of the first stage and "exp" of the second ("distance"
    with `logarithm`) store the elements in registers."""
    outer, size, inner = around_axis(shape, axis % len(shape))
    whole = (outer, size) if inner == 1 else (outer, size, inner)
    x, y = (Buffer(name=n, shape=whole, dtype=DType.FLOAT32) for n in "XY")
    rows = _Rows(
        x=x,
        threads=sharing.threads(outer if inner == 1 else inner, size, shuffles=shuffles),
        kept=sharing.kept,
        outer=None if inner == 1 else outer,
        place=lambda n, row, p: (row, p) if inner == 1 else (n, p, row),
    )
    greatest = rows.fold("max", "max", rows.load)

    def distance(e: Element) -> Expr:
        return rows.value(e) - greatest.result(e.place)

    def term(e: Element) -> tuple[tuple[Stmt, ...], Expr]:
        if not rows.kept:
            return (), exp(distance(e))
        if logarithm:
            return rows.keep("distance", e, distance(e)), exp(rows.value(e))
        return rows.keep("exp", e, exp(distance(e))), rows.value(e)

    total = rows.fold("sum", "add", term)

    def result(e: Element) -> Expr:
        if logarithm:
            return (rows.value(e) if rows.kept else distance(e)) - log(total.result(e.place))
        return divide(rows.value(e) if rows.kept else exp(distance(e)), total.result(e.place))

    return rows.program("softmax", (x, y), (greatest, total), result)


def thread_normalize(sizes: Normalized, sharing: Sharing, *, shuffles: bool = False) -> Program:
    """LayerNormalization or InstanceNormalization on a GPU, with the parameters of `te.ops.normalization.normalize`.
    `sharing` distributes rows over threads. With `shuffles`, threads of a warp combine their results in registers.

    The program has three stages: "sum" adds up the elements, "square" the squares of their distances from the mean, and
    "scale" stores the results."""
    x, scale, shift, y = sizes.buffers
    single = sizes.channels == 1
    rows = _Rows(
        x=x,
        threads=sharing.threads(sizes.outer if single else sizes.channels, sizes.size, shuffles=shuffles),
        kept=sharing.kept,
        outer=None if single else sizes.outer,
        place=lambda n, row, p: (row, Const(0), p) if single else (n, row, p),
    )
    total = rows.fold("sum", "add", rows.load)

    def distance(e: Element) -> Expr:
        return rows.value(e) - divide(total.result(e.place), float(sizes.size))

    squares = rows.fold("square", "add", lambda e: ((), distance(e) * distance(e)))

    def result(e: Element) -> Expr:
        deviation = sqrt(divide(squares.result(e.place), float(sizes.size)) + sizes.epsilon)
        place = rows.at(e)[2 if sizes.by == "row" else 1]
        value = divide(distance(e), deviation) * scale[place]
        return value if shift is None else value + shift[place]

    return rows.program("normalize", parameters_of(x, scale, shift, y), (total, squares), result)


def thread_reduction(
    shape: Shape,
    axes: Sequence[int],
    kind: Kind,
    sharing: Sharing,
    *,
    beside: Sequence[Shape] = (),
    shuffles: bool = False,
) -> Program:
    """A reduction on a GPU, with the parameters of `te.ops.reduction`. A row is the elements of X that are reduced to
    one element of the output Y; `sharing` and `shuffles` say how threads share rows and combine their results.
    Neighbouring axes of X that are all reduced or all kept are merged. `beside`: shapes of other tensors that broadcast
    against X; axes are merged only if the tensors still broadcast afterwards.

    If `sharing` has several chunks, each row is first cut into that many pieces, and a block of `lanes` * `group`
    threads reduces each piece into `chunk.sums` (stage "chunk"). The reduction itself is stage "reduce" with statement
    "post".
    """
    merged = merge_axes(shape, axes, beside) or ((1, False),)
    sizes = tuple([size for size, _ in merged])
    kept = [d for d, (_, reduced) in enumerate(merged) if not reduced]
    gone = [d for d in range(len(sizes)) if d not in kept]
    rows, count = prod(sizes[d] for d in kept), prod(sizes[d] for d in gone)
    x = Buffer(name="X", shape=sizes, dtype=DType.FLOAT32)
    y = Buffer(name="Y", shape=tuple([sizes[d] for d in kept]) or (1,), dtype=DType.FLOAT32)
    op: Operator = "max" if kind in ("max", "min") else "add"

    def element(row: Expr, position: Expr) -> Expr:
        places = _digits(row, [sizes[d] for d in kept]), _digits(position, [sizes[d] for d in gone])
        where = dict(zip(kept, places[0], strict=True)) | dict(zip(gone, places[1], strict=True))
        return reduced_value(kind, x[tuple([where[d] for d in range(len(sizes))])])

    sums: Buffer | None = None
    first: list[Stmt] = []
    chunks = sharing.chunks
    if chunks > 1:
        sums = Buffer(name="chunk.sums", shape=(rows, chunks), dtype=DType.FLOAT32)
        part = ceil_div(count, chunks)
        row, chunk = Var("chunk.block.y"), Var("chunk.block.x")
        one = Sharing(group=1, lanes=sharing.group * sharing.lanes).threads(1, part, shuffles=shuffles)
        partial = fold(
            one,
            Const(0),
            "chunk",
            op,
            lambda e: ((), element(row, chunk * part + e.position)),
            most=None if count % chunks == 0 else minimum(part, count - chunk * part),
        )
        store = one.stage(
            "chunk.store",
            Const(0),
            lambda place: Assign.to("chunk.store", sums[row, chunk], partial.result(place)),
            1,
        )
        first.append(nest([(row, rows), (chunk, chunks)], partial.around(store)))
    block = Var("block.x")
    threads = sharing.threads(rows, chunks if sums is not None else count, shuffles=shuffles)

    def value(e: Element) -> tuple[tuple[Stmt, ...], Expr]:
        row = block * threads.group + e.place.row
        return (), element(row, e.position) if sums is None else sums[row, e.position]

    total = fold(threads, block, "reduce", op, value)

    def post(place: Place) -> Stmt:
        at = _digits(block * threads.group + place.row, y.shape)
        return Assign.to("post", y[tuple(at)], reduction_result(kind, total.result(place), count))

    rest = nest([(block, threads.blocks)], total.around(threads.stage("post", block, post, 1)))
    body = seq(*first, rest)
    return Program(
        name="reduction", parameters=(x, y), body=body if sums is None else Alloc(buffer=sums, body=body)
    )


def _digits(number: Expr, sizes: Sequence[int]) -> list[Expr]:
    """The indices of an element in an array of these sizes, from its number in row-major order."""
    places: list[Expr] = []
    inside = prod(sizes)
    for d, size in enumerate(sizes):
        inside //= size
        place = number if inside == 1 else number // inside
        places.append(place if d == 0 else place % size)
    return places

"""Softmax, normalizations and reductions as the threads of a GPU's blocks compute them together (`te.threads`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Literal

from ...ir.expr import Buffer, Const, Expr, Var, minimum
from ...ir.stmt import Alloc, Assign, Program, Stmt, nest, seq
from ...ir.types import DType
from ..blocks import ceil_div
from ..merge import Shape, merge_axes
from ..rows import Operator
from ..scalars import divide, exp, log, sqrt
from ..threads import Element, Threads, fold
from .common import parameters_of
from .reduction import Kind, reduced_value, reduction_result


def thread_softmax(
    shape: Shape,
    axis: int,
    *,
    group: int,
    lanes: int,
    columns: bool,
    kept: bool,
    logarithm: bool = False,
    name: str = "softmax",
) -> Program:
    """`te.ops.softmax` with parameters X and Y [outer, size of the axis, inner], or [outer, size] where inner is 1.

    Rows go to blocks as `te.threads.Threads` says, where inner is not 1 the inner ones of each outer index; with `kept`
    each thread reads its elements once and has them in registers. Stages "max", "sum" (and "exp", where kept), "scale".
    """
    axis %= len(shape)
    outer, size, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    whole = (outer, size) if inner == 1 else (outer, size, inner)
    x, y = (Buffer(name=n, shape=whole, dtype=DType.FLOAT32) for n in "XY")
    rows = outer if inner == 1 else inner
    threads = Threads(rows=rows, size=size, group=group, lanes=lanes, columns=columns)
    held = threads.kept("elements")
    outermost, block = _grid(outer, threads) if inner != 1 else (Const(0), Var("block.x"))

    def at(e: Element) -> tuple[Expr, ...]:
        row = block * group + e.row
        return (row, e.position) if inner == 1 else (outermost, e.position, row)

    def mine(e: Element) -> Expr:
        return held[e.row, e.lane, e.step] if kept else x[at(e)]

    def keep(stage: str, e: Element, value: Expr) -> tuple[Stmt, ...]:
        if not kept:
            return ()
        indices = held[e.row, e.lane, e.step].indices
        return (Assign(name=f"{stage}{e.suffix}", buffer=held, indices=indices, value=value),)

    greatest = fold(threads, block, "max", "max", lambda e: (keep("load", e, x[at(e)]), mine(e)), unroll=kept)

    def distance(e: Element) -> Expr:
        return mine(e) - greatest.result(e.row)

    def term(e: Element) -> tuple[tuple[Stmt, ...], Expr]:
        if not kept:
            return (), exp(distance(e))
        if logarithm:
            return keep("distance", e, distance(e)), exp(mine(e))
        return keep("exp", e, exp(distance(e))), mine(e)

    total = fold(threads, block, "sum", "add", term, unroll=kept)

    def result(e: Element) -> Expr:
        if logarithm:
            return (mine(e) if kept else distance(e)) - log(total.result(e.row))
        return divide(mine(e) if kept else exp(distance(e)), total.result(e.row))

    scale = _store(threads, block, "scale", y, at, result, unroll=kept)
    body = greatest.around(total.around(scale))
    if kept:
        body = Alloc(buffer=held, body=body)
    around = [(block, threads.blocks)]
    if isinstance(outermost, Var):
        around.insert(0, (outermost, outer))
    return Program(name=name, parameters=(x, y), body=nest(around, body))


def thread_normalize(
    *,
    outer: int,
    channels: int,
    size: int,
    epsilon: float,
    by: Literal["row", "channel"],
    bias: bool,
    group: int,
    lanes: int,
    kept: bool,
    name: str = "normalize",
) -> Program:
    """`te.ops.normalization.normalize`, with its parameters; `group`, `lanes` and `kept` as of `thread_softmax`.

    Stages "sum", "square", "scale".
    """
    x, y = (Buffer(name=n, shape=(outer, channels, size), dtype=DType.FLOAT32) for n in "XY")
    shape = (size,) if by == "row" else (channels,)
    scale = Buffer(name="S", shape=shape, dtype=DType.FLOAT32)
    shift = Buffer(name="B", shape=shape, dtype=DType.FLOAT32) if bias else None
    threads = Threads(rows=outer if channels == 1 else channels, size=size, group=group, lanes=lanes)
    held = threads.kept("elements")
    outermost, block = _grid(outer, threads) if channels != 1 else (Const(0), Var("block.x"))

    def at(e: Element) -> tuple[Expr, ...]:
        row = block * group + e.row
        return (row, Const(0), e.position) if channels == 1 else (outermost, row, e.position)

    def mine(e: Element) -> Expr:
        return held[e.row, e.lane, e.step] if kept else x[at(e)]

    def load(e: Element) -> tuple[tuple[Stmt, ...], Expr]:
        if not kept:
            return (), mine(e)
        indices = held[e.row, e.lane, e.step].indices
        return (Assign(name=f"load{e.suffix}", buffer=held, indices=indices, value=x[at(e)]),), mine(e)

    total = fold(threads, block, "sum", "add", load, unroll=kept)

    def distance(e: Element) -> Expr:
        return mine(e) - divide(total.result(e.row), float(size))

    squares = fold(threads, block, "square", "add", lambda e: ((), distance(e) * distance(e)), unroll=kept)

    def result(e: Element) -> Expr:
        deviation = sqrt(divide(squares.result(e.row), float(size)) + epsilon)
        place = at(e)[2] if by == "row" else at(e)[1]
        value = divide(distance(e), deviation) * scale[place]
        return value if shift is None else value + shift[place]

    body = total.around(squares.around(_store(threads, block, "scale", y, at, result, unroll=kept)))
    if kept:
        body = Alloc(buffer=held, body=body)
    around = [(block, threads.blocks)]
    if isinstance(outermost, Var):
        around.insert(0, (outermost, outer))
    return Program(name=name, parameters=parameters_of(x, scale, shift, y), body=nest(around, body))


def thread_reduction(
    shape: Shape,
    axes: Sequence[int],
    kind: Kind,
    *,
    group: int,
    lanes: int,
    columns: bool,
    chunks: int = 1,
    beside: Sequence[Shape] = (),
    name: str = "reduction",
) -> Program:
    """`te.ops.reduction` with its parameters; rows are the kept elements in their order, see `thread_softmax`.

    With several `chunks` each row is first cut into that many, each reduced by a block of `lanes` * `group` threads
    into `chunk.sums` (stage "chunk"). Stage "reduce", statement "post".
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
    if chunks > 1:
        sums = Buffer(name="chunk.sums", shape=(rows, chunks), dtype=DType.FLOAT32)
        part = ceil_div(count, chunks)
        row, chunk = Var("chunk.block.y"), Var("chunk.block.x")
        one = Threads(rows=1, size=part, group=1, lanes=group * lanes)
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
            lambda o, _: Assign(
                name="chunk.store", buffer=sums, indices=(row, chunk), value=partial.result(o)
            ),
            1,
        )
        first.append(nest([(row, rows), (chunk, chunks)], partial.around(store)))
    block = Var("block.x")
    threads = Threads(
        rows=rows,
        size=chunks if sums is not None else count,
        group=group,
        lanes=lanes,
        columns=columns,
    )

    def value(e: Element) -> tuple[tuple[Stmt, ...], Expr]:
        row = block * group + e.row
        return (), element(row, e.position) if sums is None else sums[row, e.position]

    total = fold(threads, block, "reduce", op, value)

    def post(row: Expr, _: Expr) -> Stmt:
        at = _digits(block * group + row, y.shape)
        return Assign(
            name="post", buffer=y, indices=tuple(at), value=reduction_result(kind, total.result(row), count)
        )

    rest = nest([(block, threads.blocks)], total.around(threads.stage("post", block, post, 1)))
    body = seq(*first, rest)
    return Program(name=name, parameters=(x, y), body=body if sums is None else Alloc(buffer=sums, body=body))


def _digits(number: Expr, sizes: Sequence[int]) -> list[Expr]:
    """The place in an array of these sizes of the element of a number."""
    places: list[Expr] = []
    inside = prod(sizes)
    for d, size in enumerate(sizes):
        inside //= size
        place = number if inside == 1 else number // inside
        places.append(place if d == 0 else place % size)
    return places


def _grid(outer: int, threads: Threads) -> tuple[Var, Var]:
    """Loops over what is outside of groups of rows, and over these: more blocks fit on axis x than on others."""
    y, x = Var("block.y"), Var("block.x")
    return (y, x) if threads.blocks >= outer else (x, y)


def _store(
    threads: Threads,
    block: Expr,
    name: str,
    y: Buffer,
    at: Callable[[Element], tuple[Expr, ...]],
    value: Callable[[Element], Expr],
    *,
    unroll: bool,
) -> Stmt:
    """The stage that stores every element of a row."""

    def stage(row: Expr, lane: Expr) -> Stmt:
        def one(suffix: str, step: Expr, position: Expr) -> Stmt:
            e = Element(suffix=suffix, row=row, lane=lane, step=step, position=position)
            return Assign(name=f"{name}{suffix}", buffer=y, indices=at(e), value=value(e))

        return threads.each(name, lane, one, unroll=unroll)

    return threads.stage(name, block, stage)

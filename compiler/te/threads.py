"""Rows distributed over the threads of a GPU's block, in explicit stages: partial results of the threads, then their
sum or maximum.

Every stage is a nest of loops "stage.x" and "stage.y" (and "stage.z"), which become the axes of the block's threads.
Threads combine their results in a tree in shared memory or, on GPUs with shuffles, in registers: first the threads of a
warp (`all_lanes`), then, for rows of several warps, the warps through shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.expr import Buffer, Const, Expr, Load, Var, minimum
from ..ir.kernels import WARP
from ..ir.stmt import Alloc, Assign, Reduce, Stmt, allocated, nest, seq
from ..ir.types import DType
from .blocks import ceil_div
from .rows import Operator

BRANCHES = 8
"""Number of partial results that one step of a tree combines: three steps, each with a barrier, reduce 512 threads."""
LANES = ".lanes"
"""Suffix of the names of buffers from `all_lanes`: a schedule may replace allocations with this suffix by shuffles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A thread of a block. `row`: number of the row, among the rows of the block, to which the thread belongs; `lane`:
    number of the thread among the threads of this row. `own`: the indices of the thread's element in a buffer with one
    element for each thread (shape `Threads.register_shape`).
    """

    row: Expr
    lane: Expr
    own: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """`rows` of `size` elements, with `group` rows for each block and `lanes` threads (a power of two) for each row.

    Neighbouring threads (axis x) have neighbouring elements of a row or, with `columns`, the same element of
    neighbouring rows. Element p of a row belongs to thread p % lanes. With `shuffles` the threads of a row combine
    their results in registers; axis x is then a warp at most, and the warps of a row are axis y.
    """

    rows: int
    size: int
    group: int
    lanes: int
    columns: bool = False
    shuffles: bool = False

    @property
    def blocks(self) -> int:
        """Number of blocks of threads."""
        return ceil_div(self.rows, self.group)

    @property
    def steps(self) -> int:
        """Largest number of elements of a thread."""
        return ceil_div(self.size, self.lanes)

    @property
    def warps(self) -> int:
        """Number of warps of a row whose threads combine their results by shuffles; 1 without shuffles."""
        return max(1, self.lanes // WARP) if self.shuffles else 1

    @property
    def register_shape(self) -> tuple[int, ...]:
        """The shape of a buffer with one register of each thread: [row, lane], or [row, warp, lane of the warp]."""
        return (self.group, self.warps, WARP) if self.warps > 1 else (self.group, self.lanes)

    def stage(self, name: str, block: Expr, body: Callable[[Place], Stmt], lanes: int | None = None) -> Stmt:
        """A nest of thread loops that runs `body` for each row of a block and each thread (lane) of the row; with
        `lanes` only on the first `lanes` threads of each row.
        """
        if self.warps > 1:
            warps, width = (ceil_div(lanes, WARP), min(lanes, WARP)) if lanes else (self.warps, WARP)
            row, warp, lane = (Var(f"{name}.{axis}") for axis in "zyx")
            place = Place(row=row, lane=warp * WARP + lane, own=(row, warp, lane))
            return nest([(row, self._rows_of(block)), (warp, warps), (lane, width)], body(place))
        axes = "xy" if self.columns else "yx"
        row, lane = (Var(f"{name}.{axis}") for axis in axes)
        around: list[tuple[Var, Expr]] = [(row, self._rows_of(block)), (lane, Const(lanes or self.lanes))]
        place = Place(row=row, lane=lane, own=(row, lane))
        return nest(around[::-1] if self.columns else around, body(place))

    def stage_of_warps(self, name: str, block: Expr, body: Callable[[tuple[Var, ...]], Stmt]) -> Stmt:
        """A nest of loops that runs `body` once for each row or, if rows have several warps, for each warp of a row.
        `body` gets the indices (row,) or (row, warp), the leading indices in buffers of shape `register_shape`.
        """
        axes = "zy" if self.warps > 1 else "y"
        at = tuple([Var(f"{name}.{axis}") for axis in axes])
        return nest(list(zip(at, (self._rows_of(block), Const(self.warps)), strict=False)), body(at))

    def _rows_of(self, block: Expr) -> Expr:
        """Number of rows of the block with index `block`: `group`, or fewer in the last block."""
        if self.rows % self.group:
            return minimum(self.group, self.rows - block * self.group)
        return Const(self.group)

    def each(
        self,
        name: str,
        lane: Expr,
        body: Callable[[str, Expr, Expr], Stmt],
        *,
        unroll: bool = False,
        most: Expr | None = None,
    ) -> Stmt:
        """Runs `body` for all elements of a row that belong to thread `lane`. `body` is called with a suffix for the
        names of its statements, the step (number of the element among the thread's elements), and the element's index
        in the row.

        In loop `name`.k, every thread of the row has an element in each step. If the last step has elements for some
        threads only, this step is loop `name`.g, which has one iteration for these threads and none for the others.
        `unroll`: whether loop k is unrolled. `most`: number of elements of the row, if it may be less than `size`; loop
        g is then inside loop k.
        """
        k, g = Var(f"{name}.k"), Var(f"{name}.g")
        if most is not None:
            left = minimum(1, most - k * self.lanes - lane)
            return nest([(k, self.steps), (g, left)], body("", k, k * self.lanes + lane + g))
        whole, parts = self.size // self.lanes, list[Stmt]()
        if whole:
            inner = body("", k, k * self.lanes + lane)
            parts.append(nest([(k, whole)], inner, kind="unroll" if unroll else "serial"))
        if self.size % self.lanes:
            left = minimum(1, self.size - whole * self.lanes - lane)
            parts.append(nest([(g, left)], body(".tail", Const(whole), lane + g + whole * self.lanes)))
        return seq(*parts)

    def shared(self, name: str, lanes: int) -> Buffer:
        """A buffer in shared memory with one value for each of `lanes` threads of each row."""
        shape = (lanes, self.group) if self.columns else (self.group, lanes)
        return Buffer(name=name, shape=shape, dtype=DType.FLOAT32, scope="shared")

    def kept(self, name: str) -> Buffer:
        """A buffer of registers that holds all elements of the block's rows, each in the thread to which the element
        belongs. Shape: `register_shape`, then the step (number of the element among the thread's elements).
        """
        shape = (*self.register_shape, self.steps)
        return Buffer(name=name, shape=shape, dtype=DType.FLOAT32, scope="register")

    def at(self, buffer: Buffer, row: Expr, lane: Expr) -> tuple[Expr, ...]:
        """The indices of a thread's value in a buffer made by `shared`."""
        assert len(buffer.shape) == 2
        return (lane, row) if self.columns else (row, lane)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """A distribution of rows: `group` rows for each block, and `lanes` threads (a power of two) for each row.

    `chunks`: number of pieces of a row that are reduced first (reductions only). With `columns`, neighbouring threads
    have neighbouring rows, for rows that are interleaved in memory. With `kept`, elements stay in registers (softmax
    and normalizations).
    """

    group: int
    lanes: int
    columns: bool = False
    kept: bool = False
    chunks: int = 1

    def threads(self, rows: int, size: int, *, shuffles: bool = False) -> Threads:
        """The distribution of `rows` rows of `size` elements over threads. `shuffles`: whether the target has shuffles.
        Shuffles are used only if the number of threads for a row is a power of two, and if these threads are neighbours
        (with `columns`, threads of different rows alternate).
        """
        return Threads(
            rows=rows,
            size=size,
            group=self.group,
            lanes=self.lanes,
            columns=self.columns,
            shuffles=shuffles and not self.columns and self.lanes & (self.lanes - 1) == 0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An element of a row: its thread, the step (number of the thread's element), and the element's index in the row.

    `suffix`: ends the names of statements for this element, since a row's last elements may have separate statements.
    """

    suffix: str
    place: Place
    step: Expr
    position: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """The reduction of a block's rows: its stages, their buffers, and each row's result."""

    threads: Threads
    stages: tuple[Stmt, ...]
    buffers: tuple[Buffer, ...]

    def result(self, place: Place) -> Expr:
        """The reduction's result for a row, as seen by `place`, one of the row's threads: a load from a buffer that
        this thread can read.
        """
        last = self.buffers[-1]
        if self.threads.shuffles:
            return last[place.own]
        return last[self.threads.at(last, place.row, Const(0))]

    def around(self, rest: Stmt) -> Stmt:
        """The reduction's stages followed by `rest`, which may use the results."""
        return allocated(self.buffers, seq(*self.stages, rest))


def all_lanes(name: str, op: Operator, buffer: Buffer, first: tuple[Expr, ...]) -> Stmt:
    """Replaces each element of buffer[*first, :] by the sum or maximum (`op`) of all elements of buffer[*first, :].
    These are one element for each lane of a warp. `first`: indices of all dimensions except the last.

    The names of the statements are `name`.init, `name` and `name`.all.
    """
    lanes = buffer.shape[-1]
    total = Buffer(name=f"{name}{LANES}", shape=(1,), dtype=DType.FLOAT32, scope="register")
    lane, to, zero = Var(f"{name}.l"), Var(f"{name}.to"), (Const(0),)
    return Alloc(
        buffer=total,
        body=seq(
            Assign.to(f"{name}.init", total[zero], _start(op)),
            nest([(lane, lanes)], Reduce.into(name, op, total[zero], buffer[(*first, lane)])),
            nest([(to, lanes)], Assign.to(f"{name}.all", buffer[(*first, to)], total[0])),
        ),
    )


def neighbouring_lanes(name: str, op: Operator, buffer: Buffer, first: tuple[Expr, ...], count: int) -> Stmt:
    """Replaces each element of buffer[*first, :] by the sum or maximum (`op`) over a group of elements. Each lane of a
    warp has one element, and `count` neighbouring lanes are a group: lanes 0 to `count` - 1, the next `count` lanes,
    and so on.

    The loop over groups of lanes is `name`.group; the names of the statements are `name`.init, `name` and `name`.all.
    """
    total = Buffer(name=f"{name}.total", shape=(1,), dtype=DType.FLOAT32, scope="register")
    group, lane, to = (Var(f"{name}.{v}") for v in ("group", "l", "to"))
    joined = Reduce.into(name, op, total[0], buffer[(*first, group * count + lane)])
    given = Assign.to(f"{name}.all", buffer[(*first, group * count + to)], total[0])
    body = seq(
        Assign.to(f"{name}.init", total[0], _start(op)),
        nest([(lane, count)], joined),
        nest([(to, count)], given),
    )
    return nest([(group, buffer.shape[-1] // count)], Alloc(buffer=total, body=body))


def _start(op: Operator) -> Const:
    return Const(0.0 if op == "add" else float("-inf"), DType.FLOAT32)


def fold(
    threads: Threads,
    block: Expr,
    name: str,
    op: Operator,
    value: Callable[[Element], tuple[tuple[Stmt, ...], Expr]],
    *,
    unroll: bool = False,
    most: Expr | None = None,
) -> Fold:
    """Reduces each row of a block to its sum or maximum. First each thread reduces its own elements of a row. Then the
    threads of a row combine their partial results, in a tree that joins `BRANCHES` threads at a time. If
    `threads.shuffles` is set, shuffles combine the results of a warp instead, then the results of all warps.

    `value` returns, for an element, statements to run first and the value to reduce. `unroll`: whether the loop over a
    thread's elements is unrolled. `most`: number of elements of a row, if this number may be less than `threads.size`.

    Names of statements: `name`, `name`.init, `name`.tail reduce a thread's elements, and `name`.kept stores the result.
    A step of the tree after which n threads of a row hold results has `name`.n.init, `name`.n and `name`.n.kept. With
    shuffles there are, in place of the tree, `name`.warp (`all_lanes`) and `name`.warp.kept for a warp, and
    `name`.warps and `name`.warps.init for the warps of a row.
    """
    if threads.shuffles:
        return _shuffled_fold(threads, block, name, op, value, unroll=unroll, most=most)
    start, zero = _start(op), (Const(0),)

    def own(suffix: str) -> Buffer:
        return Buffer(name=f"{name}{suffix}.own", shape=(1,), dtype=DType.FLOAT32, scope="register")

    total = own("")
    partial = threads.shared(f"{name}.{threads.lanes}", threads.lanes)

    def elements(place: Place) -> Stmt:
        own_elements = _folded_elements(
            threads, name, op, value, place, total[zero], unroll=unroll, most=most
        )
        kept = partial[threads.at(partial, place.row, place.lane)]
        return Alloc(buffer=total, body=seq(own_elements, Assign.to(f"{name}.kept", kept, total[0])))

    stages = [threads.stage(name, block, elements)]
    buffers = [partial]
    left = threads.lanes
    while left > 1:
        branches = min(left, BRANCHES)
        left //= branches
        stage, source, target = f"{name}.{left}", buffers[-1], threads.shared(f"{name}.{left}", left)
        joined = own(f".{left}")

        def join(
            place: Place,
            stage: str = stage,
            left: int = left,
            branches: int = branches,
            source: Buffer = source,
            target: Buffer = target,
            joined: Buffer = joined,
        ) -> Stmt:
            h = Var(f"{stage}.h")
            other = source[threads.at(source, place.row, place.lane + h * left)]
            return Alloc(
                buffer=joined,
                body=seq(
                    Assign.to(f"{stage}.init", joined[zero], start),
                    nest(
                        [(h, branches)],
                        Reduce.into(stage, op, joined[zero], other),
                        kind="unroll",
                    ),
                    Assign.to(f"{stage}.kept", target[threads.at(target, place.row, place.lane)], joined[0]),
                ),
            )

        stages.append(threads.stage(stage, block, join, left))
        buffers.append(target)
    return Fold(threads=threads, stages=tuple(stages), buffers=tuple(buffers))


def _folded_elements(
    threads: Threads,
    name: str,
    op: Operator,
    value: Callable[[Element], tuple[tuple[Stmt, ...], Expr]],
    place: Place,
    total: Load,
    *,
    unroll: bool,
    most: Expr | None,
) -> Stmt:
    """The statements that set `total` to the sum or maximum of the elements of one thread (see `fold`)."""

    def one(suffix: str, step: Expr, position: Expr) -> Stmt:
        first, operand = value(Element(suffix=suffix, place=place, step=step, position=position))
        return seq(*first, Reduce.into(f"{name}{suffix}", op, total, operand))

    return seq(
        Assign.to(f"{name}.init", total, _start(op)),
        threads.each(name, place.lane, one, unroll=unroll, most=most),
    )


def _shuffled_fold(
    threads: Threads,
    block: Expr,
    name: str,
    op: Operator,
    value: Callable[[Element], tuple[tuple[Stmt, ...], Expr]],
    *,
    unroll: bool,
    most: Expr | None,
) -> Fold:
    """`fold` with shuffles. There is no barrier if a row has one warp, and one barrier if it has several."""
    own = Buffer(name=f"{name}.own", shape=threads.register_shape, dtype=DType.FLOAT32, scope="register")
    warps = threads.warps
    partial = Buffer(name=f"{name}.warps", shape=(threads.group, warps), dtype=DType.FLOAT32, scope="shared")

    def elements(place: Place) -> Stmt:
        return _folded_elements(threads, name, op, value, place, own[place.own], unroll=unroll, most=most)

    def of_warp(at: tuple[Var, ...]) -> Stmt:
        joined = all_lanes(f"{name}.warp", op, own, at)
        if warps == 1:
            return joined
        return seq(joined, Assign.to(f"{name}.warp.kept", partial[at], own[(*at, Const(0))]))

    def of_row(place: Place) -> Stmt:
        h, total = Var(f"{name}.warps.h"), own[place.own]
        join = Reduce.into(f"{name}.warps", op, total, partial[place.row, h])
        return seq(
            Assign.to(f"{name}.warps.init", total, _start(op)), nest([(h, warps)], join, kind="unroll")
        )

    stages = [threads.stage(name, block, elements)]
    if threads.lanes > 1:
        stages.append(threads.stage_of_warps(f"{name}.warp", block, of_warp))
    if warps > 1:
        stages.append(threads.stage(f"{name}.warps", block, of_row))
    buffers = (partial, own) if warps > 1 else (own,)
    return Fold(threads=threads, stages=tuple(stages), buffers=buffers)

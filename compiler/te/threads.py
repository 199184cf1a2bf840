"""Rows distributed over the threads of a GPU's block, in explicit stages: partial results, then a tree in shared
memory.

Every stage is a nest of two loops "stage.x" and "stage.y", which become the x and y axes of the block's threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.expr import Buffer, Const, Expr, Var, minimum
from ..ir.stmt import Alloc, Assign, Reduce, Stmt, allocated, nest, seq
from ..ir.types import DType
from .blocks import ceil_div
from .rows import Operator

BRANCHES = 8
"""Number of partial results that one step of a tree combines: three steps, each with a barrier, reduce 512 threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """`rows` of `size` elements, with `group` rows for each block and `lanes` threads (a power of two) for each row.

    Neighbouring threads (axis x) have neighbouring elements of a row or, with `columns`, the same element of
    neighbouring rows. Element p of a row belongs to thread p % lanes.
    """

    rows: int
    size: int
    group: int
    lanes: int
    columns: bool = False

    @property
    def blocks(self) -> int:
        """Number of blocks of threads."""
        return ceil_div(self.rows, self.group)

    @property
    def steps(self) -> int:
        """Largest number of elements of a thread."""
        return ceil_div(self.size, self.lanes)

    def stage(
        self, name: str, block: Expr, body: Callable[[Expr, Expr], Stmt], lanes: int | None = None
    ) -> Stmt:
        """A nest of thread loops that runs `body` for each row of a block and each thread (lane) of the row; with
        `lanes` only on the first `lanes` threads of each row.
        """
        axes = "xy" if self.columns else "yx"
        row, lane = (Var(f"{name}.{axis}") for axis in axes)
        rest = Const(self.group)
        if self.rows % self.group:
            rest = minimum(self.group, self.rows - block * self.group)
        around: list[tuple[Var, Expr]] = [(row, rest), (lane, Const(lanes or self.lanes))]
        return nest(around[::-1] if self.columns else around, body(row, lane))

    def each(
        self,
        name: str,
        lane: Expr,
        body: Callable[[str, Expr, Expr], Stmt],
        *,
        unroll: bool = False,
        most: Expr | None = None,
    ) -> Stmt:
        """The statements of `body` for all elements of thread `lane` of a row. `body` gets a suffix for names, the step
        (number of the element among the thread's elements) and the element's index in the row.

        Loop `name`.k runs over the steps in which every thread of the row has an element. Loop `name`.g, of at most one
        iteration, is the step in which only some threads have one. `unroll`: whether loop k is unrolled. `most`: number
        of elements of the row, if it may be less than `size`; loop g is then inside loop k.
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
        """A buffer of all elements of the block's rows, each in a register of its thread: [row, lane (thread of the
        row), step (element of the thread)].
        """
        return Buffer(
            name=name, shape=(self.group, self.lanes, self.steps), dtype=DType.FLOAT32, scope="register"
        )

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

    def threads(self, rows: int, size: int) -> Threads:
        """The threads for `rows` of `size` elements."""
        return Threads(rows=rows, size=size, group=self.group, lanes=self.lanes, columns=self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An element and its thread: the row's index in the block, the lane (thread of the row), the step (number of the
    thread's element), and the element's index in the row.

    `suffix`: for names of statements, since a row's last elements may have statements of their own.
    """

    suffix: str
    row: Expr
    lane: Expr
    step: Expr
    position: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """The reduction of a block's rows: its stages, their buffers, and each row's result."""

    threads: Threads
    stages: tuple[Stmt, ...]
    buffers: tuple[Buffer, ...]

    def result(self, row: Expr) -> Expr:
        """The result of the row with index `row` in the block."""
        last = self.buffers[-1]
        return last[self.threads.at(last, row, Const(0))]

    def around(self, rest: Stmt) -> Stmt:
        """The reduction's stages followed by `rest`, which may use the results."""
        return allocated(self.buffers, seq(*self.stages, rest))


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
    """Reduces each row of a block: first to the sum or maximum of each thread's elements, then over `BRANCHES` threads
    at a time.

    `value` gives, for an element, statements to run first and the value to reduce. `unroll`: whether the loop over a
    thread's elements is unrolled. `most`: number of elements of a row, if it may be less than the threads' `size`. The
    names of the statements are `name`, `name`.init, `name`.kept (and `name`.tail), then `name`.n.init, `name`.n and
    `name`.n.kept, where n is the number of threads of a row that still have partial results.
    """
    start = Const(0.0 if op == "add" else float("-inf"), DType.FLOAT32)
    zero = (Const(0),)

    def own(suffix: str) -> Buffer:
        return Buffer(name=f"{name}{suffix}.own", shape=(1,), dtype=DType.FLOAT32, scope="register")

    total = own("")
    partial = threads.shared(f"{name}.{threads.lanes}", threads.lanes)

    def elements(row: Expr, lane: Expr) -> Stmt:
        def one(suffix: str, step: Expr, position: Expr) -> Stmt:
            first, operand = value(Element(suffix=suffix, row=row, lane=lane, step=step, position=position))
            reduce = Reduce.into(f"{name}{suffix}", op, total[zero], operand)
            return seq(*first, reduce)

        body = seq(
            Assign.to(f"{name}.init", total[zero], start),
            threads.each(name, lane, one, unroll=unroll, most=most),
            Assign.to(f"{name}.kept", partial[threads.at(partial, row, lane)], total[0]),
        )
        return Alloc(buffer=total, body=body)

    stages = [threads.stage(name, block, elements)]
    buffers = [partial]
    left = threads.lanes
    while left > 1:
        branches = min(left, BRANCHES)
        left //= branches
        stage, source, target = f"{name}.{left}", buffers[-1], threads.shared(f"{name}.{left}", left)
        joined = own(f".{left}")

        def join(
            row: Expr,
            lane: Expr,
            stage: str = stage,
            left: int = left,
            branches: int = branches,
            source: Buffer = source,
            target: Buffer = target,
            joined: Buffer = joined,
        ) -> Stmt:
            h = Var(f"{stage}.h")
            other = source[threads.at(source, row, lane + h * left)]
            return Alloc(
                buffer=joined,
                body=seq(
                    Assign.to(f"{stage}.init", joined[zero], start),
                    nest(
                        [(h, branches)],
                        Reduce.into(stage, op, joined[zero], other),
                        kind="unroll",
                    ),
                    Assign.to(f"{stage}.kept", target[threads.at(target, row, lane)], joined[0]),
                ),
            )

        stages.append(threads.stage(stage, block, join, left))
        buffers.append(target)
    return Fold(threads=threads, stages=tuple(stages), buffers=tuple(buffers))

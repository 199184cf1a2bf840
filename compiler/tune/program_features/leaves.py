"""Exact counts for every statement of a scheduled program: iterations, arithmetic, touched elements.

The counts come from one walk over the program. If the extent of a loop depends on other loops (as for the shorter last
tile of a split loop), these loops form a group; their iterations are enumerated, and counts are summed over the
iterations. Any other loop multiplies the counts by its extent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from ...ir.expr import Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var
from ...ir.stmt import (
    Alloc,
    Assign,
    Barrier,
    Commit,
    Copy,
    For,
    Intrinsic,
    IntrinsicDeclaration,
    NamedStmt,
    Program,
    Reduce,
    Seq,
    Stmt,
    Wait,
)
from ...ir.visit import operands
from .iterations import Iterations, tracked
from .touched import Dimension, places, run_length, touched_elements


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """Numbers of arithmetic operations in one execution of a statement. Computations of indices are not counted. Both
    alternatives of a Select are counted.

    `other`: comparisons, min, max, selections, quotients and conversions; `calls`: function calls.
    """

    multiplications: int = 0
    additions: int = 0
    other: int = 0
    calls: int = 0

    @property
    def total(self) -> int:
        """The sum of the numbers of all kinds of operations."""
        return self.multiplications + self.additions + self.other + self.calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A loop around a statement. `iterations`: executions of the loop's body in the whole program; `extent`: largest
    number of iterations that the loop has at a time.
    """

    loop: For
    iterations: int
    extent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFeatures:
    """One access of a statement to a buffer.

    `touched`: numbers of different elements that the access touches. Let the loops around the statement have the
    numbers 0, 1, ... n - 1 from the outermost inwards. `touched[k]` counts the elements while loops 0 to k - 1 stay in
    one iteration, and all other loops run through all iterations. So `touched[n]` is for a single execution. The
    numbers are exact under two conditions: each dimension's index is a sum of loop variables whose steps neither
    overlap nor leave gaps, and no loop variable is in the indices of two dimensions. Otherwise they are upper bounds. A
    loop of varying extent counts with its largest extent.

    `stride`: distance, in elements, between the accesses of neighbouring iterations of one loop. This is the vectorized
    loop or, without a vectorized loop, the innermost loop with several iterations. 0 if there is no such loop.
    """

    buffer: Buffer
    write: bool
    touched: tuple[int, ...]
    stride: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A statement without nested statements, with the loops around it, outermost first.

    `executions`: how often the statement is executed in the whole program. `copied`: number of elements that a Copy
    moves in all executions, pads included. `run`: number of contiguous elements that one execution of a Copy accesses
    in DRAM, or in the destination if neither memory is DRAM. For statements other than Copy, `copied` and `run` are 0.
    """

    statement: NamedStmt
    levels: tuple[Level, ...]
    executions: int
    arithmetic: Arithmetic
    copied: int = 0
    run: int = 0

    @property
    def work(self) -> int:
        """Amount of work of the statement in all executions: its number of operations or, for a copy, of copied
        elements.
        """
        return self.executions * max(1, self.arithmetic.total) + self.copied


@dataclass(slots=True)
class Counted:
    """The counts of a program: all leaf statements in program order; the number of executed commits and of executed
    waits (of asynchronous copies); and for each memory scope the largest number of bytes that are allocated at a time.
    """

    leaves: list[Leaf] = field(default_factory=list)
    commits: int = 0
    waits: int = 0
    allocated: dict[str, int] = field(default_factory=dict)


def count(program: Program) -> Counted:
    """The counts of all statements of a program. Raises ValueError for a loop whose extent reads memory, because such
    an extent is no index expression.
    """
    walker = _Walker(tracked(program))
    walker.visit(program.body, (), Iterations(), {})
    return walker.result


def innermost(levels: Sequence[Level]) -> int:
    """The position in `levels` (loops, outermost first) of the vectorized loop. Without a vectorized loop: the position
    of the innermost loop with several iterations, or -1 if there is none.
    """
    for k, level in enumerate(levels):
        if level.loop.kind == "vectorize":
            return k
    return max((k for k, level in enumerate(levels) if level.extent > 1), default=-1)


def accesses(leaf: Leaf) -> tuple[AccessFeatures, ...]:
    """The accesses of a leaf to its buffers: first writes, then reads. Equal accesses are listed once."""
    extents = {level.loop.name: level.extent for level in leaf.levels}
    names = list(extents)
    at = innermost(leaf.levels)
    moving = names[at] if at >= 0 else ""
    found: list[AccessFeatures] = []
    for buffer, starts, sizes, write in places(leaf.statement, extents):
        dimensions = [Dimension.of(start, size) for start, size in zip(starts, sizes, strict=True)]
        stride, step = 0, 1
        for dimension, length in zip(reversed(dimensions), reversed(buffer.shape), strict=True):
            stride += step * dimension.step(moving)
            step *= length
        found.append(
            AccessFeatures(
                buffer=buffer,
                write=write,
                touched=touched_elements(buffer, dimensions, names, extents),
                stride=stride,
            )
        )
    return tuple(found)


def volumes(leaf: Leaf) -> list[tuple[Buffer, int, int]]:
    """For each access of the leaf, in the order of `accesses`: (buffer, elements of all executions, elements of one
    execution). The numbers count different elements that the access touches.
    """
    extents = {level.loop.name: level.extent for level in leaf.levels}
    found: list[tuple[Buffer, int, int]] = []
    for buffer, starts, sizes, _ in places(leaf.statement, extents):
        whole = once = 1
        for start, size, length in zip(starts, sizes, buffer.shape, strict=True):
            once *= min(size, length)
            whole *= min(Dimension.of(start, size).values(extents), length)
        found.append((buffer, whole, once))
    return found


class _Walker:
    def __init__(self, tracked: frozenset[str]) -> None:
        self.result = Counted()
        self._tracked = tracked
        self._bodies: dict[int, Arithmetic] = {}
        self._values: dict[int, Arithmetic] = {}

    def visit(
        self, node: Stmt, levels: tuple[Level, ...], reached: Iterations, allocated: dict[str, int]
    ) -> None:
        match node:
            case For(var=var, extent=extent, body=body):
                name = var.name if var.name in self._tracked else None
                inside = reached.times(extent, name)
                level = Level(loop=node, iterations=inside.total, extent=reached.longest(extent))
                self.visit(body, (*levels, level), inside, allocated)
            case Seq(statements=statements):
                for statement in statements:
                    self.visit(statement, levels, reached, allocated)
            case Alloc(buffer=buffer, body=body):
                size = prod(buffer.shape) * buffer.dtype.bits // 8
                inside = {**allocated, buffer.scope: allocated.get(buffer.scope, 0) + size}
                peak = self.result.allocated
                peak[buffer.scope] = max(peak.get(buffer.scope, 0), inside[buffer.scope])
                self.visit(body, levels, reached, inside)
            case Commit():
                self.result.commits += reached.total
            case Wait():
                self.result.waits += reached.total
            case Barrier():
                pass
            case Assign() | Reduce() | Copy() | Intrinsic():
                self._leaf(node, levels, reached)

    def _leaf(self, node: NamedStmt, levels: tuple[Level, ...], reached: Iterations) -> None:
        executions = levels[-1].iterations if levels else 1
        copied = run = 0
        if isinstance(node, Copy):
            moved = reached
            for extent in node.destination.extents:
                moved = moved.times(extent, None)
            copied = moved.total
            outer = node.destination if node.source.buffer.scope != "dram" else node.source
            run = run_length(outer, {level.loop.name: level.extent for level in levels})
        self.result.leaves.append(
            Leaf(
                statement=node,
                levels=levels,
                executions=executions,
                arithmetic=self._arithmetic(node),
                copied=copied,
                run=run,
            )
        )

    def _arithmetic(self, node: NamedStmt) -> Arithmetic:
        match node:
            case Assign(value=value):
                return _operations(value)
            case Reduce(op=op, value=value):
                own = _operations(value)
                if op == "add":
                    return replace(own, additions=own.additions + 1)
                return replace(own, other=own.other + 1)
            case Intrinsic(declaration=declaration):
                key = id(declaration)
                if key not in self._bodies:
                    self._bodies[key] = _of_declaration(declaration)
                return self._bodies[key]
        return Arithmetic()


def _of_declaration(declaration: IntrinsicDeclaration) -> Arithmetic:
    """The operations of one application of a hardware intrinsic."""
    inside = count(Program(name=declaration.name, parameters=declaration.parameters, body=declaration.body))
    parts = [(leaf.executions, leaf.arithmetic) for leaf in inside.leaves]
    return Arithmetic(
        multiplications=sum(n * a.multiplications for n, a in parts),
        additions=sum(n * a.additions for n, a in parts),
        other=sum(n * a.other for n, a in parts),
        calls=sum(n * a.calls for n, a in parts),
    )


def _operations(value: Expr) -> Arithmetic:
    multiplications = additions = other = calls = 0
    stack = [value]
    while stack:
        e = stack.pop()
        match e:
            case Const() | Var() | Load():
                continue
            case Binary(op="*"):
                multiplications += 1
            case Binary(op="+" | "-"):
                additions += 1
            case Binary() | Select() | Cast():
                other += 1
            case Call():
                calls += 1
        stack.extend(operands(e))
    return Arithmetic(multiplications=multiplications, additions=additions, other=other, calls=calls)

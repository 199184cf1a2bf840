"""Statements: loops, allocations, element updates, region copies, hardware intrinsics, and the program around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from .expr import Buffer, Const, Expr, ExprLike, Load, Var, index
from .quick_init import quick_init

LoopKind: TypeAlias = Literal[
    "serial",
    "unroll",
    "vectorize",
    "parallel",
    "virtual_thread",
    "block.x",
    "block.y",
    "block.z",
    "thread.x",
    "thread.y",
    "thread.z",
]
LOOP_KINDS: tuple[str, ...] = get_args(LoopKind)
AXES = ("block.x", "block.y", "block.z", "thread.x", "thread.y", "thread.z")
"""The kinds of loops that are axes of a GPU's grid (`ir.grid`). The interpreter runs their iterations in order."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A box of a buffer's elements: indices `starts[d] .. starts[d] + extents[d] - 1` in each dimension d."""

    buffer: Buffer
    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class For:
    """Runs `body` for var = 0 .. extent - 1; `extent` may depend on outer loops (0 or less: no iteration).

    `kind` says how iterations may run; running them in order is always correct. The loop's name is its variable's name,
    unique in a program.
    """

    var: Var
    extent: Expr
    body: Stmt
    kind: LoopKind = "serial"

    def __hash__(self) -> int:
        # Analyses have accesses with the loops around them as keys; bodies would be hashed again for each.
        return hash(self.var.name)

    @property
    def name(self) -> str:
        """The variable's name."""
        return self.var.name


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Seq:
    """Statements in order; an empty sequence does nothing."""

    statements: tuple[Stmt, ...]


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Alloc:
    """Allocates `buffer` for `body`; its contents are undefined at every entry (zeros or poison in the interpreter)."""

    buffer: Buffer
    body: Stmt


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """buffer[indices] = value."""

    name: str
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr

    @staticmethod
    def to(name: str, element: Load, value: Expr) -> Assign:
        """The statement `element` = `value`, called `name`."""
        return Assign(name=name, buffer=element.buffer, indices=element.indices, value=value)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce:
    """buffer[indices] = value where `first` holds, else buffer[indices] op value.

    Reassociating and reordering the iterations is legal by construction (so the initialisation is a predicate, not a
    separate loop). With `first` None, every iteration combines.
    """

    name: str
    op: Literal["add", "max"]
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    first: Expr | None = None

    @staticmethod
    def into(
        name: str, op: Literal["add", "max"], element: Load, value: Expr, first: Expr | None = None
    ) -> Reduce:
        """The Reduce statement `name` that combines `element` with `value` by `op`; it restarts where `first` holds."""
        return Reduce(
            name=name, op=op, buffer=element.buffer, indices=element.indices, value=value, first=first
        )


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """destination = source, element by element; integers may be widened.

    Both regions have the same extents once extents of 1 are left out. Source elements outside the source buffer's shape
    read as `pad` (None: out of bounds is an error). An asynchronous copy belongs to the group closed by the next
    Commit; its data may be read, and its source overwritten, only after the Wait that covers that group.
    """

    name: str
    destination: Region
    source: Region
    pad: Const | None = None
    asynchronous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IntrinsicDeclaration:
    """A hardware operation, defined by the loop IR `body` over formal `parameters`; a Reduce in the body may use FIRST
    (whether the call overwrites its target). `code`: source text by language, for an operation that a user declares
    (`te.intrinsic`); back ends emit their own operations by name.
    """

    name: str
    parameters: tuple[Buffer, ...]
    body: Stmt
    code: tuple[tuple[str, str], ...] = ()


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Intrinsic:
    """One use of a hardware operation: its declaration's body with `operands` for the formal buffers.

    The extents of an operand and of its formal buffer correspond in order; extents of 1 are left out. `first`: the
    value of FIRST in the body (None: false). For operands that are only read, elements outside of the buffer's shape
    read as `pad` (None: out of bounds is an error). `attributes` are for emission only; the interpreter ignores them.
    """

    name: str
    declaration: IntrinsicDeclaration
    operands: tuple[Region, ...]
    first: Expr | None = None
    pad: Const | None = None
    attributes: tuple[tuple[str, int | float | str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Closes the group of asynchronous copies that were issued since the last Commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Waits until all groups of asynchronous copies (see Commit) have ended, except the `pending` newest ones."""

    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """All threads of a GPU's block wait here for one another, and see each other's earlier writes.

    It has no effect on a program that runs in order.
    """


Stmt: TypeAlias = For | Seq | Alloc | Assign | Reduce | Copy | Intrinsic | Commit | Wait | Barrier
NamedStmt: TypeAlias = Assign | Reduce | Copy | Intrinsic


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A kernel over `parameters`; parameters that the body writes are outputs, the others inputs."""

    name: str
    parameters: tuple[Buffer, ...]
    body: Stmt


Node: TypeAlias = Program | Stmt


def seq(*statements: Stmt) -> Stmt:
    """The statements, in order, as one Seq without nested sequences; a single statement is returned as it is."""
    flat: list[Stmt] = []
    for statement in statements:
        if isinstance(statement, Seq):
            flat.extend(statement.statements)
        else:
            flat.append(statement)
    return flat[0] if len(flat) == 1 else Seq(statements=tuple(flat))


def nest(loops: Sequence[tuple[Var, ExprLike]], body: Stmt, kind: LoopKind = "serial") -> Stmt:
    """`body` inside loops given outermost first as (variable, extent), all of the same `kind`."""
    for var, extent in reversed(loops):
        body = For(var=var, extent=index(extent), body=body, kind=kind)
    return body


def each(name: str, element: Load, value: Expr) -> Stmt:
    """A nest of loops with the statement `element` = `value`, called `name`, for every element of the buffer; the
    indices of `element` are the loops' variables.
    """
    loops = [
        (Var(i.name), n)
        for i, n in zip(element.indices, element.buffer.shape, strict=True)
        if isinstance(i, Var)
    ]
    assert len(loops) == len(element.indices)
    return nest(loops, Assign.to(name, element, value))


def allocated(buffers: Sequence[Buffer], body: Stmt) -> Stmt:
    """`body` inside allocations of these buffers, the first of which is outermost."""
    for buffer in reversed(buffers):
        body = Alloc(buffer=buffer, body=body)
    return body


def parameters_of(*buffers: Buffer | None) -> tuple[Buffer, ...]:
    """The buffers, without those that are None."""
    return tuple(b for b in buffers if b is not None)


def region(buffer: Buffer, *dimensions: tuple[ExprLike, ExprLike]) -> Region:
    """A region from one (start, extent) pair for each dimension."""
    return Region(
        buffer=buffer,
        starts=tuple(index(s) for s, _ in dimensions),
        extents=tuple(index(e) for _, e in dimensions),
    )


def whole(buffer: Buffer) -> Region:
    """The region with all elements of a buffer."""
    return region(buffer, *((0, size) for size in buffer.shape))

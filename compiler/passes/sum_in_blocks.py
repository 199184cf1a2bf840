"""sum_in_blocks: adds up long floating-point sums in blocks, so that rounding errors stay small.

The rounding error of each addition is relative to the partial sum. So a sum of n terms in one variable may be wrong by
n units in the last place. With sums of b terms, then sums of b of these sums, and so on, each level adds only b units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from ..ir.bounds import interval, loop_ranges
from ..ir.expr import Buffer, Const, Expr, Load, Var, minimum
from ..ir.stmt import Alloc, Assign, For, Program, Reduce, Seq, Stmt, seq
from ..ir.visit import expressions, free_vars, loads_in, map_stmt, substitute, substitute_expr, walk
from ..schedule.tree import first_unused, names_in

BLOCK_TERMS = 256
"""Terms in a block of a sum; libraries use 128 to 256. Blocks cost 1 to 3% of the time, and rounding errors over ten
layers become as small as ONNX Runtime's."""
LONGEST = 2 * BLOCK_TERMS
"""Sums of at most this many terms stay unchanged."""
REGISTERS = 4096
"""Upper limit of the number of a block's partial sums, in elements: many times the largest register tile."""


def sum_in_blocks(program: Program, *, within: Callable[[For], bool] | None = None) -> Program:
    """Splits each float sum of more than `LONGEST` terms in a row into partial sums. A partial sum has at most
    `BLOCK_TERMS` terms, or the terms of one loop iteration if these are more.

    rewrite:
                                                   for k.block in range(16):
                                                       alloc C.block: [4] @ register
                                                       for j.zero in vectorize(4): C.block[j.zero] = 0
        for k in range(4096):                          for k in range(256):
            for j in vectorize(4):         ->              for j in vectorize(4):
                C[j] += A[k, j]                                C.block[j] += A[256 * k.block + k, j]
                                                       for j.join in vectorize(4): C[j.join] += C.block[j.join]
    Terms are counted over all loops around a sum. A loop is cut if it only adds to sums that are initialized before it,
    reads none of these sums, and otherwise writes only buffers allocated in it. The loop must be serial or unrolled and
    have a constant extent; loops inside it on which the target's indices depend must have constant extents, too.
    `within`: a predicate; if given, only loops inside a loop for which the predicate is true are cut."""
    names = _Names(names_in(program))
    body, _ = _visit(program.body, (), within is None, within, names)
    return program if body is program.body else replace(program, body=body)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A Reduce (addition to a sum) inside a statement. `lanes`: the loops on which the indices of its target depend,
    outermost first. `terms`: the number of terms that the statement adds to one element, one after the other.
    """

    reduce: Reduce
    lanes: tuple[For, ...]
    terms: int

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Extents of the loops `lanes`, on which the target's indices depend; None if an extent is not a constant."""
        extents = [int(n.extent.value) for n in self.lanes if isinstance(n.extent, Const)]
        return tuple(extents) if len(extents) == len(self.lanes) else None


class _Names:
    """The names that a program uses, and a generator of names that it does not use."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def unused(self, name: str) -> str:
        """A name like `name` that is not used yet (`schedule.tree.first_unused`); it counts as used from now on."""
        candidate = first_unused(name, self._taken)
        self._taken.add(candidate)
        return candidate


def _visit(
    node: Stmt,
    around: tuple[For, ...],
    inside: bool,
    within: Callable[[For], bool] | None,
    names: _Names,
) -> tuple[Stmt, list[_Sum]]:
    """Cuts the long sums of a statement into blocks. Returns the new statement, and its incomplete Reduces: enclosing
    loops add further terms to their sums. `around`: enclosing loops. `inside`: whether sums here may be cut, since
    `within` is None or true for an enclosing loop. `names`: the names in use.
    """
    match node:
        case Reduce(op="add", first=None, buffer=buffer) if inside and buffer.dtype.is_float:
            return node, [_Sum(node, (), 1)]
        case Seq(statements=statements):
            parts = [_visit(s, around, inside, within, names) for s in statements]
            same = all(new is old for (new, _), old in zip(parts, statements, strict=True))
            return node if same else seq(*[new for new, _ in parts]), [s for _, sums in parts for s in sums]
        case Alloc(buffer=buffer):
            body, sums = _visit(node.body, around, inside, within, names)
            kept = [s for s in sums if s.reduce.buffer.name != buffer.name]
            return node if body is node.body else replace(node, body=body), kept
        case For():
            now = inside or (within is not None and within(node))
            body, sums = _visit(node.body, (*around, node), now, within, names)
            loop = node if body is node.body else replace(node, body=body)
            if not sums or not inside:
                return loop, []
            most = interval(node.extent, loop_ranges(around)).high
            return _cut(loop, 1 if most is None else max(1, most), sums, names)
    return node, []


def _cut(loop: For, count: int, sums: Sequence[_Sum], names: _Names) -> tuple[Stmt, list[_Sum]]:
    """Cuts a loop of at most `count` iterations around `sums` into blocks if it adds too many terms. Returns the new
    loop, and those of its Reduces whose targets get further terms in enclosing loops.
    """
    outside = [
        replace(s, lanes=(loop, *s.lanes))
        if _target_depends_on(loop, s.reduce)
        else replace(s, terms=s.terms * count)
        for s in sums
    ]
    totals: dict[str, int] = {}
    for s in outside:
        totals[s.reduce.buffer.name] = totals.get(s.reduce.buffer.name, 0) + s.terms
    if max(totals.values()) <= LONGEST or not _may_be_cut(loop, sums):
        return loop, outside
    size = max(1, BLOCK_TERMS * count // max(totals.values()))
    blocks = -(-count // size)
    if size == 1:
        block, inner = loop.var, loop.body
    else:
        block = Var(names.unused(f"{loop.name}.block"))
        rest = Const(size) if count % size == 0 else minimum(size, count - block * size)
        body = substitute(loop.body, {loop.name: block * size + loop.var})
        inner = For(var=loop.var, extent=rest, body=body, kind=loop.kind)
    partials = {s.reduce.name: _partial(s, names) for s in sums}
    starts = [_start(s, partials[s.reduce.name], names) for s in sums]
    joins = [_join(s, partials[s.reduce.name], names) for s in sums]
    body = seq(*starts, _retargeted(inner, sums, partials), *[statement for statement, _ in joins])
    for partial in partials.values():
        body = Alloc(buffer=partial, body=body)
    outer = For(var=block, extent=Const(blocks), body=body)
    return _cut(outer, blocks, [s for _, s in joins], names)


def _may_be_cut(loop: For, sums: Sequence[_Sum]) -> bool:
    """Whether a serial or unrolled loop of constant extent only adds to the targets of `sums`, without reading them."""
    if not isinstance(loop.extent, Const) or loop.kind not in ("serial", "unroll"):
        return False
    inside = list(walk(loop.body))
    known, targets = {s.reduce.name for s in sums}, {s.reduce.buffer.name for s in sums}
    local = {s.buffer.name for s in inside if isinstance(s, Alloc)}
    return (
        len(known) == len(sums)
        and all(not _target_depends_on(loop, s.reduce) for s in sums)
        and all(s.shape is not None and prod(s.shape) <= REGISTERS for s in sums)
        and all(isinstance(s, For | Seq | Alloc | Assign | Reduce) for s in inside)
        and all(s.buffer.name in local or s.name in known for s in inside if isinstance(s, Assign | Reduce))
        and not any(
            load.buffer.name in targets for s in inside for e in expressions(s) for load in loads_in(e)
        )
    )


def _target_depends_on(loop: For, reduce: Reduce) -> bool:
    """Whether the indices of the element that a Reduce adds to depend on the variable of `loop`."""
    return any(loop.name in free_vars(i) for i in reduce.indices)


def _partial(s: _Sum, names: _Names) -> Buffer:
    """The buffer for a block's partial sums: one element for each iteration of the sum's `lanes` (the loops on which
    its target's indices depend).
    """
    assert s.shape is not None
    name = names.unused(f"{s.reduce.buffer.name}.block")
    return Buffer(name=name, shape=s.shape or (1,), dtype=s.reduce.buffer.dtype, scope="register")


def _place(lanes: Sequence[For]) -> tuple[Expr, ...]:
    """The indices of the current partial sum in the buffer of `_partial`: the variables of `lanes` (the loops on which
    the sum's target depends).
    """
    return tuple([n.var for n in lanes]) or (Const(0),)


def _lanes(s: _Sum, suffix: str, names: _Names) -> tuple[For, ...]:
    """Copies, with new names, of a sum's `lanes` (the loops on which its target's indices depend)."""
    return tuple([replace(n, var=Var(names.unused(f"{n.name}.{suffix}"))) for n in s.lanes])


def _around(lanes: Sequence[For], body: Stmt) -> Stmt:
    for n in reversed(lanes):
        body = replace(n, body=body)
    return body


def _start(s: _Sum, partial: Buffer, names: _Names) -> Stmt:
    """The statement that sets a block's partial sums to zero."""
    lanes = _lanes(s, "zero", names)
    zero = Const(0.0, partial.dtype)
    name = names.unused(f"{s.reduce.name}.zero")
    return _around(lanes, Assign.to(name, partial[_place(lanes)], zero))


def _join(s: _Sum, partial: Buffer, names: _Names) -> tuple[Stmt, _Sum]:
    """The statement that adds a block's partial sums to the original target; and the description (`_Sum`) of this
    addition, since it may be cut into blocks again.
    """
    lanes = _lanes(s, "join", names)
    renamed: dict[str, Expr] = {old.name: new.var for old, new in zip(s.lanes, lanes, strict=True)}
    reduce = Reduce.into(
        names.unused(f"{s.reduce.name}.join"),
        "add",
        s.reduce.buffer[tuple([substitute_expr(i, renamed) for i in s.reduce.indices])],
        Load(partial, _place(lanes)),
    )
    return _around(lanes, reduce), _Sum(reduce, lanes, 1)


def _retargeted(node: Stmt, long: Sequence[_Sum], partials: dict[str, Buffer]) -> Stmt:
    """The statement with the sums `long` redirected to the buffers `partials`, by name of the Reduce."""
    lanes = {s.reduce.name: s.lanes for s in long}

    def visit(statement: Stmt) -> Stmt:
        if not isinstance(statement, Reduce) or statement.name not in partials:
            return statement
        place = _place(lanes[statement.name])
        return replace(statement, buffer=partials[statement.name], indices=place)

    return map_stmt(node, visit)

"""compute_at: moves a buffer's producers (the statements that write it) under a loop of its consumers, and shrinks the
producers and the buffer to the box (rectangle of elements) that one iteration of the loop reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ..ir.affine import linear_form
from ..ir.bounds import Interval, Ranges, form_interval, interval, loop_range, loop_ranges
from ..ir.expr import Buffer, Const, Expr, Var, maximum, minimum
from ..ir.regions import expr_bounds, operand_access, read_regions
from ..ir.simplify import simplify
from ..ir.stmt import (
    Alloc,
    Assign,
    Copy,
    For,
    Intrinsic,
    NamedStmt,
    Node,
    Program,
    Reduce,
    Region,
    Seq,
    Stmt,
    seq,
)
from ..ir.visit import free_vars, map_expressions, substitute_expr, walk
from .errors import LegalityError
from .legality import asynchronous, check_bounds, check_grid, touches, written
from .tree import locate, locate_alloc, locate_loop, minus, plus, rebase, rebuild, tidy

_ZERO, _ONE = Const(0), Const(1)


def compute_at(program: Program, name: str, loop: str) -> Program:
    """Moves `name` and all other statements that write the same buffer into the loop `loop` around the consumers.

    rewrite:
        alloc T[n]                         for i in range(n // 4):
        for a in range(n):                     alloc T[6]
            T[a] = f(a)                        for a in range(6):
        for i in range(n // 4):      ->            T[a] = f(i * 4 + a)
            for j in range(4):                 for j in range(4):
                C[i*4+j] = T[i*4+j+2]              C[i*4+j] = T[j + 2]

    The buffer shrinks to the box (rectangle of elements) that one iteration of `loop` reads (to its greatest size, if
    the size varies); element 0 of the buffer is then the box's first element. The producers' loops keep their names. A
    loop shrinks to the box if its variable alone is an index of the buffer. Elements that neighbouring iterations both
    read are computed twice. All statements that write the buffer move, in their order.

    Legal if the buffer is an allocation with all readers under `loop`. Its producers must be plain loop nests before
    `loop` that write nothing else and do not continue earlier sums (no Reduce without `first`). No statement between
    the producers and `loop` may overwrite their inputs.
    """
    statement = locate(program, name)[-1]
    buffer = _target(statement, program, name)
    path, at = locate_loop(program, loop)
    alloc_path = locate_alloc(program, buffer.name)
    if alloc_path is None:
        raise LegalityError(f"cannot move {name}: {buffer.name} is a parameter of the program", program, name)
    alloc = alloc_path[-1]
    if not any(node is alloc for node in path):
        reason = f"cannot move {name}: loop {loop} is outside the allocation of {buffer.name}"
        raise LegalityError(reason, program, loop)
    if (held := asynchronous(alloc)) is not None:
        raise LegalityError(f"cannot move {name}: {held}", program, name)
    producers = _producers(program, path, alloc, buffer, name, loop)
    ranges = loop_ranges(n for n in path if isinstance(n, For))
    needed = read_regions(at.body, {}, ranges, only=buffer.name).get(buffer)
    if needed is None:
        raise LegalityError(f"cannot move {name}: no statement in {loop} reads {buffer.name}", program, loop)

    nests = [_Nest.of(p, buffer, ranges, program) for p in producers]
    box = _Box.of(needed, ranges)
    for nest in nests:
        box = nest.widen(box, ranges)
    shape = tuple(
        [greatest_extent(e, ranges, size) for e, size in zip(box.extents, buffer.shape, strict=True)]
    )
    local = Buffer(name=buffer.name, shape=shape, dtype=buffer.dtype, scope=buffer.scope)
    moved = [nest.shrink(box, local, ranges) for nest in nests]
    body = Alloc(buffer=local, body=seq(*moved, rebase(at.body, buffer.name, local, box.starts)))
    new = For(var=at.var, extent=at.extent, body=body, kind=at.kind)
    moved_in = check_grid(rebuild(path, new, without=(alloc, *producers)))
    return check_bounds(moved_in, program, name, changed=new)


def _target(statement: Node, program: Program, name: str) -> Buffer:
    match statement:
        case Assign(buffer=buffer) | Reduce(buffer=buffer):
            return buffer
        case Copy(destination=destination):
            return destination.buffer
        case Intrinsic(operands=operands, declaration=declaration):
            outputs = [r.buffer for r, (_, w) in zip(operands, operand_access(declaration), strict=True) if w]
            if len(outputs) == 1:
                return outputs[0]
    raise LegalityError(f"cannot move {name}: it is not a statement that writes one buffer", program, name)


def _producers(
    program: Program, path: tuple[Node, ...], alloc: Node, buffer: Buffer, name: str, loop: str
) -> list[Stmt]:
    """The statements that write `buffer` in the allocation `alloc`, each in a sequence on `path` (the nodes down to
    `loop`) and before `loop`. Raises LegalityError, about the statement `name`, if one of them cannot be moved.
    """
    producers: list[Stmt] = []
    read: set[str] = set()
    inside = False
    for parent, child in pairwise(path):
        inside = inside or parent is alloc
        if not inside or not isinstance(parent, Seq):
            continue
        before = True
        for s in parent.statements:
            if s is child:
                before = False
                continue
            uses = touches(s)
            writes = {n for n, us in uses.items() if any(u.write for u in us)}
            if buffer.name not in uses:
                if clash := sorted(read & writes):
                    reason = (
                        f"cannot move {name}: {clash[0]}, which it reads, is overwritten on the way to {loop}"
                    )
                    raise LegalityError(reason, program, name)
                continue
            if not before or buffer.name not in writes:
                reason = (
                    f"cannot move {name}: {uses[buffer.name][0].by.name} uses {buffer.name} outside {loop}"
                )
                raise LegalityError(reason, program, loop)
            if len(writes) > 1:
                other = sorted(writes - {buffer.name})[0]
                raise LegalityError(f"cannot move {name}: its loops also write {other}", program, name)
            producers.append(s)
            read |= uses.keys() - {buffer.name}
    under = written(path[-1])
    if buffer.name in under or not producers:
        reason = f"cannot move {name}: {buffer.name} is already computed inside loop {loop}"
        raise LegalityError(reason, program, loop)
    if clash := sorted(read & under):
        reason = f"cannot move {name}: {clash[0]}, which it reads, is overwritten in {loop}"
        raise LegalityError(reason, program, name)
    return producers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    """The box (rectangle) of a buffer that one loop iteration reads: first element and size in each dimension."""

    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]

    @staticmethod
    def of(needed: Region, ranges: Ranges) -> _Box:
        """The box (rectangle) around a region, clipped to the buffer if it might exceed the buffer (guarded reads)."""
        starts: list[Expr] = []
        extents: list[Expr] = []
        for start, extent, size in zip(needed.starts, needed.extents, needed.buffer.shape, strict=True):
            if not lies_inside(start, extent, _ZERO, Const(size), ranges):
                end = minimum(plus(start, extent), size)
                start = simplify(maximum(start, 0), ranges)
                extent = simplify(minus(end, start), ranges)
            starts.append(start)
            extents.append(extent)
        return _Box(starts=tuple(starts), extents=tuple(extents))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    """A producer: its `loops` (outermost first), statement `leaf`, and the box (rectangle of elements) that it writes.

    `variables[d]`: the loop whose variable is the index of dimension d, or None. `boxed[d]`: whether the statement
    copies several elements along dimension d from the same index in every iteration. A dimension cannot shrink if it
    has no variable and is not boxed. `starts`, `extents`: first index and extent, in each dimension, of the box that
    all iterations of the nest together write.
    """

    loops: tuple[For, ...]
    leaf: NamedStmt
    indices: tuple[Expr, ...]
    variables: tuple[str | None, ...]
    boxed: tuple[bool, ...]
    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]

    @staticmethod
    def of(producer: Stmt, buffer: Buffer, ranges: Ranges, program: Program) -> _Nest:
        chain: list[For] = []
        node = producer
        while isinstance(node, For):
            chain.append(node)
            node = node.body
        match node:
            case Assign(indices=indices):
                sizes: tuple[Expr, ...] = (_ONE,) * len(indices)
            case Reduce(indices=indices, first=first):
                if first is None:
                    reason = f"cannot move {node.name}: repeated, it would add to earlier contents twice"
                    raise LegalityError(reason, program, node.name)
                sizes = (_ONE,) * len(indices)
            case Copy(destination=destination):
                indices, sizes = destination.starts, destination.extents
            case Intrinsic(operands=operands):
                region = next(r for r in operands if r.buffer.name == buffer.name)
                indices, sizes = region.starts, region.extents
            case _:
                inner = next((s.name for s in walk(node) if isinstance(s, NamedStmt)), "")
                reason = f"cannot move {inner}: its loops hold more than one statement"
                raise LegalityError(reason, program, inner)
        over = loop_ranges(chain)
        extents = {loop.name: loop.extent for loop in chain}
        forms = [linear_form(i) for i in indices]
        users: dict[str, int] = {}
        for i in indices:
            for v in free_vars(i) & over.keys():
                users[v] = users.get(v, 0) + 1
        variables: list[str | None] = []
        boxed: list[bool] = []
        starts: list[Expr] = []
        spans: list[Expr] = []
        for form, index, size in zip(forms, indices, sizes, strict=True):
            own = free_vars(index) & over.keys()
            single = next(iter(own)) if len(own) == 1 and size == _ONE else None
            if single is not None and form.terms.get(Var(single)) == 1 and users[single] == 1:
                variables.append(single)
                boxed.append(False)
                starts.append(minus(index, Var(single)))
                spans.append(extents[single])
                continue
            variables.append(None)
            boxed.append(not own and isinstance(node, Copy) and size != _ONE)
            if not own:
                starts.append(index)
                spans.append(size)
                continue
            low, high = expr_bounds(index, over, ranges), expr_bounds(plus(index, size), over, ranges)
            if low is None or high is None:
                reason = f"cannot move {node.name}: it is unknown where it writes {buffer.name}"
                raise LegalityError(reason, program, node.name)
            starts.append(low[0])
            spans.append(minus(high[1], low[0]))
        return _Nest(
            loops=tuple(chain),
            leaf=node,
            indices=indices,
            variables=tuple(variables),
            boxed=tuple(boxed),
            starts=tuple(starts),
            extents=tuple(spans),
        )

    def widen(self, box: _Box, ranges: Ranges) -> _Box:
        """Enlarges `box`: each dimension that this nest cannot write in part gets all elements that the nest writes."""
        starts, extents = list(box.starts), list(box.extents)
        for d, (variable, cut) in enumerate(zip(self.variables, self.boxed, strict=True)):
            if variable is not None or cut:
                continue
            start, extent = self.starts[d], self.extents[d]
            if extent == _ONE and extents[d] == _ONE and lies_inside(starts[d], _ONE, start, _ONE, ranges):
                starts[d] = start
                continue
            if lies_inside(start, extent, starts[d], extents[d], ranges):
                continue
            low = simplify(minimum(starts[d], start), ranges)
            high = simplify(maximum(plus(starts[d], extents[d]), plus(start, extent)), ranges)
            starts[d], extents[d] = low, simplify(minus(high, low), ranges)
        return _Box(starts=tuple(starts), extents=tuple(extents))

    def shrink(self, box: _Box, local: Buffer, ranges: Ranges) -> Stmt:
        """A copy of the nest for the elements in `box` only; it writes these to buffer `local`, from index 0 on."""
        values: dict[str, Expr] = {}
        inner = {**ranges}
        headers: list[For] = []
        dimension = {v: d for d, v in enumerate(self.variables) if v is not None}
        for loop in self.loops:
            extent = substitute_expr(loop.extent, values) if values else loop.extent
            if loop.name in dimension:
                d = dimension[loop.name]
                start, extent = intersect(box.starts[d], box.extents[d], self.starts[d], extent, inner)
                values[loop.name] = plus(loop.var, minus(start, self.starts[d]))
                if values[loop.name] == loop.var:
                    del values[loop.name]
            headers.append(For(var=loop.var, extent=extent, body=loop.body, kind=loop.kind))
            inner[loop.name] = loop_range(extent)
        leaf: Stmt = self.leaf
        if any(self.boxed):
            assert isinstance(leaf, Copy)
            leaf = self._cut_copy(leaf, box, inner)
        if values:
            leaf = tidy(map_expressions(leaf, lambda e: substitute_expr(e, values)))
        node = rebase(leaf, local.name, local, box.starts)
        for loop in reversed(headers):
            node = For(var=loop.var, extent=loop.extent, body=node, kind=loop.kind)
        return node

    def _cut_copy(self, copy: Copy, box: _Box, ranges: Ranges) -> Copy:
        to, of = copy.destination, copy.source
        starts, extents = list(to.starts), list(to.extents)
        source_starts, source_extents = list(of.starts), list(of.extents)
        partners = [d for d, e in enumerate(of.extents) if e != _ONE]
        for d, partner in zip([d for d, e in enumerate(to.extents) if e != _ONE], partners, strict=True):
            if not self.boxed[d]:
                continue
            start, extent = intersect(box.starts[d], box.extents[d], starts[d], extents[d], ranges)
            source_starts[partner] = plus(source_starts[partner], minus(start, starts[d]))
            source_extents[partner] = extent
            starts[d], extents[d] = start, extent
        return Copy(
            name=copy.name,
            destination=Region(buffer=to.buffer, starts=tuple(starts), extents=tuple(extents)),
            source=Region(buffer=of.buffer, starts=tuple(source_starts), extents=tuple(source_extents)),
            pad=copy.pad,
            asynchronous=copy.asynchronous,
        )


def intersect(start: Expr, extent: Expr, first: Expr, count: Expr, ranges: Ranges) -> tuple[Expr, Expr]:
    """The part of [start, start + extent) within [first, first + count), as start and extent."""
    if lies_inside(start, extent, first, count, ranges):
        return start, extent
    low = simplify(maximum(start, first), ranges)
    high = minimum(plus(start, extent), plus(first, count))
    return low, simplify(minus(high, low), ranges)


def lies_inside(start: Expr, extent: Expr, first: Expr, count: Expr, ranges: Ranges) -> bool:
    """Whether [start, start + extent) is provably within [first, first + count)."""
    if start == first and extent == count:
        return True
    a, b = linear_form(start), linear_form(first)
    low = form_interval(a.plus(b, -1), ranges).low
    if low is None or low < 0:
        return False
    gap = b.plus(linear_form(count)).plus(a, -1).plus(linear_form(extent), -1)
    room = form_interval(gap, ranges).low
    return room is not None and room >= 0


def greatest_extent(extent: Expr, ranges: Ranges, size: int) -> int:
    """The greatest value of an extent: at least 1 and at most `size`, the whole dimension."""
    held: Interval = interval(extent, ranges)
    return max(1, size if held.high is None else min(held.high, size))

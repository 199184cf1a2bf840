"""reverse_compute_at: moves a consumer under a loop of its producers, to compute on the results of each iteration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..ir.bounds import Ranges, loop_range, loop_ranges
from ..ir.expr import Buffer, Const, Expr, Var
from ..ir.expression_printer import format_expr
from ..ir.regions import box_of, expr_bounds, hull, read_regions, region_of, write_regions
from ..ir.stmt import Alloc, Assign, For, NamedStmt, Program, Reduce, Region, Seq, Stmt, seq
from ..ir.visit import free_vars, map_expressions, substitute_expr
from .compute_at import greatest_extent, intersect, lies_inside
from .coverage import fills_box
from .errors import LegalityError
from .legality import Touch, asynchronous, check_bounds, check_grid, distinct_loops, single, touches
from .tree import locate, locate_loop, loops_around, minus, plus, rebase, rebuild, tidy

_ONE = Const(1)


def reverse_compute_at(program: Program, name: str, loop: str) -> Program:
    """Moves the statement `name` to the end of each iteration of `loop`, for the elements that the iteration produces.

    rewrite:
        alloc T[n]                               for i in range(n // 4):
        for i in range(n // 4):                      alloc T[4]
            for j in range(4):                       for j in range(4):
                T[i * 4 + j] = f(i, j)     ->            T[j] = f(i, j)
        for a in range(n):                           for a in range(4):
            C[a] = g(T[a])                               C[i * 4 + a] = g(T[a])

    The consumer's loops keep their names. A loop of the consumer shrinks if its variable alone is an index of the
    buffer that the consumer reads: it shrinks to the box (rectangle of elements) that one iteration of `loop` writes.
    If nothing else uses the buffer, its allocation moves too and shrinks, unless the producer reads the buffer or the
    allocation is outside a loop around both.

    Legal under these conditions. The consumer is one loop nest around one Assign or Reduce, after the nest that
    contains `loop`. Each iteration of `loop` (and of the loops around it in that nest) writes a box of its own,
    completely and for the last time. The boxes together contain all elements that the consumer reads, and all its reads
    have the same index. The consumer does not sum over loops that shrink. No statement between the nest and the
    consumer writes a buffer that the consumer reads, or touches a buffer that the consumer writes.
    """
    statement = locate(program, name)[-1]
    path, at = locate_loop(program, loop)
    parent, nest, consumer = _consumer(program, path, statement, name, loop)
    if (held := asynchronous(parent)) is not None:
        raise LegalityError(f"cannot move {name}: {held}", program, name)
    chain, leaf = _chain(program, consumer, name)
    outer = loop_ranges(n for n in path[: path.index(nest)] if isinstance(n, For))
    ranges = loop_ranges(n for n in path if isinstance(n, For))
    intermediates = _intermediate_buffers(program, parent, nest, consumer, name)
    own = [n for n in path[path.index(nest) :] if isinstance(n, For)]
    wanted = {n: uses for n, uses in touches(consumer).items() if n in intermediates}
    shrunken: dict[str, tuple[Expr, Expr]] = {}
    for buffer, uses in wanted.items():
        box = _box(program, nest, at, own, buffer, outer, ranges, name)
        limits = _limits(program, uses, box, chain, outer, ranges, name)
        if any(v in shrunken and shrunken[v] != limit for v, limit in limits.items()):
            buffers = " and ".join(sorted(wanted))
            reason = f"cannot move {name}: an iteration of {loop} writes unequal ranges of {buffers}; make them equal"
            raise LegalityError(reason, program, name)
        shrunken |= limits
    over = {**outer, **loop_ranges(chain)}
    for buffer, uses in touches(consumer).items():
        if any(u.write for u in uses):
            apart = distinct_loops(uses, over, {n.name for n in chain})
            if rest := sorted(shrunken.keys() - apart):
                reason = f"cannot move {name}: different iterations of {rest[0]} touch the same elements of {buffer}"
                raise LegalityError(reason, program, rest[0])
    moved = _shrink(chain, leaf, shrunken, ranges)
    new = For(var=at.var, extent=at.extent, body=seq(at.body, moved), kind=at.kind)
    result = rebuild(path, new, without=(consumer,))
    for buffer in sorted(wanted):
        result = _localize(result, buffer, at, {n.name for n in own})
    return check_bounds(check_grid(result), program, name)


def _consumer(
    program: Program, path: Sequence[object], statement: object, name: str, loop: str
) -> tuple[Seq, Stmt, Stmt]:
    """Returns a sequence of statements, the loop nest in the sequence that contains `loop`, and a later nest in the
    sequence around the consumer `statement`. `path`: the nodes from the program to `loop`. Raises LegalityError, about
    the consumer's `name`, if no sequence contains both nests.
    """
    for parent, child in pairwise(path):
        if not isinstance(parent, Seq):
            continue
        behind = False
        for s in parent.statements:
            if s is child:
                behind = True
            elif _leaf(s) is statement and behind:
                return parent, child, s  # type: ignore[return-value]
    reason = f"cannot move {name}: it is not in a loop nest of its own after the nest of {loop}"
    raise LegalityError(reason, program, name)


def _leaf(node: Stmt) -> Stmt:
    while isinstance(node, For):
        node = node.body
    return node


def _chain(program: Program, consumer: Stmt, name: str) -> tuple[list[For], Assign | Reduce]:
    chain: list[For] = []
    node = consumer
    while isinstance(node, For):
        chain.append(node)
        node = node.body
    if not isinstance(node, Assign | Reduce):
        reason = (
            f"cannot move {name}: it is neither an assignment nor a sum (expand_copy turns a copy into one)"
        )
        raise LegalityError(reason, program, name)
    return chain, node


def _intermediate_buffers(program: Program, parent: Seq, nest: Stmt, consumer: Stmt, name: str) -> set[str]:
    """The buffers that the producer `nest` writes and the `consumer` touches; both are statements of `parent`. Raises
    LegalityError, which names the consumer `name`, if there is none, or if the consumer may not move past a statement
    in between.
    """
    mine = touches(consumer)
    writes = {n for n, uses in mine.items() if any(u.write for u in uses)}
    start = next(i for i, s in enumerate(parent.statements) if s is nest)
    end = next(i for i, s in enumerate(parent.statements) if s is consumer)
    buffers: set[str] = set()
    for s in parent.statements[start:end]:
        theirs = touches(s)
        written = {n for n, uses in theirs.items() if any(u.write for u in uses)}
        if clash := sorted(writes & theirs.keys()):
            who = theirs[clash[0]][0].by.name
            raise LegalityError(
                f"cannot move {name}: {who} must use {clash[0]} before {name} writes it", program, who
            )
        if s is nest:
            buffers = written & mine.keys()
        elif clash := sorted(written & mine.keys()):
            who = theirs[clash[0]][0].by.name
            raise LegalityError(
                f"cannot move {name}: {who} must write {clash[0]} before {name} reads it; move {who} first",
                program,
                who,
            )
    if not buffers:
        reason = f"cannot move {name}: the loop nest into which it would move computes nothing that it reads"
        raise LegalityError(reason, program, name)
    return buffers


def _box(
    program: Program,
    nest: Stmt,
    at: For,
    own: list[For],
    name: str,
    outer: Ranges,
    ranges: Ranges,
    mover: str,
) -> tuple[Region, Region]:
    """Returns two boxes (rectangles of elements) of buffer `name`: the box that one iteration of loop `at` writes, and
    the box that all of `nest` writes. `own`: the loops of the nest down to `at`; `outer`: ranges of the loops around
    the nest; `ranges`: ranges of the loops around the nest and of the loops `own`; `mover`: the statement that the
    caller wants to move, for messages.

    Raises LegalityError unless the iteration provably writes every element of the first box, and the nest provably
    writes every element of the second box.
    """
    where = f"cannot move {mover}: "
    under, everywhere = touches(at.body).get(name, []), touches(nest)[name]
    writes = [u for u in under if u.write]
    if len(writes) < sum(u.write for u in everywhere):
        other = next(u for u in everywhere if u.write and not any(u.by is w.by for w in writes))
        reason = f"{where}{other.by.name} writes {name} outside {at.name}"
        raise LegalityError(reason, program, other.by.name)
    inner = [loop for u in writes for loop in loops_around(at.body, u.by)]
    varying = {loop.name for loop in (*own, *inner)}
    apart = distinct_loops(writes, {**ranges, **loop_ranges(inner)}, varying)
    if missing := [loop.name for loop in own if not single(loop) and loop.name not in apart]:
        reason = f"{where}{name} is not complete before the last iteration of {missing[0]}"
        raise LegalityError(reason, program, missing[0])
    box = _region(write_regions(at.body, {}, ranges), name)
    whole = _region(write_regions(nest, {}, outer), name)
    for u in writes:
        around = loops_around(at.body, u.by)
        if fills_box(u.starts, u.extents, box.extents, around, ranges) and fills_box(
            u.starts, u.extents, whole.extents, (*own, *around), outer
        ):
            return box, whole
    who = writes[0].by.name
    reason = f"{where}{who} must write a whole rectangle of {name} in each iteration of {at.name}, but may write less"
    raise LegalityError(reason, program, who)


def _region(regions: dict[Buffer, Region], name: str) -> Region:
    return next(region for buffer, region in regions.items() if buffer.name == name)


def _limits(
    program: Program,
    uses: list[Touch],
    boxes: tuple[Region, Region],
    chain: list[For],
    outer: Ranges,
    ranges: Ranges,
    name: str,
) -> dict[str, tuple[Expr, Expr]]:
    """For each loop of the consumer `name` that must shrink: the first iteration and the number of iterations that read
    the box (rectangle of elements) written by one iteration of the producer's loop. Raises LegalityError if this is
    not possible.

    `uses`: the consumer's accesses to the buffer; `boxes`: the results of `_box`, which takes the same `outer` and
    `ranges`; `chain`: the consumer's loops.
    """
    box, whole = boxes
    index = uses[0].starts
    buffer = box.buffer.name
    if any(u.starts != index or any(e != 1 for e in u.extents) for u in uses):
        reason = f"cannot move {name}: it must read single elements of {buffer}, all with the same indices"
        raise LegalityError(reason, program, name)
    over = loop_ranges(chain)
    limits: dict[str, tuple[Expr, Expr]] = {}
    for d, e in enumerate(index):
        bounds = expr_bounds(e, over, outer)
        if bounds is None:
            raise LegalityError(
                f"cannot move {name}: the elements of {buffer} that {name} reads are unknown", program, name
            )
        low, count = bounds[0], plus(minus(bounds[1], bounds[0]), _ONE)
        if not lies_inside(low, count, whole.starts[d], whole.extents[d], outer):
            reason = (
                f"cannot move {name}: it may read elements of {buffer} that the producing loops do not write"
            )
            raise LegalityError(reason, program, name)
        if lies_inside(low, count, box.starts[d], box.extents[d], ranges):
            continue
        variables = free_vars(e) & over.keys()
        alone = next(iter(variables)) if len(variables) == 1 else None
        elsewhere = set().union(*(free_vars(x) for i, x in enumerate(index) if i != d))
        rest = e if alone is None else minus(e, Var(alone))
        if alone is None or free_vars(rest) & over.keys() or alone in elsewhere:
            which = f"index {d} of {buffer}, `{format_expr(e)}`,"
            reason = f"cannot move {name}: {which} must be one loop variable (plus constants) that no other index has"
            raise LegalityError(reason, program, name)
        limits[alone] = minus(box.starts[d], rest), box.extents[d]
    return limits


def _shrink(
    chain: Sequence[For], leaf: NamedStmt, limits: dict[str, tuple[Expr, Expr]], ranges: Ranges
) -> Stmt:
    values: dict[str, Expr] = {}
    inner = {**ranges}
    headers: list[For] = []
    for n in chain:
        extent = substitute_expr(n.extent, values)
        if n.name in limits:
            start, extent = intersect(*limits[n.name], Const(0), extent, inner)
            values[n.name] = plus(n.var, start)
        headers.append(For(var=n.var, extent=extent, body=n.body, kind=n.kind))
        inner[n.name] = loop_range(extent)
    node: Stmt = tidy(map_expressions(leaf, lambda e: substitute_expr(e, values))) if values else leaf
    for n in reversed(headers):
        node = For(var=n.var, extent=n.extent, body=node, kind=n.kind)
    return node


def _localize(program: Program, name: str, before: For, own: set[str]) -> Program:
    """Moves the allocation of buffer `name` into the producer's loop `before`, and shrinks the buffer to the box
    (rectangle of elements) that one iteration uses. Returns `program` itself if `name` is a parameter, if the producer
    reads the buffer, if statements outside of this loop use the buffer, or if a loop inside the allocation is around
    both producer and consumer.

    `own`: names of `before` and of the loops around `before` that are not also around the consumer."""
    path, at = locate_loop(program, before.name)
    alloc = next((n for n in path if isinstance(n, Alloc) and n.buffer.name == name), None)
    if alloc is None or any(not u.write for u in touches(before.body).get(name, [])):
        return program
    # In a loop around both nests, the consumer could still read elements of an earlier iteration.
    if any(isinstance(n, For) and n.name not in own for n in path[path.index(alloc) :]):
        return program
    if len(touches(alloc.body)[name]) > len(touches(at.body)[name]):
        return program
    ranges = loop_ranges(n for n in path if isinstance(n, For))
    old = alloc.buffer
    written = box_of(_region(write_regions(at.body, {}, ranges), name))
    read = box_of(_region(read_regions(at.body, {}, ranges), name))
    box = region_of(old, hull(written, read, ranges), ranges)
    shape = tuple([greatest_extent(e, ranges, size) for e, size in zip(box.extents, old.shape, strict=True)])
    local = Buffer(name=name, shape=shape, dtype=old.dtype, scope=old.scope)
    body = Alloc(buffer=local, body=rebase(at.body, name, local, box.starts))
    new = For(var=at.var, extent=at.extent, body=body, kind=at.kind)
    return rebuild(path, new, without=(alloc,))

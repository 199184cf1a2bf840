"""pipeline: issues the copies at the head of a loop's body several iterations ahead, to overlap them with
computation.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from functools import partial
from itertools import takewhile

from ..ir.bounds import interval, loop_range, loop_ranges, provably_at_least
from ..ir.expr import Buffer, Expr, Var, minimum
from ..ir.simplify import simplify
from ..ir.stmt import Alloc, Commit, Copy, For, Program, Seq, Stmt, Wait, nest, seq
from ..ir.visit import substitute, walk
from ..passes.interleave_virtual_threads import in_slot
from .errors import LegalityError
from .legality import check_grid, touches, written
from .tree import locate_loop, names_in, rebuild


def pipeline(program: Program, loop: str, stages: int, ahead: int | None = None) -> Program:
    """Turns the copies at the head of a loop's body into asynchronous ones, `ahead` iterations before their use.

    rewrite (pipeline("k", 2)):
        for k in range(n):                           alloc S: [2, 4]
            alloc S: [4]                             for k.ahead in range(1):
            load: copy S[0:4] = A[k, 0:4]                load.ahead: copy S[k.ahead, 0:4] = A[k.ahead, 0:4] async
            body(S)                                      commit
                                                     for k in range(n):
                                             ->          wait 0
                                                         for k.next in range(min(1, n - k - 1)):
                                                             load: copy S[(k + k.next + 1) % 2, 0:4] =
                                                                 A[k + k.next + 1, 0:4] async
                                                         commit
                                                         body(S[k % 2])
                                                     wait 0
    The buffers that these copies fill get `stages` slots, used in turn, and move outside the loop; `k.next` has one
    iteration if a later iteration needs the copies, else none. Every iteration commits one group of copies, so that at
    the wait of iteration k, the group with this iteration's data is the oldest of `ahead` (by default `stages` - 1)
    groups. Copies are issued after that wait, so that one barrier between threads serves two purposes: arrived data may
    be read, and data already read may be overwritten. With a smaller `ahead`, the slots of the last `stages` - 1 -
    `ahead` iterations are not overwritten: hardware may still be reading them. Copies may be inside loops, for example
    loops over threads that share a copy. The first copies, before the loop `loop`, are inside loops whose names end
    with ".ahead". Legal if the iterations run in order, the body begins with plain copies into buffers that the body
    allocates, and no other statement of the body writes these buffers or the copies' sources. Raises LegalityError for
    less than two stages, for `ahead` below 1 or above `stages` - 1, and if a new name is taken.
    """
    path, at = locate_loop(program, loop)
    where = f"cannot pipeline {loop}: "
    if stages < 2:
        raise LegalityError(f"{where}{stages} stages cannot overlap; at least 2 are needed", program, loop)
    distance = stages - 1 if ahead is None else ahead
    if not 1 <= distance < stages:
        reason = f"{where}copies {distance} iterations ahead do not fit {stages} stages; 1 to {stages - 1} do"
        raise LegalityError(reason, program, loop)
    if at.kind not in ("serial", "unroll"):
        raise LegalityError(f"{where}it is {at.kind}, and its iterations must run in order", program, loop)
    allocated, heads, rest = _heads(at.body)
    copies = [s for head in heads for s in walk(head) if isinstance(s, Copy)]
    if not copies:
        reason = f"{where}its body does not begin with copies into buffers that it allocates"
        raise LegalityError(reason, program, loop)
    slotted = {c.destination.buffer.name for c in copies}
    changed = written(at.body) | written(seq(*heads, *rest))
    for copy in copies:
        read = touches(copy).keys() - {copy.destination.buffer.name}
        if clash := sorted(read & changed):
            reason = f"{where}{clash[0]}, which {copy.name} reads, changes in {loop}"
            raise LegalityError(reason, program, copy.name)
    if clash := sorted(slotted & written(seq(*rest))):
        raise LegalityError(
            f"{where}{clash[0]} is also written by statements behind the copies into it", program, loop
        )
    before, following = Var(f"{loop}.ahead"), Var(f"{loop}.next")
    taken = names_in(program)
    own = [n.name for head in heads for n in walk(head) if isinstance(n, Copy | For)]
    for new in (before.name, following.name, f"{loop}.more", *(f"{name}.ahead" for name in own)):
        if new in taken:
            raise LegalityError(f"{where}the name {new} is taken", program, new)

    wide = [Buffer(name=b.name, shape=(stages, *b.shape), dtype=b.dtype, scope=b.scope) for b in allocated]
    wide = [b for b in wide if b.name in slotted]
    ranges = loop_ranges(n for n in path[:-1] if isinstance(n, For))

    def issue(iteration: Expr, slot: Expr, suffix: str) -> Stmt:
        issued: list[Stmt] = []
        for head in heads:
            moved = substitute(_asynchronous(head, suffix), {loop: iteration})
            for buffer in wide:
                moved = in_slot(moved, buffer, slot)
            issued.append(moved)
        return seq(*issued)

    if provably_at_least(at.extent, distance, ranges):
        first = issue(before, before, ".ahead")
    else:
        # The loop may have fewer iterations than `ahead`: groups of missing iterations are empty.
        more = Var(f"{loop}.more")
        exists = simplify(minimum(1, at.extent - before), ranges)
        first = nest([(more, exists)], issue(before + more, before, ".ahead"))
    prologue = nest([(before, distance)], seq(first, Commit()))
    to_come = simplify(minimum(1, at.extent - at.var - distance), ranges)
    later = at.var + following + distance
    most = interval(to_come, {**ranges, at.name: loop_range(at.extent)}).high
    none = most is not None and most <= 0
    issuing = seq() if none else nest([(following, to_come)], issue(later, later % stages, ""))
    using = seq(*rest)
    for buffer in wide:
        using = in_slot(using, buffer, at.var % stages)
    inner: Stmt = seq(Wait(pending=distance - 1), issuing, Commit(), using)
    for buffer in reversed([b for b in allocated if b.name not in slotted]):
        inner = Alloc(buffer=buffer, body=inner)
    new = seq(prologue, For(var=at.var, extent=at.extent, body=inner, kind=at.kind), Wait(pending=0))
    for buffer in reversed(wide):
        new = Alloc(buffer=buffer, body=new)
    return check_grid(rebuild(path, new))


def _heads(body: Stmt) -> tuple[list[Buffer], list[Stmt], tuple[Stmt, ...]]:
    """The buffers that a body allocates around all its statements, the copies into these buffers at the head of the
    body, and the other statements.

    An allocation after a copy at the head counts, too, if it encloses all statements that follow.
    """
    allocated: list[Buffer] = []
    heads: list[Stmt] = []
    while True:
        while isinstance(body, Alloc):
            allocated.append(body.buffer)
            body = body.body
        statements = body.statements if isinstance(body, Seq) else (body,)
        copying = partial(_copies_into, {b.name for b in allocated})
        found = list(takewhile(copying, statements))
        heads += found
        rest = statements[len(found) :]
        if len(rest) != 1 or not isinstance(rest[0], Alloc) or not found:
            return allocated, heads, rest
        body = rest[0]


def _copies_into(buffers: Set[str], statement: Stmt) -> bool:
    """Whether a statement is a plain copy into one of the buffers, or loops around such copies."""
    match statement:
        case Copy(destination=destination, asynchronous=False):
            return destination.buffer.name in buffers
        case For(body=body):
            return _copies_into(buffers, body)
        case Seq(statements=statements):
            return all(_copies_into(buffers, s) for s in statements)
    return False


def _asynchronous(head: Stmt, suffix: str) -> Stmt:
    """Makes copies in a statement asynchronous; `suffix` is added to the names of these copies and their loops."""
    match head:
        case Copy(name=name):
            return replace(head, name=f"{name}{suffix}", asynchronous=True)
        case For(var=var, extent=extent, body=body, kind=kind):
            new = Var(f"{var.name}{suffix}")
            inner = _asynchronous(body, suffix)
            inner = substitute(inner, {var.name: new}) if suffix else inner
            return For(var=new, extent=extent, body=inner, kind=kind)
        case Seq(statements=statements):
            return Seq(statements=tuple([_asynchronous(s, suffix) for s in statements]))
    raise TypeError(f"{type(head).__name__} is neither a copy nor a loop or sequence of copies")

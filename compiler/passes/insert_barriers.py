"""Insert barriers: threads of a block wait for one another where one may access another's elements.

    rewrite:  for t in range(64): S[t] = X[t]   (threads)        for t in range(64): S[t] = X[t]
              for u in range(64): Y[u] = S[63 - u]         ->    barrier
                                                                 for u in range(64): Y[u] = S[63 - u]

The pass visits the phases of a kernel (code that each thread runs by itself) in order, and compares each access since
the last barrier with each access of the next phase. If the two may touch one element in different threads, and one of
them writes, a barrier is inserted between them: in front of the phase, or in front of the loop around the phase if all
conflicting accesses are outside of this loop. A loop is visited again until no new access is carried from the end of an
iteration to the beginning of the next one. An asynchronous copy is checked twice: when it is issued, it must not
conflict with earlier accesses of other threads, and from the first wait after the issue on, it counts as a write. A
barrier for completed copies comes right after the wait, before more copies are issued, so that it also separates the
new copies from earlier accesses. Shared buffers that are not allocated one within the other may have the same
addresses, so a barrier comes between their uses. Barriers that the program already has stay, and count as if the pass
had inserted them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ..ir.bounds import interval, loop_ranges, provably_at_least
from ..ir.expr import Var
from ..ir.kernels import (
    THREAD_AXES,
    Access,
    Kernel,
    accesses,
    is_block_loop,
    is_thread_loop,
    kernel_at,
    phase_at,
    successive,
    threads_of,
)
from ..ir.separation import meets_only_at
from ..ir.stmt import (
    Alloc,
    Assign,
    Barrier,
    Commit,
    Copy,
    For,
    Intrinsic,
    Program,
    Reduce,
    Seq,
    Stmt,
    Wait,
    seq,
)
from ..ir.visit import map_children, substitute_expr, walk


def insert_barriers(program: Program) -> Program:
    """`program`, in kernel form (all work inside loops over GPU blocks), with the barriers that its kernels need."""

    def visit(node: Stmt, host: tuple[For, ...]) -> Stmt:
        if isinstance(node, For):
            if is_block_loop(node):
                return _with_body(kernel_at(node, host), node)
            host = (*host, node)
        return map_children(node, lambda child: visit(child, host))

    return map_children(program, lambda body: visit(body, ()))


def _with_body(kernel: Kernel, node: Stmt) -> Stmt:
    if isinstance(node, For) and is_block_loop(node):
        return map_children(node, lambda body: _with_body(kernel, body))
    block = _Block(kernel)
    return block.statement(node, _State(), kernel.around)[0] if block.axes else node


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """An access of a thread, warp or block since the last barrier. `coordinates`: for each axis, the loop over threads
    that contains the access (None: a warp or block as a whole makes the access).

    `own`: names of the loops around the access that have begun a later iteration since the access. For these loops, it
    is unknown in which iteration the access happened.
    """

    access: Access
    coordinates: tuple[tuple[str, str | None], ...] | None
    own: frozenset[str] = frozenset()

    @property
    def key(self) -> object:
        a = self.access
        return a.buffer.name, a.starts, a.extents, a.write, a.loops, self.coordinates, self.own


@dataclass(slots=True)
class _State:
    """The accesses that were found so far, while the body of a loop is visited. `pending`: accesses since the last
    barrier. `flying`: accesses of asynchronous copies that were issued but not waited for. `head`: accesses before the
    first barrier. `closed`: whether there was a barrier.
    """

    pending: dict[object, _Use] = field(default_factory=dict)
    flying: dict[object, _Use] = field(default_factory=dict)
    head: dict[object, _Use] = field(default_factory=dict)
    closed: bool = False

    def barrier(self) -> None:
        self.pending, self.closed = {}, True

    def add(self, uses: Iterable[_Use]) -> None:
        """Adds accesses to the state: writes of asynchronous copies to `flying`, all other accesses to `pending`."""
        for use in uses:
            flies = use.access.asynchronous and use.access.write
            (self.flying if flies else self.pending)[use.key] = use
            if not self.closed:
                self.head[use.key] = use


class _Block:
    """Visits one kernel's body in program order and inserts barriers."""

    def __init__(self, kernel: Kernel) -> None:
        threads = threads_of(kernel)
        self.axes = [axis for axis in THREAD_AXES if threads[axis] > 1]
        self.successive = successive(kernel)

    def statement(self, node: Stmt, state: _State, around: tuple[For, ...]) -> tuple[Stmt, _State]:
        """The statement with its barriers, and the state after it; `state` is modified. `around`: enclosing loops."""
        match node:
            case For() if is_thread_loop(node):
                phase = phase_at(node)
                axes = {loop.kind: loop.name for loop in phase.threads}
                where = None if phase.collective else tuple([(axis, axes.get(axis)) for axis in self.axes])
                return self.uses(node, self.collect(node, around, where), state, around)
            case Copy():
                return self.uses(node, self.collect(node, around, None), state, around)
            case For():
                return self.loop(node, state, around)
            case Seq(statements=statements):
                done: list[Stmt] = []
                behind_wait: int | None = None
                issued: list[_Use] = []
                for inner in statements:
                    new, state = self.statement(inner, state, around)
                    early = behind_wait is not None and _begins_with_barrier(new, inner)
                    if early and not self.conflict(issued, self.collect(inner, around, None), around):
                        done[behind_wait:behind_wait] = [Barrier()]
                        state.add(issued)
                        new, behind_wait = inner, None
                    done.append(new)
                    if isinstance(inner, Wait):
                        behind_wait, issued = len(done), []
                    elif _only_issues(inner):
                        issued += self.collect(inner, around, None)
                    else:
                        behind_wait = None
                same = len(done) == len(statements) and all(map(operator.is_, done, statements))
                return node if same else seq(*done), state
            case Alloc(buffer=buffer, body=body):
                new, state = self.statement(body, state, around)
                return node if new is body else Alloc(buffer=buffer, body=new), state
            case Barrier():
                state.barrier()
            case Wait(pending=pending):
                for use in state.flying.values():
                    landed = replace(use, access=replace(use.access, asynchronous=False))
                    state.pending[landed.key] = landed
                if pending == 0:
                    state.flying = {}
        return node, state

    def collect(
        self, node: Stmt, around: tuple[For, ...], where: tuple[tuple[str, str | None], ...] | None
    ) -> list[_Use]:
        return [_Use(access=a, coordinates=where) for a in accesses(node, around)]

    def uses(
        self, node: Stmt, uses: list[_Use], state: _State, around: tuple[For, ...]
    ) -> tuple[Stmt, _State]:
        if self.conflict(state.pending.values(), uses, around):
            node = seq(Barrier(), node)
            state.barrier()
        state.add(uses)
        return node, state

    def loop(self, node: For, state: _State, around: tuple[For, ...]) -> tuple[Stmt, _State]:
        """A loop that all threads run together, with barriers inserted, and the state after it; `state` is modified.
        Accesses of an iteration are compared first with accesses of earlier iterations of the loop, then with accesses
        before the loop.
        """
        inside = (*around, node)
        most = interval(node.extent, loop_ranges(around)).high
        if most is not None and most <= 0:
            return node, state
        returning = _State()
        while True:
            start = _State(
                pending=dict(returning.pending), flying={**state.flying, **returning.flying}, head={}
            )
            before = set(start.pending), set(start.flying)
            body, end = self.statement(node.body, start, inside)
            again = _State(
                pending={u.key: u for u in self.carried(end.pending.values(), returning.pending, node)},
                flying={u.key: u for u in self.carried(end.flying.values(), None, node)},
            )
            again.pending.update(returning.pending)
            again.flying.update(returning.flying)
            if most == 1 or (set(again.pending) <= before[0] and set(again.flying) <= before[1]):
                break
            returning = again
        new: Stmt = node if body is node.body else replace(node, body=body)
        # Only the loop's own uses: conflicts with its earlier iterations are handled inside.
        _, first = self.statement(body, _State(), inside)
        if self.conflict(state.pending.values(), first.head.values(), around):
            new = seq(Barrier(), new)
            state.barrier()
        if not state.closed:
            state.head.update(first.head)
        sure = first.closed and provably_at_least(node.extent, 1, loop_ranges(around))
        if sure:
            state.barrier()
        state.pending.update(end.pending)
        state.flying.update(end.flying)
        return new, state

    def carried(self, uses: Iterable[_Use], before: dict[object, _Use] | None, loop: For) -> Iterable[_Use]:
        """Prepares the accesses `uses` of one iteration of `loop` for comparison with the next iteration: in their
        indices, i - 1 replaces the loop variable i. Accesses that are also in `before` (None: all accesses) may have
        happened in any earlier iteration. Their indices stay unchanged, and `loop` is added to their field `own`.
        """
        name = loop.name
        for use in uses:
            if before is None or use.key in before or name in use.own:
                yield replace(use, own=use.own | {name})
                continue
            last = {name: Var(name) - 1}
            a = use.access
            yield replace(
                use,
                access=replace(
                    a,
                    starts=tuple([substitute_expr(e, last) for e in a.starts]),
                    extents=tuple([substitute_expr(e, last) for e in a.extents]),
                ),
            )

    def conflict(self, earlier: Iterable[_Use], later: Iterable[_Use], around: tuple[For, ...]) -> bool:
        later = list(later)
        return any(self.conflicts(p, q, around) for p in earlier for q in later)

    def conflicts(self, p: _Use, q: _Use, around: tuple[For, ...]) -> bool:
        """Whether access `p` and the later access `q` may touch the same element in different threads while one of them
        writes. `around`: loops around `q`. If such a loop also contains `p` and is not in `p.own`, both accesses are in
        the same iteration of the loop.
        """
        if p.access.buffer.name != q.access.buffer.name:
            return (p.access.buffer.name, q.access.buffer.name) in self.successive
        if not (p.access.write or q.access.write):
            return False
        held = {loop.name for loop in p.access.loops} - p.own
        common = {loop.name for loop in around} & held
        coordinates: list[tuple[str | None, str | None]] = []
        if p.coordinates is not None and q.coordinates is not None:
            coordinates = [(a, b) for (_, a), (_, b) in zip(p.coordinates, q.coordinates, strict=True)]
        return not meets_only_at(p.access, q.access, coordinates, common)


def _begins_with_barrier(new: Stmt, old: Stmt) -> bool:
    """Whether the statement `new`, the result of the pass for `old`, is a barrier followed by `old`."""
    match new:
        case Seq(statements=(Barrier(), second)):
            return second is old
    return False


def _only_issues(node: Stmt) -> bool:
    """Whether a statement only issues asynchronous copies and closes groups of them."""
    work = [
        n for n in walk(node) if isinstance(n, Assign | Reduce | Copy | Intrinsic | Wait | Barrier | Commit)
    ]
    return all(isinstance(n, Commit) or (isinstance(n, Copy) and n.asynchronous) for n in work)

"""emulate: rewrites GPU kernels to an ordinary program for processors. A kernel with a missing barrier or wait then
computes wrong numbers, so tests notice it.

Loops over blocks become parallel loops. The work between two barriers runs thread by thread, out of order: if a barrier
is missing, a thread finds elements that other threads have not written yet, or have already overwritten. At its
allocation, memory of blocks and threads is filled with NaN (integers: a pattern). When an asynchronous copy is issued,
its destination becomes NaN, and the copied data goes to a shadow buffer, with the number of the copy's group and
thread. The wait for the copy moves the data to the destination.

    rewrite:  for k in n: A(k); barrier; B(k)    (all threads together)
              ->  for k in n + 1: for t in threads, out of order: if k > 0: B(t, k - 1); if k < n: A(t, k)

A shuffle reads registers of all threads along x, so it waits for these threads and for no others (`lane_exchanges`).
The work before the shuffle and the work after it are in separate loops over thread.x, inside the loops over thread.y
and thread.z. If single lanes also access a warp's sums, an operation of the warp on these sums is treated like a
shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...ir.bounds import Ranges, loop_range
from ...ir.expr import Buffer, Const, Expr, Var, binary, maximum, minimum
from ...ir.grid import distribution
from ...ir.kernels import (
    THREAD_AXES,
    Kernel,
    accesses,
    is_block_loop,
    is_thread_loop,
    kernel_at,
    phase_at,
    shared_between_threads,
    threads_of,
)
from ...ir.simplify import simplify
from ...ir.stmt import Alloc, Assign, Commit, Copy, For, Program, Seq, Stmt, Wait, nest, seq
from ...ir.verify import VerifyError, verify
from ...ir.visit import (
    map_children,
    map_expressions,
    substitute,
    substitute_expr,
    walk,
)
from ...passes.inline_intrinsics import inline_intrinsics
from .barrier_intervals import (
    BarrierInterval,
    Cut,
    Nested,
    Order,
    Piece,
    Rotated,
    mixed_order,
    reversed_order,
)
from .lane_exchanges import exchanges, held_by_lanes
from .shadows import Names, Shadows, fill, poison

_ZERO, _ONE = Const(0), Const(1)


def emulate(program: Program) -> Program:
    """Converts a GPU program with barriers, as `prepare` returns it, into a program for `codegen.cpu.kernel.build`.

    Threads usually run in the order `barrier_intervals.mixed_order`. With the guards of ragged tiles, the verifier may
    be unable to prove that the result's indices are legal. Then threads run in the order
    `barrier_intervals.reversed_order`, whose indices are affine.
    """
    program = inline_intrinsics(program)
    result = _in_order(program, mixed_order)
    try:
        verify(result)
    except VerifyError:
        return _in_order(program, reversed_order)
    return result


def _in_order(program: Program, order: Order) -> Program:
    names = Names()

    def visit(node: Stmt, host: tuple[For, ...]) -> Stmt:
        match node:
            case For() if is_block_loop(node):
                return _Block(kernel_at(node, host), names, order).run()
            case For():
                return replace(node, kind="serial", body=visit(node.body, (*host, node)))
            case Alloc(buffer=buffer):
                return Alloc(buffer=buffer, body=seq(fill(buffer, names), visit(node.body, host)))
        return map_children(node, lambda child: visit(child, host))

    # Bounds of ragged boxes are provable only if starts and extents have the same form.
    return _simplify_boxes(replace(program, body=visit(program.body, ())))


def _simplify_boxes(program: Program) -> Program:
    def visit(node: Stmt, ranges: Ranges) -> Stmt:
        match node:
            case Copy():
                return map_expressions(node, lambda e: simplify(e, ranges))
            case For(var=var, extent=extent):
                ranges = {**ranges, var.name: loop_range(extent)}
        return map_children(node, lambda child: visit(child, ranges))

    return map_children(program, lambda child: visit(child, {}))


class _Block:
    """Rewrites one kernel to statements that emulate it on a processor."""

    def __init__(self, kernel: Kernel, names: Names, order: Order) -> None:
        self.kernel = kernel
        self.names = names
        self.order = order
        self.threads = threads_of(kernel)
        self.axes = [axis for axis in reversed(THREAD_AXES) if self.threads[axis] > 1]
        self.allocated: list[Buffer] = []
        # Buffers of which each thread along x has registers of its own.
        self.of_lanes: set[str] = set()
        self.shadows = Shadows(kernel, names, self.threads, self.axes)

    def run(self) -> Stmt:
        """The kernel's loops over blocks, as parallel loops around the emulated body."""
        body = self.hoist(self.kernel.body, self.kernel.around)
        cut = Cut()
        cut.visit(body)
        steps = [self.piece(piece) for piece in cut.pieces]
        before = [fill(b, self.names) for b in self.allocated if shared_between_threads(b)]
        result = seq(*before, *self.shadows.clear(), *steps)
        for buffer in (*self.allocated, *self.shadows.buffers):
            result = Alloc(buffer=buffer, body=result)
        for loop in reversed(self.kernel.blocks):
            result = replace(loop, body=result, kind="parallel")
        return result

    # Moving allocations to the block's beginning

    def hoist(self, node: Stmt, around: tuple[For, ...]) -> Stmt:
        """Removes all allocations from the body `node`, and adds the allocated buffers to `self.allocated`. `around`:
        the loops around `node`.

        If each thread has its own copy of a buffer, a phase (code that each thread runs by itself) takes the place of
        the allocation. The phase fills the copies with poison (NaN or a pattern).
        """
        match node:
            case For() if is_thread_loop(node):
                return node
            case For():
                return replace(node, body=self.hoist(node.body, (*around, node)))
            case Alloc(buffer=buffer):
                # A stack slot has gaps, and there may be many threads.
                self.allocated.append(buffer)
                body = self.hoist(node.body, around)
                if shared_between_threads(buffer):
                    return body
                axes = distribution(node)
                if held_by_lanes(node):
                    self.of_lanes.add(buffer.name)
                return seq(self.undefined(buffer, axes), body)
            case _:
                return map_children(node, lambda child: self.hoist(child, around))

    def undefined(self, buffer: Buffer, axes: Sequence[str | None]) -> Stmt:
        """A phase (code that each thread runs by itself) in which each thread fills its part of `buffer` with poison
        (NaN or a pattern). `axes`: for each dimension of the buffer, the thread axis over which the dimension is
        distributed, or None.
        """
        loops: list[For] = []
        threads: list[For] = []
        indices: list[Expr] = []
        for d, (size, axis) in enumerate(zip(buffer.shape, axes, strict=True)):
            var = self.names.var(f"{buffer.name}.{d}")
            kind = axis if axis in THREAD_AXES else "serial"
            loop = For(var=var, extent=Const(size), body=Seq(statements=()), kind=kind)  # type: ignore[arg-type]
            (threads if axis else loops).append(loop)
            indices.append(var)
        if not threads:
            var = self.names.var(f"{buffer.name}.thread")
            threads.append(For(var=var, extent=_ONE, body=Seq(statements=()), kind="thread.x"))
        body: Stmt = Assign.to(f"{buffer.name}.undefined", buffer[tuple(indices)], poison(buffer.dtype))
        for loop in reversed([*threads, *loops]):
            body = replace(loop, body=body)
        return body

    # Translation of each kind of piece

    def piece(self, piece: Piece) -> Stmt:
        match piece:
            case BarrierInterval(items=items):
                return self.interval([(None, items)])
            case Nested(loop=loop, pieces=pieces):
                return replace(loop, body=seq(*(self.piece(p) for p in pieces)), kind="serial")
            case Rotated(loop=loop, before=before, parts=parts, behind=behind):
                return self.rotated(loop, before, parts, behind)

    def rotated(self, loop: For, before: list[Stmt], parts: list[list[Stmt]], behind: list[Stmt]) -> Stmt:
        step = self.names.var(loop.name)
        count = loop.extent
        last, now, on = (self.names.var(f"{loop.name}.{name}") for name in ("last", "now", "on"))
        tail = [substitute(s, {loop.name: step - _ONE - last}) for s in parts[-1]]
        head = [substitute(s, {loop.name: step + now}) for s in parts[0]]
        first = self.names.var(f"{loop.name}.first")
        end = self.names.var(f"{loop.name}.end")
        interval = self.interval(
            [
                ((first, maximum(0, 1 - step)), before),
                ((last, minimum(1, step)), tail),
                ((now, minimum(1, count - step)), head),
                ((end, maximum(0, step - count + 1)), behind),
            ]
        )
        middle = [
            self.interval([(None, [substitute(s, {loop.name: step + on}) for s in part])])
            for part in parts[1:-1]
        ]
        inside = [interval]
        if any(part for part in parts[1:-1]):
            inside.append(For(var=on, extent=minimum(1, count - step), body=seq(*middle)))
        return For(var=step, extent=binary("+", count, _ONE), body=seq(*inside))

    def interval(self, branches: Sequence[tuple[tuple[Var, Expr] | None, list[Stmt]]]) -> Stmt:
        """Loops in which all threads run one after the other, out of order. Each thread executes the items of every
        branch.

        A branch is (guard, items). The guard is None, or the (variable, extent) of a loop with at most one iteration.
        This loop is put around the items.
        """
        kept: list[tuple[tuple[Var, Expr] | None, list[Stmt]]] = []
        behind: list[Stmt] = []
        for position, (guard, items) in enumerate(branches):
            items, waits = self.split_waits(items, last=position >= len(branches) - 2)
            if items:
                kept.append((guard, items))
            if waits:
                sweep = seq(*(self.shadows.sweep(wait) for wait in waits))
                if guard is not None:
                    sweep = For(var=self.names.var(guard[0].name), extent=guard[1], body=sweep)
                behind.append(sweep)
        if len(kept) == 1 and len(kept[0][1]) == 1 and is_thread_loop(kept[0][1][0]):
            return seq(_guarded(kept[0][0], self.alone(kept[0][1][0])), *behind)
        if not kept:
            return seq(*behind)
        meet = any(exchanges(item, self.of_lanes) for _, items in kept for item in items)
        loops: list[tuple[Var, int]] = []
        places: dict[str, Expr] = {}
        for axis in self.axes:
            if meet and axis == "thread.x":
                continue
            var = self.names.var(axis)
            loops.append((var, self.threads[axis]))
            places[axis] = self.order(var, self.threads[axis])
        inside = self.lanes if meet else self.each
        body = seq(*(_guarded(guard, inside(items, places)) for guard, items in kept))
        return seq(nest(loops, body), *behind)

    def each(self, items: list[Stmt], places: Mapping[str, Expr]) -> Stmt:
        """The block-level statements `items`, as the thread with coordinates `places` executes them."""
        return seq(*(self.thread(item, places) for item in items))

    def lanes(self, items: list[Stmt], places: Mapping[str, Expr]) -> Stmt:
        """The block-level statements `items`, as they are executed by all threads along x that have the coordinates
        `places` along y and z.

        All these threads execute a shuffle together. Between two shuffles they run one after the other, out of order.
        """
        done: list[Stmt] = []
        alone: list[Stmt] = []

        def flush() -> None:
            if alone:
                var = self.names.var("thread.x")
                at = {**places, "thread.x": self.order(var, self.threads["thread.x"])}
                done.append(nest([(var, self.threads["thread.x"])], self.each(alone, at)))
                alone.clear()

        for item in items:
            if not exchanges(item, self.of_lanes):
                alone.append(item)
                continue
            flush()
            if isinstance(item, For) and is_thread_loop(item):
                done.append(self.thread(item, {**places, "thread.x": _ZERO}))
            elif isinstance(item, For):
                body = item.body.statements if isinstance(item.body, Seq) else (item.body,)
                done.append(replace(item, kind="serial", body=self.lanes(list(body), places)))
            else:
                done.append(map_children(item, lambda child: self.lanes([child], places)))
        flush()
        return seq(*done)

    def split_waits(self, items: list[Stmt], *, last: bool) -> tuple[list[Stmt], list[Wait]]:
        """Splits `items` into statements that each thread runs, and waits for asynchronous copies that run once, after
        all threads. If `last` is True, the waits after all threads are those that no commit and no access to a copied
        buffer follows. If `last` is False, there are none: each thread runs all waits.
        """
        waits: list[Wait] = []
        kept: list[Stmt] = []
        names = {b.name for b in self.shadows.late}
        for item in reversed(items):
            if isinstance(item, Wait) and last:
                waits.insert(0, item)
                continue
            touched = {a.buffer.name for a in accesses(item, ())}
            if (
                isinstance(item, Commit)
                or touched & names
                or any(isinstance(n, Commit | Wait) for n in walk(item))
            ):
                last = False
            kept.insert(0, item)
        return kept, waits

    def alone(self, node: Stmt) -> Stmt:
        """Emulates a phase (code that each thread runs by itself) that is the only work between two barriers: the
        phase's loops over threads run in reverse order.
        """
        assert isinstance(node, For)
        phase = phase_at(node)
        values: dict[str, Expr] = {}
        around: list[tuple[Var, Expr]] = []
        places: dict[str, Expr] = {}
        for loop in phase.threads:
            extent = substitute_expr(loop.extent, values)
            if isinstance(loop.extent, Const):
                around.append((loop.var, loop.extent))
                values[loop.name] = simplify(loop.extent - 1 - loop.var)
            else:
                bound = self.threads[loop.kind]
                on = self.names.var(loop.name)
                at = Const(bound - 1) - loop.var
                around += [(loop.var, Const(bound)), (on, minimum(1, extent - at))]
                values[loop.name] = at + on
            places[loop.kind] = values[loop.name]
        return nest(around, self.inside(substitute(phase.body, values), places))

    def thread(self, node: Stmt, places: Mapping[str, Expr]) -> Stmt:
        """The block-level statement `node`, as the thread with coordinates `places` executes it."""
        match node:
            case For() if is_thread_loop(node):
                phase = phase_at(node)
                values: dict[str, Expr] = {}
                around: list[tuple[Var, Expr]] = []
                own = {loop.kind for loop in phase.threads}
                for axis in self.axes:
                    if axis not in own:
                        around.append((self.names.var(axis), maximum(0, 1 - places[axis])))
                for loop in phase.threads:
                    at = places.get(loop.kind, _ZERO)
                    if loop.extent == Const(self.threads[loop.kind]):
                        values[loop.name] = at
                        continue
                    on = self.names.var(loop.name)
                    around.append((on, minimum(1, substitute_expr(loop.extent, values) - at)))
                    values[loop.name] = at + on
                return nest(
                    around,
                    self.inside(substitute(phase.body, values), {**places, **_kinds(phase.threads, values)}),
                )
            case Copy():
                # Issued once for the whole block.
                around = [(self.names.var(axis), maximum(0, 1 - places[axis])) for axis in self.axes]
                return nest(around, self.shadows.issue(node, {}, whole=True))
            case Commit():
                return self.shadows.commit(places)
            case Wait():
                return self.shadows.sweep(node, places)
            case For():
                return replace(node, kind="serial", body=self.thread(node.body, places))
        return map_children(node, lambda child: self.thread(child, places))

    def inside(self, node: Stmt, places: Mapping[str, Expr]) -> Stmt:
        """A statement of the thread with coordinates `places`, rewritten for emulation. Its loops become serial, its
        allocations are filled with poison (NaN or a pattern), and its asynchronous copies go to shadow buffers.
        """
        match node:
            case For():
                return replace(node, kind="serial", body=self.inside(node.body, places))
            case Alloc(buffer=buffer):
                return Alloc(
                    buffer=buffer, body=seq(fill(buffer, self.names), self.inside(node.body, places))
                )
            case Copy(asynchronous=True):
                return self.shadows.issue(node, places)
            case Seq():
                return map_children(node, lambda child: self.inside(child, places))
        return node


def _guarded(guard: tuple[Var, Expr] | None, body: Stmt) -> Stmt:
    return body if guard is None else For(var=guard[0], extent=guard[1], body=body)


def _kinds(loops: Iterable[For], values: Mapping[str, Expr]) -> dict[str, Expr]:
    return {loop.kind: values[loop.name] for loop in loops}

"""check_races: proves that threads and blocks of kernels have no data race, or finds a race.

The check is independent of the analysis that inserts barriers. The check traces the execution of a block, and splits
the execution at barriers into spans (`asynchronous.spans`). For each span it lists the elements that each thread
touches, and compares the lists. If several iterations of a loop touch the same elements (for example the same copy of a
double buffer), only one of them is compared. Threads exchange data through some buffers; if several blocks touch the
same elements of these buffers, only one block is traced. A second check proves that different blocks share no element
of global memory: it uses affine forms of the indices, or lists of elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod

import numpy as np

from ...ir.affine import LinearForm, form_to_expr, linear_form
from ...ir.bounds import Interval, Ranges, interval, loop_range, loop_ranges
from ...ir.expr import Binary, Const, Expr, binary
from ...ir.kernels import (
    THREAD_AXES,
    Access,
    Kernel,
    accesses,
    is_thread_loop,
    kernel_obstacle,
    kernels,
    threads_of,
)
from ...ir.separation import meets_only_at
from ...ir.stmt import For, Program, Stmt
from ...ir.visit import children, free_vars, map_children
from .addresses import evaluate, touched
from .asynchronous import RaceError, Task, parts_of, spans, tasks_of
from .errors import LoweringError
from .span_races import SpanChecker, element_text, point

__all__ = ["RaceError", "check_races"]

MOST_BLOCKS = 256
"""Largest number of kinds of blocks that are checked for one kernel. Two blocks are of one kind if they touch the same
elements of the buffers through which their threads exchange data. MOST_BLOCKS is also the largest number of iterations
of the host's loops.
"""
MOST_ITERATIONS = 1 << 22
"""Largest number of blocks of a kernel, in all iterations of the host's loops together, that the check sorts into
kinds. Blocks of one kind have equal accesses.
"""


def check_races(program: Program) -> None:
    """Proves that the kernels of a program have no races. Raises RaceError, which names a race, if there is one. Raises
    LoweringError if neither a race nor a proof is found.

    If one of two threads of a block writes an element of shared or global memory, and the other touches the element, a
    barrier must separate these accesses. Two blocks of a kernel must never touch an element that one of them writes. A
    thread may touch the destination of its asynchronous copy only after the wait that covers the copy; other threads
    may touch it only after the barrier that follows the wait. No copy may be in flight at the end of a kernel.
    """
    if (reason := kernel_obstacle(program)) is not None:
        raise LoweringError(f"{program.name}: {reason}")
    for kernel in kernels(program):
        _check_kernel(kernel)


def _check_kernel(kernel: Kernel) -> None:
    found = accesses(kernel.body, kernel.around)
    written = {a.buffer.name for a in found if a.write}
    shared = {a.buffer.name for a in found if a.buffer.scope == "shared"}
    threads = threads_of(kernel)
    interesting = set(shared)
    for name in sorted(written - shared):
        uses = [a for a in found if a.buffer.name == name]
        _check_blocks(kernel, uses)
        late = any(a.asynchronous for a in uses)
        if late or (prod(threads.values()) > 1 and not _apart(kernel, uses, threads)):
            interesting.add(name)
    try:
        _check_spans(_widened(kernel), interesting, threads)
    except RaceError as race:
        # Blocks at the edge touch fewer elements than the ones examined; the race may be at an element that does not
        # exist.
        try:
            _check_spans(kernel, interesting, threads)
        except RaceError:
            raise
        except LoweringError:
            raise race from None


# Between blocks


def _check_blocks(kernel: Kernel, uses: Sequence[Access]) -> None:
    """Raises RaceError if two blocks touch the same element of a buffer in global memory, and at least one of the two
    writes the element. `uses`: the kernel's accesses to this buffer.
    """
    coordinates = [(loop.name, loop.name) for loop in kernel.blocks]
    host = [loop.name for loop in kernel.host]
    if all(meets_only_at(p, q, coordinates, host) for p, q in _pairs(uses)):
        return
    axes = {loop.name: size for loop, size in zip(kernel.blocks, _extents(kernel), strict=True)}
    for values in _iterations(kernel.host, kernel.name):
        writer: np.ndarray = np.full(prod(uses[0].buffer.shape), -1, np.int64)
        listed = [(use, touched(use, values, axes)) for use in uses]
        for use, what in listed:
            if use.write:
                writer[what.elements] = what.owners
        for use, what in listed:
            other = writer[what.elements]
            clash = (other >= 0) & (other != what.owners)
            if clash.any():
                at = int(np.argmax(clash))
                first, second = (point(int(owner), axes) for owner in (other[at], what.owners[at]))
                writers = ", ".join(dict.fromkeys(u.statement for u in uses if u.write))
                raise RaceError(
                    f"{kernel.name}: blocks race on {element_text(use, int(what.elements[at]))}: {writers} writes it "
                    f"in block {first}, {use.statement} {'writes' if use.write else 'reads'} it in block {second}; "
                    "blocks run in any order, so each must write elements of its own (or split the kernel in two)"
                )


def _pairs(uses: Sequence[Access]) -> list[tuple[Access, Access]]:
    """All pairs of different accesses in `uses` in which at least one access writes. A writing access is also paired
    with itself.
    """
    distinct = list({(u.starts, u.extents, u.write, u.loops): u for u in uses}.values())
    return [
        (p, q) for p, q in [*combinations(distinct, 2), *((u, u) for u in distinct)] if p.write or q.write
    ]


def _extents(kernel: Kernel) -> list[int]:
    sizes: list[int] = []
    loops = kernel.host
    for loop in kernel.blocks:
        high = interval(loop.extent, loop_ranges(loops)).high
        if high is None:
            raise LoweringError(f"the extent of {loop.name}, which is {loop.kind}, has no constant bound")
        sizes.append(max(0, high))
        loops = (*loops, loop)
    return sizes


def _iterations(loops: Sequence[For], name: str) -> list[dict[str, int]]:
    """The values of the variables of the host's `loops`, outermost first, in each iteration of the nest. Raises
    LoweringError, which names the kernel `name`, for more than MOST_BLOCKS iterations.
    """
    found: list[dict[str, int]] = [{}]
    for loop in loops:
        found = [{**v, loop.name: i} for v in found for i in range(int(evaluate(loop.extent, v)))]
        if len(found) > MOST_BLOCKS:
            raise LoweringError(
                f"cannot prove {name} free of races: it runs in more than {MOST_BLOCKS} combinations of blocks and "
                "iterations; index the buffers that it writes by plain sums of the loops' variables"
            )
    return found


# Between threads


def _apart(kernel: Kernel, uses: Sequence[Access], threads: Mapping[str, int]) -> bool:
    """Whether different threads of a block provably never touch the same element of a buffer, even without barriers.
    `uses`: the accesses to the buffer. `threads`: number of threads along each axis.
    """
    axes = [axis for axis in THREAD_AXES if threads[axis] > 1]
    common = [loop.name for loop in kernel.around]
    for p, q in _pairs(uses):
        pairs: list[tuple[str | None, str | None]] = []
        for axis in axes:
            a, b = (next((x.name for x in u.loops if x.kind == axis), None) for u in (p, q))
            if a is None and p is q and _once(p, common):
                # Accesses of one thread, or of a whole warp at once.
                continue
            if a is None or b is None:
                return False
            pairs.append((a, b))
        # Without pairs there is one warp.
        if pairs and not meets_only_at(p, q, pairs, common):
            return False
    return True


def _once(access: Access, outer: Sequence[str]) -> bool:
    """Whether the phase (code that each thread runs by itself) that contains an access runs once in a block: no loop of
    the kernel's body is around it. `outer`: names of the loops around the kernel's body.
    """
    inside = [loop for loop in access.loops if loop.name not in outer]
    return bool(inside) and is_thread_loop(inside[0])


def _widened(kernel: Kernel) -> Kernel:
    """The kernel with larger phases (code that each thread runs by itself): extents that differ between blocks are
    replaced by their maximum over all blocks.
    """
    outer = loop_ranges(kernel.around)

    def visit(node: Stmt, inside: bool) -> Stmt:
        inside = inside or is_thread_loop(node)
        if inside and isinstance(node, For):
            extent = _greatest(node.extent, outer)
            if extent is not None and extent is not node.extent:
                node = replace(node, extent=extent)
        return map_children(node, lambda child: visit(child, inside))

    return replace(kernel, body=visit(kernel.body, False))


def _greatest(expr: Expr, outer: Ranges) -> Expr | None:
    """An upper bound of `expr` for all values of the variables in `outer`, as an expression of the remaining variables;
    None if no bound is known.
    """
    if not free_vars(expr) & outer.keys():
        return expr
    form = linear_form(expr)
    total = LinearForm({}, form.constant)
    result: Expr | None = None
    for atom, coefficient in form.terms.items():
        if not free_vars(atom) & outer.keys():
            total = total.plus(LinearForm({atom: coefficient}, 0))
            continue
        if isinstance(atom, Binary) and atom.op in ("min", "max") and coefficient > 0 and result is None:
            a, b = _greatest(atom.a, outer), _greatest(atom.b, outer)
            if (a is None and b is None) or (atom.op == "max" and (a is None or b is None)):
                return None
            result = a if b is None else b if a is None else binary(atom.op, a, b)
            result = binary("*", result, Const(coefficient)) if result is not None else None
            continue
        held = interval(atom, outer) if free_vars(atom) <= outer.keys() else Interval(None, None)
        end = held.high if coefficient > 0 else held.low
        if end is None:
            return None
        total = total.offset(coefficient * end)
    rest = form_to_expr(total)
    return rest if result is None else binary("+", result, rest)


def _check_spans(kernel: Kernel, interesting: set[str], threads: Mapping[str, int]) -> None:
    tasks = tasks_of(kernel, interesting)
    if not tasks:
        return
    checker = SpanChecker(kernel, threads)
    for values in _representatives(kernel, list(tasks.values())):
        for span in spans(kernel, values, tasks):
            checker.span(span)


def _representatives(kernel: Kernel, tasks: Sequence[Task]) -> list[dict[str, int]]:
    """Groups the blocks of a kernel into kinds: blocks of one kind touch the same elements in `tasks`
    (`asynchronous.tasks_of`). For one block of each kind, returns the values of the loops around the kernel's body.
    Raises LoweringError for more than MOST_BLOCKS kinds, or more than MOST_ITERATIONS blocks.
    """
    names = [loop.name for loop in kernel.around]
    parts: dict[Expr, None] = {}

    def visit(node: Stmt) -> None:
        if is_thread_loop(node):
            return
        if isinstance(node, For):
            parts.update(dict.fromkeys(parts_of(node.extent, names)))
        for child in children(node):
            visit(child)

    visit(kernel.body)
    for task in tasks:
        for expr in task.uniform:
            parts.update(dict.fromkeys(parts_of(expr, names)))
    if not parts:
        return [dict.fromkeys(names, 0)]
    sizes: list[int] = []
    ranges: dict[str, Interval | Expr] = {}
    for loop in kernel.around:
        sizes.append(max(0, interval(loop.extent, ranges).high or 0))
        ranges[loop.name] = loop_range(loop.extent)
    needed = {name for expr in parts for name in free_vars(expr)}
    for loop in reversed(kernel.around):
        if not isinstance(loop.extent, Const):
            needed |= {loop.name, *free_vars(loop.extent)}
    sizes = [size if name in needed else min(1, size) for name, size in zip(names, sizes, strict=True)]
    if prod(sizes) > MOST_ITERATIONS:
        raise LoweringError(
            f"{kernel.name} has more than {MOST_ITERATIONS} different blocks, too many to search for races"
        )
    if prod(sizes) == 0:
        return []
    points = np.indices(sizes).reshape(len(sizes), -1)
    environment = dict(zip(names, points, strict=True))
    mask = np.ones(points.shape[1], bool)
    for loop in kernel.around:
        mask &= environment[loop.name] < evaluate(loop.extent, environment)
    points = points[:, mask]
    environment = dict(zip(names, points, strict=True))
    keys = np.stack([np.broadcast_to(evaluate(e, environment), points.shape[1:]) for e in parts])
    _, first = np.unique(keys, axis=1, return_index=True)
    if len(first) > MOST_BLOCKS:
        raise LoweringError(
            f"cannot prove {kernel.name} free of races: {len(first)} blocks access different elements of the same "
            "buffers, too many to examine each; index buffers through which threads exchange data by plain sums of "
            "the loops' variables"
        )
    return [{name: int(points[d, at]) for d, name in enumerate(names)} for at in sorted(first)]

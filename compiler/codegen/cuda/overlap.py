"""overlap: finds loops in which products of warpgroups may stay in flight from one iteration to the next.

If threads wait for a product as soon as they have issued it, the tensor cores are idle until the next product is
issued. In a loop

    for k:  wait; barrier; issue copies (k); products (k)

the wait for products may move to the next iteration, in front of the barrier, and leave the newest group of products in
flight. Then the products of iteration k - 1 are in flight while threads meet at the barrier and issue copies, and the
products of iteration k follow without a gap. In the program's semantics, products complete in order. So the change is
correct if no statement accesses the sums of products in flight or writes their inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.bounds import interval, loop_ranges
from ...ir.expr import Const, Expr
from ...ir.kernels import Access, Kernel, accesses, is_thread_loop, successive
from ...ir.separation import meets_only_at
from ...ir.stmt import Barrier, For, Intrinsic, Seq, Stmt
from ...ir.visit import children, substitute_expr, walk
from .wgmma_emit import has_products, only_products


def overlapping_loops(kernel: Kernel) -> frozenset[str]:
    """The names of the loops whose products may stay in flight until the next iteration. Only loops that all threads of
    a block execute together are considered.
    """
    found: set[str] = set()

    def visit(node: Stmt, around: tuple[For, ...]) -> None:
        if isinstance(node, For):
            if is_thread_loop(node):
                return
            if _overlaps(kernel, node, around):
                found.add(node.name)
                return
            around = (*around, node)
        for child in children(node):
            visit(child, around)

    visit(kernel.body, kernel.around)
    return frozenset(found)


def _overlaps(kernel: Kernel, loop: For, around: tuple[For, ...]) -> bool:
    if loop.kind != "serial" or not isinstance(loop.body, Seq):
        return False
    items = loop.body.statements
    own = [i for i, item in enumerate(items) if has_products(item)]
    barriers = [i for i, item in enumerate(items) if any(isinstance(n, Barrier) for n in walk(item))]
    if len(own) != 1 or len(barriers) != 1 or not isinstance(items[barriers[0]], Barrier):
        return False
    at, barrier = own[0], barriers[0]
    phase = items[at]
    if barrier > at or not is_thread_loop(phase) or not (uses := only_products(phase)):
        return False
    around = (*around, loop)
    read = [a for a in accesses(phase, around) if not a.write]
    names = {a.buffer.name for a in read}
    sums = {use.operands[0].buffer.name for use in uses}
    apart = successive(kernel)
    for i, item in enumerate(items):
        if i == at:
            continue
        if any(isinstance(n, Intrinsic) and sums & {r.buffer.name for r in n.operands} for n in walk(item)):
            return False
        for access in accesses(item, around):
            if any((access.buffer.name, name) in apart for name in names):
                return False
            if not access.write or access.buffer.name not in names:
                continue
            # Before the barrier, the group before the last one may also be in flight.
            if i < barrier or not _apart(access, read, loop, around, 1):
                return False
            if i > at and not _apart(access, read, loop, around, 0):
                return False
    return True


def _apart(access: Access, read: Sequence[Access], loop: For, around: tuple[For, ...], before: int) -> bool:
    """Whether `access` in iteration i of `loop` provably shares no element with the accesses `read` in iteration
    i - `before`, for every i. `around`: the loops around the accesses, including `loop`.
    """
    common = {outer.name for outer in around}
    now = _without_guards(access)
    for other in read:
        if other.buffer.name == access.buffer.name:
            then = _substituted(_without_guards(other), {loop.name: loop.var - before})
            if not meets_only_at(now, then, (), common):
                return False
    return True


def _without_guards(access: Access) -> Access:
    """The access, where 0 replaces the variable of each loop that has at most one iteration."""
    single: dict[str, Expr] = {}
    for n, loop in enumerate(access.loops):
        high = interval(loop.extent, loop_ranges(access.loops[:n])).high
        if high is not None and high <= 1:
            single[loop.name] = Const(0)
    return _substituted(access, single)


def _substituted(access: Access, values: dict[str, Expr]) -> Access:
    # Not simplified: slots are comparable only while both expressions have the same form.
    def new(exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple([substitute_expr(e, values) for e in exprs])

    return replace(access, starts=new(access.starts), extents=new(access.extents))

"""Independence of loops: whether each statement of a loop may run all iterations before the next statement, as the
evaluation on arrays (`evaluate`) requires.
"""

from __future__ import annotations

from typing import Any

from .affine import LinearForm, linear_form
from .bounds import Ranges, form_interval, loop_range
from .expr import Const, Expr, Load, Var
from .regions import write_buffers
from .stmt import Alloc, Assign, Copy, For, Node, Reduce
from .visit import expressions, free_vars, walk, walk_expr


def is_independent(loop: For) -> bool:
    """Whether a loop may be evaluated one statement at a time: all iterations of its first statement, then all
    iterations of the next statement, and so on. True only if the result is the same as iteration by iteration.
    """
    leaves = [s for s in walk(loop) if isinstance(s, Assign | Reduce | Copy)]
    ragged = [s for s in walk(loop) if isinstance(s, For) and not isinstance(s.extent, Const)]
    if any(isinstance(s, Copy) for around in ragged for s in walk(around)):
        return False
    if len(leaves) > 1:
        inside = {s.buffer.name for s in walk(loop) if isinstance(s, Alloc)}
        return all(_apart(loop, b.name) for b in write_buffers(loop) if b.name not in inside)
    match leaves:
        case [Copy(destination=to, source=of)]:
            return to.buffer.name != of.buffer.name or _apart(loop, to.buffer.name)
        case [Assign(buffer=buffer) as leaf]:
            return not _reads(leaf, buffer.name) or _apart(loop, buffer.name)
        case [Reduce(buffer=buffer, indices=indices) as leaf]:
            # All iterations may add to the same element, or each to one of its own.
            written = set().union(*map(free_vars, indices))
            return not _reads(leaf, buffer.name) and (loop.name not in written or _apart(loop, buffer.name))
    return True


def _reads(statement: Node, buffer: str) -> list[tuple[Expr, ...]]:
    loads = [e for top in expressions(statement) for e in walk_expr(top) if isinstance(e, Load)]
    return [e.indices for e in loads if e.buffer.name == buffer]


def _apart(loop: For, buffer: str) -> bool:
    """Whether no iteration of the loop touches an element of the buffer that another iteration touches.

    This is proven if there is a constant c such that, in one dimension, every index is c * i + r: i is the loop's
    variable, and r lies between 0 and c - 1.
    """
    ranges: dict[str, Any] = {}
    touched: list[tuple[Expr, ...]] = []
    for node in walk(loop.body):
        if isinstance(node, For):
            ranges[node.name] = loop_range(node.extent)
        touched += _reads(node, buffer)
        if isinstance(node, Assign | Reduce) and node.buffer.name == buffer:
            touched.append(node.indices)
        if isinstance(node, Copy):
            for box in (node.source, node.destination):
                if box.buffer.name == buffer:
                    last = [s + e - Const(1) for s, e in zip(box.starts, box.extents, strict=True)]
                    touched += [box.starts, tuple(last)]
    if not touched:
        return True
    return any(_digit([indices[d] for indices in touched], loop.var, ranges) for d in range(len(touched[0])))


def _digit(indices: list[Expr], var: Var, ranges: Ranges) -> bool:
    steps = {linear_form(index).terms.get(var, 0) for index in indices}
    if len(steps) > 1 or (step := steps.pop()) <= 0:
        return False
    for index in indices:
        form = linear_form(index)
        rest = form_interval(
            LinearForm({a: c for a, c in form.terms.items() if a != var}, form.constant), ranges
        )
        if rest.low is None or rest.high is None or rest.low < 0 or rest.high >= step:
            return False
    return True

"""The primitive `fuse`: makes one loop of two nested loops."""

from __future__ import annotations

from ..ir.bounds import loop_range, loop_ranges
from ..ir.expr import Const, Var
from ..ir.simplify import simplify_node
from ..ir.stmt import For, Program
from ..ir.visit import substitute
from .errors import LegalityError
from .legality import (
    check_bounds,
)
from .tree import locate_loop, names_in, rebuild


def fuse(program: Program, outer: str, inner: str) -> Program:
    """Makes one loop of two directly nested ones.

    rewrite:
        for i in range(6):             for i_j in range(24):
            for j in range(4):   ->        body(i_j // 4, i_j % 4)
                body(i, j)
    The new loop's name joins both names with "_". Indices are simplified: 4*i + j becomes i_j. Iterations and their
    order stay. Legal if `inner` is the whole body of `outer`, both extents are constant (the inner one above 0), and
    both loops have the same kind; the new loop has this kind, too.
    """
    path, a = locate_loop(program, outer)
    b = a.body
    if not isinstance(b, For) or b.name != inner:
        raise LegalityError(f"cannot fuse: the body of {outer} is not the loop {inner} alone", program, outer)
    for loop in (a, b):
        if not isinstance(loop.extent, Const):
            reason = f"cannot fuse: the extent of {loop.name} is not constant (peel separates a ragged end)"
            raise LegalityError(reason, program, loop.name)
    assert isinstance(b.extent, Const)
    if b.extent.value < 1:
        raise LegalityError(f"cannot fuse: {inner} has no iteration", program, inner)
    if a.kind != b.kind:
        reason = f"cannot fuse: {outer} is {a.kind} and {inner} is {b.kind}; fuse first, then annotate"
        raise LegalityError(reason, program, inner)
    fused, size = Var(f"{outer}_{inner}"), b.extent
    if fused.name in names_in(program):
        raise LegalityError(f"cannot fuse: the name {fused.name} is taken", program, fused.name)
    ranges = loop_ranges(n for n in path[:-1] if isinstance(n, For))
    ranges[fused.name] = loop_range(a.extent * size)
    body = simplify_node(substitute(b.body, {outer: fused // size, inner: fused % size}), ranges)
    new = rebuild(path, For(var=fused, extent=a.extent * size, body=body, kind=a.kind))
    return check_bounds(new, program, inner)

"""Primitives on loops: split, fuse, reorder, annotate."""

from __future__ import annotations

from ..ir.expr import Const, Expr, Var, minimum
from ..ir.simplify import simplify
from ..ir.stmt import LOOP_KINDS, For, LoopKind, Node, Program, Stmt
from ..ir.visit import free_vars, substitute
from .errors import LegalityError
from .legality import order_obstacle, parallel_obstacle
from .tree import locate_loop, names_in, rebuild


def split(program: Program, loop: str, factor: int) -> Program:
    """Cuts a loop into pieces of `factor` iterations; the last piece holds what is left.

    rewrite:
        for i in range(10):            for i.0 in range(3):
            body(i)              ->        for i.1 in range(min(4, 10 - i.0 * 4)):
                                               body(i.0 * 4 + i.1)
    Always legal: the iterations and their order stay. With one piece only, body(i.1).
    LegalityError for a factor below 1.
    """
    path, old = locate_loop(program, loop)
    if factor < 1:
        raise LegalityError(f"cannot split {loop} into pieces of {factor}", program, loop)
    outer, inner = Var(f"{loop}.0"), Var(f"{loop}.1")
    value: Expr = outer * factor + inner
    match old.extent:
        case Const(value=int(size)) if size <= factor:
            pieces, extent, value = Const(1), old.extent, inner
        case Const(value=int(size)) if size % factor == 0:
            pieces, extent = Const(size // factor), Const(factor)
        case size:
            pieces = simplify((size + (factor - 1)) // factor)
            extent = simplify(minimum(factor, size - outer * factor))
    body = substitute(old.body, {loop: value})
    nested = For(var=inner, extent=extent, body=body, kind=old.kind)
    return rebuild(path, For(var=outer, extent=pieces, body=nested, kind=old.kind))


def fuse(program: Program, outer: str, inner: str) -> Program:
    """Makes one loop of two directly nested ones.

    rewrite:
        for i in range(6):             for i_j in range(24):
            for j in range(4):   ->        body(i_j // 4, i_j % 4)
                body(i, j)
    Always legal: the iterations and their order stay. LegalityError unless `inner` is all that `outer` holds and its
    extent is constant.
    """
    path, a = locate_loop(program, outer)
    b = a.body
    if not isinstance(b, For) or b.name != inner:
        raise LegalityError(f"cannot fuse: {inner} is not all that {outer} holds", program, outer)
    if not isinstance(b.extent, Const):
        raise LegalityError(f"cannot fuse: the extent of {inner} is not constant", program, inner)
    fused, size = Var(f"{outer}_{inner}"), b.extent
    if fused.name in names_in(program):
        raise LegalityError(f"cannot fuse: the name {fused.name} is taken", program, fused.name)
    body = substitute(b.body, {outer: fused // size, inner: fused % size})
    return rebuild(path, For(var=fused, extent=a.extent * size, body=body, kind=a.kind))


def reorder(program: Program, *names: str) -> Program:
    """Nests loops in the given order, outermost first; loops between them that are not named keep their places.

    rewrite:
        for i in range(n):             for j in range(m):
            for j in range(m):   ->        for i in range(n):
                body                           body
    Legal if the loops are a perfect nest, no extent depends on a loop that would be inside it, and no iteration
    depends on another, but for a Reduce's on the sum so far.
    """
    if len(set(names)) != len(names):
        raise LegalityError("a loop is named twice", program, names[0])
    path, _ = locate_loop(program, names[0])
    # The outermost named loop may lie above the first one named.
    top = next(i for i, node in enumerate(path) if isinstance(node, For) and node.name in names)
    chain: list[For] = []
    node: Node = path[top]
    missing = set(names)
    while missing:
        if not isinstance(node, For):
            loop = sorted(missing)[0]
            locate_loop(program, loop)
            raise LegalityError(
                f"cannot reorder: {loop} is not in one perfect nest with {names[0]}", program, loop
            )
        chain.append(node)
        missing.discard(node.name)
        node = node.body
    by_name = {loop.name: loop for loop in chain}
    queue = iter(names)
    order = [by_name[next(queue)] if loop.name in names else loop for loop in chain]
    if all(a is b for a, b in zip(order, chain, strict=True)):
        return program
    inside = set(by_name)
    for loop in order:
        inside.discard(loop.name)
        if not isinstance(loop.extent, Const) and (bad := free_vars(loop.extent) & inside):
            reason = f"cannot reorder: the extent of {loop.name} depends on {sorted(bad)[0]}, which would be inside it"
            raise LegalityError(reason, program, loop.name)
    body = chain[-1].body
    changed = [i for i, (a, b) in enumerate(zip(order, chain, strict=True)) if a is not b]
    # A loop that keeps its place between two that change sides is passed by both.
    moved = {loop.name for loop in chain[changed[0] : changed[-1] + 1] if not _single(loop)}
    outside = [n for n in path[:top] if isinstance(n, For)]
    obstacle = order_obstacle(body, [*outside, *chain], moved, len(outside))
    if obstacle is not None:
        raise LegalityError(f"cannot reorder: {obstacle}", program, names[0])
    nest: Stmt = body
    for loop in reversed(order):
        nest = For(var=loop.var, extent=loop.extent, body=nest, kind=loop.kind)
    return rebuild(path[: top + 1], nest)


def annotate(program: Program, name: str, kind: LoopKind) -> Program:
    """Says how the iterations of a loop may run.

    rewrite:
        for i in range(n): body   ->   for i in kind(n): body
    Legal for "serial", "unroll" and "virtual_thread" always (these keep the order, or are lowered so as to keep every
    dependence), for the other kinds if no two iterations touch the same element of what the body writes.
    """
    path, old = locate_loop(program, name)
    if kind not in LOOP_KINDS:
        raise LegalityError(f"unknown kind of loop {kind!r}", program, name)
    if kind not in ("serial", "unroll", "virtual_thread") and not _single(old):
        obstacle = parallel_obstacle(old, [n for n in path[:-1] if isinstance(n, For)])
        if obstacle is not None:
            raise LegalityError(f"cannot make {name} {kind}: {obstacle}", program, name)
    return rebuild(path, For(var=old.var, extent=old.extent, body=old.body, kind=kind))


def _single(loop: For) -> bool:
    return isinstance(loop.extent, Const) and loop.extent.value <= 1

"""Primitives on loops: split, reorder, tile."""

from __future__ import annotations

from ..ir.affine import quotient
from ..ir.expr import Const, Expr, Var, minimum
from ..ir.simplify import simplify
from ..ir.stmt import AXES, For, Node, Program, Reduce, Stmt
from ..ir.visit import free_vars, substitute, walk
from .errors import LegalityError
from .legality import (
    CONCURRENT,
    check_grid,
    check_verified,
    order_obstacle,
    parallel_obstacle,
    single,
)
from .tree import locate_loop, names_in, rebuild


def split(program: Program, loop: str, factor: int) -> Program:
    """Cuts a loop into pieces of `factor` iterations; the last piece has the remaining iterations.

    rewrite:
        for i in range(10):            for i.0 in range(3):
            body(i)              ->        for i.1 in range(min(4, 10 - i.0 * 4)):
                                               body(i.0 * 4 + i.1)
    All pieces are whole if the extent is provably a multiple of `factor`. Both loops have the kind of the old one.
    Legal unless the loop is an axis of a grid (split loops before binding them): iterations and their order stay. If
    there is only one piece, the body is body(i.1). Raises LegalityError for a factor below 1, or a name that is taken.
    """
    path, old = locate_loop(program, loop)
    if old.kind in AXES:
        reason = f"cannot split {loop}: it is {old.kind}; split the loop first, then bind the resulting loops"
        raise LegalityError(reason, program, loop)
    taken = names_in(program)
    for name in (f"{loop}.0", f"{loop}.1"):
        if name in taken:
            raise LegalityError(f"cannot split {loop}: the name {name} is taken", program, name)
    if factor < 1:
        raise LegalityError(
            f"cannot split {loop} into pieces of {factor}; give a factor of 1 or more", program, loop
        )
    outer, inner = Var(f"{loop}.0"), Var(f"{loop}.1")
    value: Expr = outer * factor + inner
    match old.extent:
        case Const(value=int(size)) if size <= factor:
            pieces, extent, value = Const(1), old.extent, inner
        case size if (whole := quotient(size, factor)) is not None:
            pieces, extent = whole if isinstance(whole, Const) else simplify(whole), Const(factor)
        case size:
            pieces = simplify((size + (factor - 1)) // factor)
            extent = simplify(minimum(factor, size - outer * factor))
    body = substitute(old.body, {loop: value})
    nested = For(var=inner, extent=extent, body=body, kind=old.kind)
    result = rebuild(path, For(var=outer, extent=pieces, body=nested, kind=old.kind))
    # Bounds of pieces of pieces cannot always be proven.
    ragged = not isinstance(old.extent, Const) and not isinstance(extent, Const)
    return check_verified(result, program, loop) if ragged else result


def reorder(program: Program, *names: str) -> Program:
    """Nests loops in the given order, outermost first; loops between them that are not named keep their places.

    rewrite:
        for i in range(n):             for j in range(m):
            for j in range(m):   ->        for i in range(n):
                body                           body
    Legal if the loops are a perfect nest, no extent depends on a loop that would be inside it, and no iteration depends
    on another. Two exceptions: a Reduce may depend on its sum so far; and without a Reduce, dependent iterations may
    differ in the variable of one loop alone, because each loop's iterations stay in order. Loops of a concurrent kind
    must be legal in their new places, and axes of a grid must nest as before.
    """
    if not names:
        raise LegalityError("reorder needs the name of at least one loop", program, "")
    if len(set(names)) != len(names):
        raise LegalityError("reorder got the same loop twice", program, names[0])
    path, _ = locate_loop(program, names[0])
    # The outermost named loop may be outside of the first one named.
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
    # A loop between two loops that swap sides changes its order with both, though its own position stays.
    moved = {loop.name for loop in chain[changed[0] : changed[-1] + 1] if not single(loop)}
    outside = [n for n in path[:top] if isinstance(n, For)]
    around = [*outside, *chain]
    obstacle = order_obstacle(body, around, moved, len(outside))
    if obstacle is not None and not any(isinstance(inner, Reduce) for inner in walk(body)):
        # If all other loops touch different elements, dependent iterations differ in one loop alone.
        others = [order_obstacle(body, around, moved - {loop}, len(outside)) for loop in sorted(moved)]
        obstacle = None if None in others else obstacle
    if obstacle is not None:
        raise LegalityError(f"cannot reorder: {obstacle}", program, names[0])
    nest: Stmt = body
    for loop in reversed(order):
        nest = For(var=loop.var, extent=loop.extent, body=nest, kind=loop.kind)
    new = rebuild(path[: top + 1], nest)
    for loop in (loop for loop in order if loop.kind in CONCURRENT and loop.name in moved):
        around, again = locate_loop(new, loop.name)
        obstacle = parallel_obstacle(again, [n for n in around[:-1] if isinstance(n, For)])
        if obstacle is not None:
            kept = f"{loop.name} is of kind {loop.kind}, which is illegal at its new place"
            reason = f"cannot reorder: {kept}, as {obstacle}"
            raise LegalityError(reason, program, loop.name)
    return check_grid(new) if any(loop.kind in AXES for loop in order) else new


def tile(program: Program, y: str, x: str, rows: int, columns: int) -> Program:
    """Turns two directly nested loops into loops over tiles of `rows` x `columns` iterations, and loops within a tile.

    rewrite (tile("y", "x", 4, 8)):
        for y in range(8):                 for y.0 in range(2):
            for x in range(24):      ->        for x.0 in range(3):
                body(y, x)                         for y.1 in range(4):
                                                       for x.1 in range(8):
                                                           body(y.0 * 4 + y.1, x.0 * 8 + x.1)
    Legal if `split` of both loops, and then `reorder` of the resulting four loops, are legal.
    """
    cut = split(split(program, y, rows), x, columns)
    try:
        return reorder(cut, f"{y}.0", f"{x}.0", f"{y}.1", f"{x}.1")
    except LegalityError as error:
        raise LegalityError(f"cannot tile {y} and {x}: {error.reason}", program, y) from None

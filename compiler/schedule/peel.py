"""peel: separates the last iteration of a loop, so that conditions for the last iteration disappear from all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir.bounds import loop_range, loop_ranges
from ..ir.expr import Buffer, Const, Expr, Var
from ..ir.replace_buffers import replace_buffers
from ..ir.simplify import simplify_node
from ..ir.stmt import Alloc, Assign, Copy, For, Intrinsic, Program, Reduce, Stmt, seq
from ..ir.visit import map_children, map_expressions, substitute, substitute_expr, walk
from .errors import LegalityError
from .tree import locate_loop, names_in, rebuild, without_dead_loops

FIRST, LAST = "first", "last"


def peel(program: Program, loop: str, end: str = LAST) -> Program:
    """Separates the last iteration from a loop (or the first, by `end`): the iteration gets a copy of the loop's body.

    rewrite:
        for i in range(3):                             for i in range(2):
            for j in range(min(4, 10 - i * 4)):    ->      for j in range(4): body(i, j)
                body(i, j)                             for j.last in range(2): body(2, j.last)
    Extents and conditions are simplified in both parts, and loops without iterations (such as the loop that `guard`
    adds) are removed. Loops, statements and buffers in the copy get the suffix `.last` (`.first`), or `.last.1` and so
    on if one of the names is taken. Legal because iterations and order stay. With a single iteration, the loop is
    removed and the names stay. Raises LegalityError if the extent is not a constant above 0.
    """
    path, old = locate_loop(program, loop)
    if end not in (FIRST, LAST):
        raise LegalityError(
            f"cannot peel the {end} iteration of {loop}, only the first or the last", program, loop
        )
    if not isinstance(old.extent, Const) or old.extent.value < 1:
        raise LegalityError(f"cannot peel {loop}: its extent is not a constant above 0", program, loop)
    ranges = loop_ranges(n for n in path[:-1] if isinstance(n, For))
    count = int(old.extent.value)
    at = Const(count - 1 if end == LAST else 0)
    if count == 1:
        alone = without_dead_loops(simplify_node(substitute(old.body, {loop: at}), ranges))
        return rebuild(path, seq() if alone is None else alone)
    suffix = suffix_for(program, loop, end)
    single = simplify_node(_renamed(old.body, suffix, {loop: at}), ranges)
    rest: Stmt = old.body
    if end == FIRST:
        rest = substitute(rest, {loop: old.var + 1})
    extent = Const(count - 1)
    rest = simplify_node(rest, {**ranges, loop: loop_range(extent)})
    remaining = For(var=old.var, extent=extent, body=rest, kind=old.kind)
    parts = (remaining, single) if end == LAST else (single, remaining)
    return rebuild(path, seq(*[live for part in parts if (live := without_dead_loops(part)) is not None]))


def suffix_for(program: Program, loop: str, end: str) -> str:
    """The suffix that `peel` gives to the names in the peeled copy, with its dot: ".last", or ".last.1" if a name with
    that suffix is taken (`end` "last").
    """
    _, old = locate_loop(program, loop)
    taken, declared = names_in(program), _declared(old.body)
    suffix, count = f".{end}", 0
    while any(f"{name}{suffix}" in taken for name in declared):
        count += 1
        suffix = f".{end}.{count}"
    return suffix


def _declared(body: Stmt) -> set[str]:
    return names_in(Program(name="", parameters=(), body=body))


def _renamed(body: Stmt, suffix: str, values: Mapping[str, Expr]) -> Stmt:
    """A copy of a tree in which all declared names have the suffix; variables of enclosing loops are replaced by
    `values`.
    """
    buffers: dict[str, Buffer] = {}
    for node in walk(body):
        if isinstance(node, Alloc):
            name = node.buffer.name
            buffers[name] = replace(node.buffer, name=f"{name}{suffix}")
    body = replace_buffers(body, buffers)
    loops = {s.name: Var(f"{s.name}{suffix}") for s in walk(body) if isinstance(s, For)}
    known = {**values, **loops}

    def rename(s: Stmt) -> Stmt:
        s = map_expressions(map_children(s, rename), lambda e: substitute_expr(e, known))
        match s:
            case For(var=var, extent=extent, body=inner, kind=kind):
                return For(var=loops[var.name], extent=extent, body=inner, kind=kind)
            case Assign(name=name, buffer=buffer, indices=indices, value=value):
                return Assign(name=f"{name}{suffix}", buffer=buffer, indices=indices, value=value)
            case Reduce(name=name) | Copy(name=name) | Intrinsic(name=name):
                return replace(s, name=f"{name}{suffix}")
        return s

    return rename(body)

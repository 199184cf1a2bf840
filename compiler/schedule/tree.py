"""Finds loops, statements and buffers in a program, and rebuilds the program along the path to one of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..ir.affine import form_to_expr, linear_form
from ..ir.expr import Binary, Buffer, Const, Expr, Load, Var
from ..ir.stmt import Alloc, Assign, Copy, For, Intrinsic, Node, Program, Reduce, Region, Seq, Stmt, seq
from ..ir.visit import children, loads_in, map_all, map_expressions, map_operands, path_to, walk
from .errors import LegalityError


def locate(program: Program, name: str) -> tuple[Node, ...]:
    """The path from the program down to the loop or statement called `name`; raises LegalityError if there is none."""
    try:
        return path_to(program, name)
    except LookupError as error:
        raise LegalityError(str(error.args[0]), program, "") from None


def locate_loop(program: Program, name: str) -> tuple[tuple[Node, ...], For]:
    """The path of nodes down to the loop called `name`, and the loop; raises LegalityError if `name` is not a loop."""
    path = locate(program, name)
    if not isinstance(loop := path[-1], For):
        raise LegalityError(f"{name!r} is a statement, not a loop", program, name)
    return path, loop


def locate_alloc(program: Program, buffer: str) -> tuple[Node, ...] | None:
    """The path of nodes down to the allocation of `buffer`; None if the program does not allocate it."""
    return _alloc_path(program, buffer)


def _alloc_path(node: Node, buffer: str) -> tuple[Node, ...] | None:
    path: list[Node] = []
    while True:
        path.append(node)
        if type(node) is Alloc and node.buffer.name == buffer:
            return tuple(path)
        inner = children(node)
        if len(inner) != 1:
            break
        node = inner[0]
    for child in inner:
        below = _alloc_path(child, buffer)
        if below is not None:
            return (*path, *below)
    return None


def buffer_named(program: Program, name: str) -> Buffer:
    """The parameter or allocated buffer called `name`; raises LegalityError if there is none."""
    for parameter in program.parameters:
        if parameter.name == name:
            return parameter
    path = locate_alloc(program, name)
    if path is None:
        raise LegalityError(f"no buffer named {name!r}", program, "")
    alloc = path[-1]
    assert isinstance(alloc, Alloc)
    return alloc.buffer


def loops_around(node: Node, statement: Node) -> tuple[For, ...]:
    """The loops around a statement of the tree `node`, also `node` itself if it is a loop, outermost first."""
    stack: list[tuple[Node, tuple[For, ...]]] = [(node, ())]
    while stack:
        top, around = stack.pop()
        if top is statement:
            return around
        if isinstance(top, For):
            around = (*around, top)
        stack += [(child, around) for child in children(top)]
    raise ValueError("the statement is not in the tree")


def rebuild(path: Sequence[Node], new: Stmt, *, without: Sequence[Node] = ()) -> Program:
    """The program at the head of `path` with the last node of `path` replaced by `new`.

    Nodes in `without` are removed: allocations on `path` are replaced by their bodies, statements beside `path` are
    dropped.
    """
    old, left_out = path[-1], {id(node) for node in without}
    for parent in reversed(path[:-1]):
        match parent:
            case For(var=var, extent=extent, kind=kind):
                node: Node = For(var=var, extent=extent, body=new, kind=kind)
            case Alloc(buffer=buffer):
                node = new if id(parent) in left_out else Alloc(buffer=buffer, body=new)
            case Seq(statements=statements):
                node = seq(*(new if s is old else s for s in statements if s is old or id(s) not in left_out))
            case Program(name=name, parameters=parameters):
                return Program(name=name, parameters=parameters, body=new)
            case _:
                raise TypeError(f"{type(parent).__name__} has no sub-statements")
        old, new = parent, node
    raise ValueError("the path to a node must start with a program")


def names_in(program: Program) -> set[str]:
    """The names of all loops, statements and buffers."""
    names = {p.name for p in program.parameters}
    for node in walk(program):
        if type(node) is For:
            names.add(node.var.name)
        elif type(node) is Alloc:
            names.add(node.buffer.name)
        elif type(node) is Assign or type(node) is Reduce or type(node) is Copy or type(node) is Intrinsic:
            names.add(node.name)
    return names


def unused(program: Program, name: str) -> str:
    """`name`, or the first of name.1, name.2, … that the program does not use."""
    return first_unused(name, names_in(program))


def first_unused(name: str, taken: Collection[str]) -> str:
    """`name`, or the first of name.1, name.2, … that is not `taken`."""
    candidate, count = name, 0
    while candidate in taken:
        count += 1
        candidate = f"{name}.{count}"
    return candidate


def minus(a: Expr, b: Expr) -> Expr:
    """a - b as an index expression in canonical form."""
    if isinstance(b, Const) and b.value == 0:
        return a
    return form_to_expr(linear_form(a).plus(linear_form(b), -1))


def plus(a: Expr, b: Expr) -> Expr:
    """a + b as an index expression in canonical form."""
    if isinstance(b, Const) and b.value == 0:
        return a
    return form_to_expr(linear_form(a).plus(linear_form(b)))


def tidy(node: Stmt) -> Stmt:
    """A statement with the indices of its accesses in canonical form; loops, sequences and allocations stay."""

    def position(e: Expr) -> Expr:
        return form_to_expr(linear_form(e)) if isinstance(e, Binary) else e

    def value(e: Expr) -> Expr:
        if isinstance(e, Load):
            new = map_all(e.indices, position)
            return e if new is e.indices else Load(e.buffer, new)
        return e if isinstance(e, Var | Const) else map_operands(e, value)

    match node:
        case Assign(name=name, buffer=buffer, indices=indices):
            at = map_all(indices, position)
            return Assign(name=name, buffer=buffer, indices=at, value=value(node.value))
        case Reduce(name=name, buffer=buffer, indices=indices):
            at = map_all(indices, position)
            return Reduce(
                name=name, op=node.op, buffer=buffer, indices=at, value=value(node.value), first=node.first
            )
        case Copy() | Intrinsic():
            return map_expressions(node, position)
    return node


def without_dead_loops(node: Stmt) -> Stmt | None:
    """Removes all loops with a constant extent below 1 from a tree; returns None if nothing remains."""
    match node:
        case For(extent=Const(value=extent)) if extent < 1:
            return None
        case For(body=body) | Alloc(body=body):
            kept = without_dead_loops(body)
            return node if kept is body else None if kept is None else replace(node, body=kept)
        case Seq(statements=statements):
            parts = [kept for s in statements if (kept := without_dead_loops(s)) is not None]
            return seq(*parts) if parts else None
    return node


def rebase(node: Stmt, name: str, buffer: Buffer, starts: tuple[Expr, ...]) -> Stmt:
    """The tree with `buffer` in place of `name`; element 0 of `buffer` is the old buffer's element at `starts`."""
    still = all(isinstance(s, Const) and s.value == 0 for s in starts)

    def shift(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return indices if still else tuple([minus(i, s) for i, s in zip(indices, starts, strict=True)])

    def expr(e: Expr) -> Expr:
        for load in loads_in(e):
            if load.buffer.name == name:
                return rewrite(e)
        return e

    def rewrite(e: Expr) -> Expr:
        if type(e) is Var or type(e) is Const:
            return e
        new = map_operands(e, rewrite)
        if isinstance(new, Load) and new.buffer.name == name:
            return Load(buffer, shift(new.indices))
        return new

    def box(region: Region) -> Region:
        if region.buffer.name != name:
            return region
        return Region(buffer=buffer, starts=shift(region.starts), extents=region.extents)

    def visit(statement: Stmt) -> Stmt:
        match statement:
            case For(var=var, extent=extent, body=body, kind=kind):
                new, count = visit(body), extent if isinstance(extent, Const) else expr(extent)
                if new is body and count is extent:
                    return statement
                return For(var=var, extent=count, body=new, kind=kind)
            case Seq(statements=statements):
                return Seq(statements=tuple([visit(s) for s in statements]))
            case Alloc(buffer=allocated, body=body):
                return Alloc(buffer=allocated, body=visit(body))
            case Assign():
                value = expr(statement.value)
                target, at = statement.buffer, map_all(statement.indices, expr)
                if target.name == name:
                    target, at = buffer, shift(at)
                elif value is statement.value and at is statement.indices:
                    return statement
                return Assign(name=statement.name, buffer=target, indices=at, value=value)
            case Reduce():
                value = expr(statement.value)
                target, at = statement.buffer, map_all(statement.indices, expr)
                if target.name == name:
                    target, at = buffer, shift(at)
                elif value is statement.value and at is statement.indices:
                    return statement
                return Reduce(
                    name=statement.name,
                    op=statement.op,
                    buffer=target,
                    indices=at,
                    value=value,
                    first=statement.first,
                )
            case Copy():
                to, of = box(statement.destination), box(statement.source)
                if to is statement.destination and of is statement.source:
                    return statement
                return Copy(
                    name=statement.name,
                    destination=to,
                    source=of,
                    pad=statement.pad,
                    asynchronous=statement.asynchronous,
                )
            case Intrinsic():
                operands = tuple([box(r) for r in statement.operands])
                if all(a is b for a, b in zip(operands, statement.operands, strict=True)):
                    return statement
                return Intrinsic(
                    name=statement.name,
                    declaration=statement.declaration,
                    operands=operands,
                    first=statement.first,
                    pad=statement.pad,
                    attributes=statement.attributes,
                )
        return statement

    return visit(node)

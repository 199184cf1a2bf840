"""Walking and rewriting trees; every rewrite returns the same object where nothing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeVar, overload

from .expr import Binary, Call, Cast, Const, Expr, Load, Operand, Select, Var, binary, cast, select
from .stmt import (
    Alloc,
    Assign,
    Copy,
    For,
    Intrinsic,
    Node,
    Program,
    Reduce,
    Region,
    Seq,
    Stmt,
)

Rewrite = Callable[[Expr], Expr]
N = TypeVar("N", Program, Stmt)


# Expressions


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions of an expression."""
    if type(expr) is Binary:
        return expr.a, expr.b
    if type(expr) is Var or type(expr) is Const:
        return ()
    match expr:
        case Load(indices=indices):
            return indices
        case Cast(value=value):
            return (value,)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case Call(arguments=arguments):
            return arguments
    return ()


def map_operands(expr: Expr, rewrite: Rewrite) -> Expr:
    """`expr` with `rewrite` applied to its direct sub-expressions; constants are folded where something changed."""
    match expr:
        case Var() | Const():
            return expr
        case Binary(op=op, a=a, b=b):
            x, y = rewrite(a), rewrite(b)
            return expr if x is a and y is b else binary(op, x, y)
        case Load(buffer=buffer, indices=indices):
            new = map_all(indices, rewrite)
            return expr if new is indices else Load(buffer, new)
        case Cast(value=value, dtype=dtype):
            x = rewrite(value)
            return expr if x is value else cast(x, dtype)
        case Select(condition=c, then=a, otherwise=b):
            z, x, y = rewrite(c), rewrite(a), rewrite(b)
            return expr if z is c and x is a and y is b else select(z, x, y)
        case Call(function=function, arguments=arguments, dtype=dtype):
            new = map_all(arguments, rewrite)
            return expr if new is arguments else Call(function, new, dtype)


def map_all(exprs: tuple[Expr, ...], rewrite: Rewrite) -> tuple[Expr, ...]:
    """The results of `rewrite` on each expression; the same tuple if no expression changed."""
    new = tuple([rewrite(e) for e in exprs])
    for old, now in zip(exprs, new, strict=True):
        if old is not now:
            return new
    return exprs


def map_expr(expr: Expr, rewrite: Rewrite) -> Expr:
    """The expression after `rewrite` was applied to every sub-expression, children before parents."""
    return rewrite(map_operands(expr, lambda e: map_expr(e, rewrite)))


def substitute_expr(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with each variable whose name is in `values` replaced by its value."""
    # No nested function: a recursive closure is a reference cycle, and thousands of cycles burden the garbage
    # collector.
    if type(expr) is Const:
        return expr
    if isinstance(expr, Var):  # Reduction axes are variables of a subclass.
        return values.get(expr.name, expr)
    if values.keys().isdisjoint(variables_in(expr)):
        return expr
    if type(expr) is Binary:
        x, y = substitute_expr(expr.a, values), substitute_expr(expr.b, values)
        return expr if x is expr.a and y is expr.b else binary(expr.op, x, y)
    return map_operands(expr, lambda operand: substitute_expr(operand, values))


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """`expr` and all its sub-expressions, parents first."""
    # Every analysis of every primitive calls this function, so common nodes are distinguished without matching.
    found: list[Expr] = []
    stack = [expr]
    while stack:
        top = stack.pop()
        found.append(top)
        if type(top) is Binary:
            stack.append(top.b)
            stack.append(top.a)
        elif type(top) is not Var and type(top) is not Const:
            stack.extend(reversed(operands(top)))
    return iter(found)


def loads_in(expr: Expr) -> tuple[Load, ...]:
    """The loads in an expression, outer loads before the loads in their indices."""
    if type(expr) is Var or type(expr) is Const:
        return ()
    kept: tuple[Load, ...] | None = getattr(expr, "kept_loads", None)
    if kept is None:
        kept = (expr,) if type(expr) is Load else ()
        for operand in operands(expr):
            kept += loads_in(operand)
        _keep_loads(expr, kept)
    return kept


_keep_loads = Operand.__dict__["kept_loads"].__set__


def variables_in(expr: Expr) -> frozenset[str]:
    """The names of the variables in an expression."""
    if type(expr) is Const:
        return _NONE
    kept: frozenset[str] | None = getattr(expr, "kept_variables", None)
    if kept is None:
        if isinstance(expr, Var):
            kept = frozenset((expr.name,))
        else:
            kept = _NONE
            for operand in operands(expr):
                more = variables_in(operand)
                if not more <= kept:
                    kept = kept | more if kept else more
        _keep_variables(expr, kept)
    return kept


_NONE: frozenset[str] = frozenset()
_keep_variables = Operand.__dict__["kept_variables"].__set__


# Statements


def children(node: Node) -> tuple[Stmt, ...]:
    """The direct sub-statements of a node (not the bodies of intrinsic declarations)."""
    if type(node) is For or type(node) is Alloc or type(node) is Program:
        return (node.body,)
    return node.statements if type(node) is Seq else ()


def expressions(statement: Node) -> tuple[Expr, ...]:
    """Top-level expressions of a statement alone: extent, indices, value, predicate, starts and extents of regions."""
    match statement:
        case For(extent=extent):
            return (extent,)
        case Assign(indices=indices, value=value):
            return *indices, value
        case Reduce(indices=indices, value=value, first=first):
            return (*indices, value) if first is None else (*indices, value, first)
        case Copy(destination=d, source=s):
            return *d.starts, *d.extents, *s.starts, *s.extents
        case Intrinsic(operands=regions, first=first):
            corners = [e for r in regions for e in (*r.starts, *r.extents)]
            return tuple(corners) if first is None else (*corners, first)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """`node` and all statements in it, in program order, parents first."""
    found: list[Node] = []
    stack: list[Node] = [node]
    # Every primitive calls this function several times, so `children` is inlined.
    while stack:
        top = stack.pop()
        found.append(top)
        if type(top) is For or type(top) is Alloc or type(top) is Program:
            stack.append(top.body)
        elif type(top) is Seq:
            stack.extend(reversed(top.statements))
    return iter(found)


def map_children(node: N, rewrite: Callable[[Stmt], Stmt]) -> N:
    """`node` after `rewrite` was applied to each of its direct sub-statements."""
    match node:
        case For(var=var, extent=extent, body=body, kind=kind):
            new = rewrite(body)
            return node if new is body else For(var=var, extent=extent, body=new, kind=kind)  # type: ignore[return-value]
        case Seq(statements=statements):
            news = tuple([rewrite(s) for s in statements])
            same = all(a is b for a, b in zip(news, statements, strict=True))
            return node if same else _sequence(news)  # type: ignore[return-value]
        case Alloc(buffer=buffer, body=body):
            new = rewrite(body)
            return node if new is body else Alloc(buffer=buffer, body=new)  # type: ignore[return-value]
        case Program(name=name, parameters=parameters, body=body):
            new = rewrite(body)
            return node if new is body else Program(name=name, parameters=parameters, body=new)  # type: ignore[return-value]
    return node


def _sequence(statements: tuple[Stmt, ...]) -> Seq:
    """A Seq with nested sequences flattened (a rewrite may have turned one statement into several)."""
    if any(isinstance(s, Seq) for s in statements):
        flat: list[Stmt] = []
        for s in statements:
            flat.extend(s.statements if isinstance(s, Seq) else (s,))
        statements = tuple(flat)
    return Seq(statements=statements)


def map_stmt(node: N, rewrite: Callable[[Stmt], Stmt]) -> N:
    """The tree after `rewrite` was applied to every statement, children before parents."""

    def visit(statement: Stmt) -> Stmt:
        return rewrite(map_children(statement, visit))

    return map_children(node, visit) if isinstance(node, Program) else visit(node)  # type: ignore[return-value]


def map_expressions(statement: Stmt, rewrite: Rewrite) -> Stmt:
    """One statement with `rewrite` applied to its own top-level expressions, not to those of its sub-statements."""
    match statement:
        case For(var=var, extent=extent, body=body, kind=kind):
            new = rewrite(extent)
            return statement if new is extent else For(var=var, extent=new, body=body, kind=kind)
        case Assign(name=name, buffer=buffer, indices=indices, value=value):
            at, v = map_all(indices, rewrite), rewrite(value)
            same = at is indices and v is value
            return statement if same else Assign(name=name, buffer=buffer, indices=at, value=v)
        case Reduce(name=name, op=op, buffer=buffer, indices=indices, value=value, first=first):
            at, v, f = map_all(indices, rewrite), rewrite(value), None if first is None else rewrite(first)
            if at is indices and v is value and f is first:
                return statement
            return Reduce(name=name, op=op, buffer=buffer, indices=at, value=v, first=f)
        case Copy(destination=destination, source=source):
            d, s = map_region(destination, rewrite), map_region(source, rewrite)
            same = d is destination and s is source
            return statement if same else replace(statement, destination=d, source=s)
        case Intrinsic(operands=regions, first=first):
            new = tuple([map_region(r, rewrite) for r in regions])
            f = None if first is None else rewrite(first)
            same = f is first and all(a is b for a, b in zip(new, regions, strict=True))
            return statement if same else replace(statement, operands=new, first=f)
    return statement


def map_region(region: Region, rewrite: Rewrite) -> Region:
    """A region with `rewrite` applied to its starts and extents."""
    starts, extents = map_all(region.starts, rewrite), map_all(region.extents, rewrite)
    if starts is region.starts and extents is region.extents:
        return region
    return Region(buffer=region.buffer, starts=starts, extents=extents)


def map_all_expressions(node: N, rewrite: Rewrite) -> N:
    """A tree with `map_expressions` applied to every statement."""

    def visit(statement: Stmt) -> Stmt:
        return map_expressions(map_children(statement, visit), rewrite)

    return map_children(node, visit) if isinstance(node, Program) else visit(node)  # type: ignore[return-value]


def substitute(node: N, values: Mapping[str, Expr]) -> N:
    """A tree with each free variable whose name is in `values` replaced by its value. In the body of a loop over a
    variable, occurrences of this variable are not free.
    """

    def rewrite(e: Expr) -> Expr:
        return substitute_expr(e, values)

    def visit(statement: Stmt) -> Stmt:
        if isinstance(statement, For) and statement.var.name in values:
            inner = {k: v for k, v in values.items() if k != statement.var.name}
            return map_expressions(map_children(statement, lambda body: substitute(body, inner)), rewrite)
        return map_expressions(map_children(statement, visit), rewrite)

    return map_children(node, visit) if isinstance(node, Program) else visit(node)  # type: ignore[return-value]


@overload
def free_vars(node: Expr) -> frozenset[str]: ...
@overload
def free_vars(node: Node) -> set[str]: ...
def free_vars(node: Expr | Node) -> AbstractSet[str]:
    """Names of the variables that are used in `node` but not bound by a loop inside `node`."""
    if isinstance(node, Operand):
        return variables_in(node)
    names: set[str] = set()
    for e in expressions(node):
        names |= variables_in(e)
    for child in children(node):
        inner = free_vars(child)
        if isinstance(node, For):
            inner.discard(node.var.name)
        names |= inner
    return names


# Finding things by name


def loops(node: Node) -> Iterator[For]:
    """All loops in program order, outer before inner."""
    return (s for s in walk(node) if isinstance(s, For))


def path_to(node: Node, name: str) -> tuple[Node, ...]:
    """The nodes from `node` down to the loop or statement called `name`, both included.

    A loop takes precedence over a statement of the same name, and the first in program order over later ones. Raises
    LookupError, with the names that exist, if there is none.
    """
    for kinds in (_LOOPS, _NAMED):
        found = _path(node, name, kinds)
        if found is not None:
            return found
    known = [s.name for s in walk(node) if isinstance(s, For | Assign | Reduce | Copy | Intrinsic)]
    raise LookupError(f"no loop or statement named {name!r}; there are: {', '.join(known)}")


_LOOPS, _NAMED = frozenset({For}), frozenset({Assign, Reduce, Copy, Intrinsic})


def _path(node: Node, name: str, kinds: frozenset[type]) -> tuple[Node, ...] | None:
    path: list[Node] = []
    while True:
        path.append(node)
        if type(node) in kinds and node.name == name:  # type: ignore[union-attr]
            return tuple(path)
        inner = children(node)
        if len(inner) != 1:
            break
        node = inner[0]
    for child in inner:
        below = _path(child, name, kinds)
        if below is not None:
            return (*path, *below)
    return None

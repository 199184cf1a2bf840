"""compute_inline: replaces reads of a buffer by the value that is assigned to it."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.expr import Expr, Load, Var
from ..ir.stmt import Alloc, Assign, Copy, For, Intrinsic, Node, Program, Seq, Stmt, seq
from ..ir.visit import map_all_expressions, map_expr, substitute_expr
from .errors import LegalityError
from .legality import asynchronous, check_bounds, touches
from .tree import locate, locate_alloc, rebuild, tidy


def compute_inline(program: Program, name: str) -> Program:
    """Replaces every read of the buffer that the Assign `name` writes by the assigned value, and removes the Assign.

    rewrite:
        alloc T[n]
        for a in range(n):                 for i in range(n):
            T[a] = f(a)              ->        C[i] = f(i + 1)
        for i in range(n):
            C[i] = T[i + 1]

    Legal under these conditions. The buffer is allocated in the program, directly around the sequence with the Assign's
    loops, and no other statement writes it. The indices of the written element are the variables of these loops, each
    once. All other uses of the buffer come later and read single elements (no copies, no intrinsics). No later
    statement in the sequence writes a buffer that the Assign reads. Elements read several times are computed again."""
    statement = locate(program, name)[-1]
    if not isinstance(statement, Assign):
        raise LegalityError(f"cannot inline {name}: it is not an assignment", program, name)
    buffer = statement.buffer.name
    path = locate_alloc(program, buffer)
    if path is None:
        raise LegalityError(f"cannot inline {name}: {buffer} is a parameter of the program", program, name)
    alloc = path[-1]
    assert isinstance(alloc, Alloc)
    if (held := asynchronous(alloc)) is not None:
        raise LegalityError(f"cannot inline {name}: {held}", program, name)
    inner: Stmt = alloc.body
    parents: list[Stmt] = []
    while isinstance(inner, Alloc):
        parents.append(inner)
        inner = inner.body
    statements = inner.statements if isinstance(inner, Seq) else (inner,)
    position = next((i for i, s in enumerate(statements) if _leaf(s) is statement), None)
    if position is None:
        reason = (
            f"cannot inline {name}: the loops around it must be directly inside the allocation of {buffer} and contain "
            f"only {name}"
        )
        raise LegalityError(reason, program, name)
    variables = _variables(statements[position], statement, program, name)
    read = touches(statements[position]).keys() - {buffer}
    others = (*statements[:position], *statements[position + 1 :])
    for index, other in enumerate(others):
        uses = touches(other)
        for use in uses.get(buffer, []):
            if use.write or index < position or isinstance(use.by, Copy | Intrinsic):
                reason = (
                    f"cannot inline {name}: {use.by.name} must only read elements of {buffer}, after {name}"
                )
                raise LegalityError(reason, program, use.by.name)
        overwritten = {n for n, us in uses.items() if any(u.write for u in us)}
        if index >= position and (clash := sorted(read & overwritten)):
            raise LegalityError(
                f"cannot inline {name}: {clash[0]}, which it reads, is overwritten later", program, name
            )

    def expand(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer.name == buffer:
            values: Mapping[str, Expr] = dict(zip(variables, e.indices, strict=True))
            return substitute_expr(statement.value, values)
        return e

    expanded = [map_all_expressions(s, lambda e: map_expr(e, expand)) for s in others]
    body = seq(*(_tidy_all(s) for s in expanded))
    for parent in reversed(parents):
        assert isinstance(parent, Alloc)
        body = Alloc(buffer=parent.buffer, body=body)
    return check_bounds(rebuild(path, body), program, name)


def _leaf(node: Node) -> Node:
    while isinstance(node, For):
        node = node.body
    return node


def _variables(nest: Stmt, statement: Assign, program: Program, name: str) -> list[str]:
    loops: set[str] = set()
    node = nest
    while isinstance(node, For):
        loops.add(node.name)
        node = node.body
    variables = [i.name for i in statement.indices if isinstance(i, Var) and i.name in loops]
    if len(variables) != len(statement.indices) or set(variables) != loops or len(loops) != len(variables):
        reason = f"cannot inline {name}: its indices are not the variables of its loops, each once"
        raise LegalityError(reason, program, name)
    return variables


def _tidy_all(statement: Stmt) -> Stmt:
    match statement:
        case For(var=var, extent=extent, body=body, kind=kind):
            return For(var=var, extent=extent, body=_tidy_all(body), kind=kind)
        case Seq(statements=statements):
            return Seq(statements=tuple(_tidy_all(s) for s in statements))
        case Alloc(buffer=buffer, body=body):
            return Alloc(buffer=buffer, body=_tidy_all(body))
    return tidy(statement)

"""Several copies of one buffer that take turns: accesses with a leading index, the number of the copy."""

from __future__ import annotations

from dataclasses import replace

from .expr import Buffer, Const, Expr, Load
from .stmt import Alloc, Assign, Copy, For, Intrinsic, Reduce, Region, Seq, Stmt
from .visit import map_expr, map_expressions


def in_slot(statement: Stmt, wide: Buffer, slot: Expr) -> Stmt:
    """`statement` with every access to the buffer of that name going to copy `slot` of `wide`.

    `wide` has the old buffer's name, and its shape behind the number of copies.
    """

    def access(region: Region) -> Region:
        if region.buffer.name != wide.name:
            return region
        return Region(buffer=wide, starts=(slot, *region.starts), extents=(Const(1), *region.extents))

    def loads(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.buffer.name == wide.name:
            return Load(wide, (slot, *expr.indices))
        return expr

    def visit(node: Stmt) -> Stmt:
        match node:
            case For():
                return replace(node, body=visit(node.body))
            case Seq():
                return Seq(statements=tuple(visit(item) for item in node.statements))
            case Alloc():
                return Alloc(buffer=node.buffer, body=visit(node.body))
            case Copy():
                return replace(node, destination=access(node.destination), source=access(node.source))
            case Intrinsic():
                return replace(node, operands=tuple(access(operand) for operand in node.operands))
            case Assign() | Reduce():
                changed = map_expressions(node, lambda expr: map_expr(expr, loads))
                assert isinstance(changed, Assign | Reduce)
                if changed.buffer.name == wide.name:
                    return replace(changed, buffer=wide, indices=(slot, *changed.indices))
                return changed
            case _:
                return node

    return visit(statement)

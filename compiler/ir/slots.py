"""Slots: copies of one buffer that are used in turn; accesses get a leading index, the number of the copy."""

from __future__ import annotations

from dataclasses import replace

from .expr import Buffer, Const, Expr, Load
from .stmt import Alloc, Assign, Copy, For, Intrinsic, Reduce, Region, Seq, Stmt
from .visit import expressions, loads_in, map_expr, map_expressions


def in_slot(statement: Stmt, wide: Buffer, slot: Expr) -> Stmt:
    """`statement` with every access to the buffer called like `wide` redirected to copy `slot` of `wide`.

    `wide` has the old buffer's name; its shape is the number of copies followed by the old shape.
    """

    def access(region: Region) -> Region:
        if region.buffer.name != wide.name:
            return region
        return Region(buffer=wide, starts=(slot, *region.starts), extents=(Const(1), *region.extents))

    def touched(node: Assign | Reduce) -> bool:
        if node.buffer.name == wide.name:
            return True
        return any(load.buffer.name == wide.name for top in expressions(node) for load in loads_in(top))

    def loads(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.buffer.name == wide.name:
            return Load(wide, (slot, *expr.indices))
        return expr

    def visit(node: Stmt) -> Stmt:
        match node:
            case For():
                return For(var=node.var, extent=node.extent, body=visit(node.body), kind=node.kind)
            case Seq():
                return Seq(statements=tuple([visit(item) for item in node.statements]))
            case Alloc():
                return Alloc(buffer=node.buffer, body=visit(node.body))
            case Copy(destination=to, source=of) if (
                to.buffer.name == wide.name or of.buffer.name == wide.name
            ):
                return replace(node, destination=access(to), source=access(of))
            case Intrinsic(operands=operands) if any(item.buffer.name == wide.name for item in operands):
                return replace(node, operands=tuple([access(operand) for operand in operands]))
            case Assign() | Reduce() if touched(node):
                changed = map_expressions(node, lambda expr: map_expr(expr, loads))
                assert isinstance(changed, Assign | Reduce)
                if changed.buffer.name == wide.name:
                    return replace(changed, buffer=wide, indices=(slot, *changed.indices))
                return changed
            case _:
                return node

    return visit(statement)

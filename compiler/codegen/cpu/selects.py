"""Selects (choices between two values by a condition) whose condition is known only at run time: select instructions,
or branches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import Binary, Expr, Load, Select, dtype_of
from ...ir.types import DType
from ...ir.visit import walk_expr
from .text import Value, constant, type_text

if TYPE_CHECKING:
    from .expressions import ExpressionEmitter


def selected(values: ExpressionEmitter, expr: Select) -> Value:
    """Emits the value of a Select whose condition is unknown at compile time. An operand that loads from memory is
    evaluated only in the lanes in which the condition chooses it. Exception: if the condition performs the same loads
    as the operand, the loads are safe, and both operands are evaluated in all lanes.
    """
    condition = values.expr(expr.condition)
    loads = _loaded(expr.then) | _loaded(expr.otherwise)
    if not loads or loads <= _always_loaded(expr.condition):
        return values.block.select(condition, values.expr(expr.then), values.expr(expr.otherwise))
    if condition.lanes > 1:
        then = _masked_value(values, condition, expr.then)
        negated = values.block.binary("xor", condition, constant(True, DType.BOOL))
        return values.block.select(condition, then, _masked_value(values, negated, expr.otherwise))
    # Under a condition on lanes, loads are vectors even if all lanes read the same element.
    varies = values.guarded or values.varies(expr.then) or values.varies(expr.otherwise)
    lanes = values.vector.lanes if values.vector is not None and varies else 1
    labels = [values.block.name("L") for _ in range(3)]
    values.block.branch(condition, labels[0], labels[1])
    scope = values.block.scope()
    incoming: list[str] = []
    for label, side in zip(labels, (expr.then, expr.otherwise), strict=False):
        values.block.begin(label, scope)
        value = values.block.splat(values.expr(side), lanes)
        incoming.append(f"[ {value.text}, %{values.block.label} ]")
        values.block.jump(labels[2])
    values.block.begin(labels[2], scope)
    dtype = dtype_of(expr)
    return values.block.define(f"phi {type_text(dtype, lanes)} {', '.join(incoming)}", dtype, lanes)


def _masked_value(values: ExpressionEmitter, condition: Value, expr: Expr) -> Value:
    """The value of `expr`. Memory is accessed only in the lanes in which `condition` is true."""
    mask, guarded = values.mask, values.guarded
    values.mask = condition if mask is None else values.block.binary("and", mask, condition)
    values.guarded = True
    value = values.expr(expr)
    values.mask, values.guarded = mask, guarded
    return value


def _loaded(expr: Expr) -> set[Expr]:
    return {e for e in walk_expr(expr) if isinstance(e, Load)}


def _always_loaded(condition: Expr) -> set[Expr]:
    """The loads that evaluating a condition always performs; empty if the condition contains a select, "and" or
    "or".
    """
    decides = any(
        isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("and", "or"))
        for e in walk_expr(condition)
    )
    return set() if decides else _loaded(condition)

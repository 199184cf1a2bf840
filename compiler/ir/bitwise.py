"""Operators on the bits of two integers; few programs have any."""

from __future__ import annotations

from .expr import Call, Expr, ExprLike, OperandError, dtype_of, wrap
from .types import DType

FUNCTIONS = {
    "and": "bit_and",
    "or": "bit_or",
    "xor": "bit_xor",
    "lshift": "shift_left",
    "rshift": "shift_right",
}
"""The scalar function of each operator. Shifts to the right are arithmetic for signed types; a shift by a negative
number or by at least the width shifts all bits out.
"""


def bitwise(operator: str, left: ExprLike, right: ExprLike) -> Expr:
    """The expression of an operator of FUNCTIONS on two integers of one type; a Python integer gets the type of the
    other operand. Raises OperandError for operands that are not integers of one type.
    """
    a = wrap(left, dtype_of(wrap(right, DType.INT32)))
    b = wrap(right, dtype_of(a))
    if not dtype_of(a).is_integer or dtype_of(a) is not dtype_of(b):
        raise OperandError(
            f"{FUNCTIONS[operator]} of {dtype_of(a)} and {dtype_of(b)}: needs two integers of one type; cast one"
        )
    return Call(FUNCTIONS[operator], (a, b), dtype_of(a))

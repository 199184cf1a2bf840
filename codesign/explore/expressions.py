"""Arithmetic and conditions over a machine's fields, from the file of a search space: parsed, never executed as Python.

block_out = "block_in"
conditions = ["wgt_buffer_bytes >= 256 * block_in * block_out"]
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vdla.util.errors import UserError

MOST_CHARACTERS = 500
"""Largest number of characters of an expression; the limit keeps nesting shallow."""
MOST_BITS = 128
"""Largest number of bits of a value; without a limit, products of products could fill the memory."""

_BINARY: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A checked expression; `names` are the fields that it reads."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def value(self, fields: Mapping[str, Any]) -> int:
        """The value with these `fields`; a condition is 0 or 1. Raises UserError for a division by 0, for a field that
        is no integer, and for a value of more than `MOST_BITS` bits.
        """
        try:
            return _value(self.tree, fields)
        except (ZeroDivisionError, TypeError, OverflowError) as error:
            raise UserError(f'"{self.text}": {error}') from None


def parse_expression(text: str) -> Expression:
    """Parses an expression of integers and fields: sums, differences, products, `//`, `%`, negation, comparisons,
    `and`, `or`, `not`. Raises UserError for anything else.
    """
    if len(text) > MOST_CHARACTERS:
        raise UserError(f"an expression has {len(text)} characters; at most {MOST_CHARACTERS} are allowed")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UserError(f'"{text}" is not an expression of fields and integers') from None
    _check(tree, text)
    names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return Expression(text=text, tree=tree, names=names)


def _check(tree: ast.expr, text: str) -> None:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=value) if type(value) is int and value.bit_length() < MOST_BITS:
                continue
            case ast.BinOp(op=op) if type(op) in _BINARY:
                continue
            case ast.Compare(ops=ops) if all(type(op) in _COMPARE for op in ops):
                continue
            case ast.UnaryOp(op=ast.Not() | ast.USub()) | ast.BoolOp() | ast.Name():
                continue
            case ast.operator() | ast.cmpop() | ast.boolop() | ast.unaryop() | ast.expr_context():
                continue
            case _:
                part = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
                raise UserError(
                    f'"{text}": {part} is not allowed; use fields, integers, + - * // %, comparisons, and, or, not'
                )


def _value(node: ast.expr, fields: Mapping[str, Any]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            value = fields[name]
            if type(value) is not int:
                raise TypeError(f"{name} = {value!r} is not an integer")
            return value
        case ast.BinOp(left=left, op=op, right=right):
            value = _BINARY[type(op)](_value(left, fields), _value(right, fields))
            if value.bit_length() > MOST_BITS:
                raise OverflowError("a value is too large")
            return value
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return int(not _value(operand, fields))
        case ast.UnaryOp(operand=operand):
            return -_value(operand, fields)
        case ast.BoolOp(op=ast.And(), values=values):
            return int(all(_value(item, fields) for item in values))
        case ast.BoolOp(values=values):
            return int(any(_value(item, fields) for item in values))
        case ast.Compare(left=left, ops=ops, comparators=others):
            chain = [_value(item, fields) for item in (left, *others)]
            return int(all(_COMPARE[type(op)](a, b) for op, a, b in zip(ops, chain, chain[1:], strict=False)))
        case _:
            raise AssertionError(ast.dump(node))

"""Boolean expressions of Liberty files: a parser, and truth tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..synthesis.liberty_syntax import LibertyError

Expression = tuple[str, tuple["Expression", ...]] | str
"""A pin's name, "0", "1", or an operator ("not", "and", "or", "xor") with its operands."""

_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9\[\]]*|[01]|[()!'^&*+|])\s*")
_STARTS = re.compile(r"[A-Za-z_01(!]")


def parse_expression(text: str) -> Expression:
    """Parses the text of a Liberty attribute `function`, `when` or `next_state`. Raises LibertyError."""
    tokens, at = list[str](), 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise LibertyError(f'the expression "{text}" has a syntax error at "{text[at:]}"')
        tokens.append(match[1])
        at = match.end()
    found, rest = _sum(tokens, 0, text)
    if rest != len(tokens):
        raise LibertyError(f'the expression "{text}" must end before "{tokens[rest]}"')
    return found


def _sum(tokens: list[str], at: int, text: str) -> tuple[Expression, int]:
    left, at = _product(tokens, at, text)
    while at < len(tokens) and tokens[at] in "+|":
        right, at = _product(tokens, at + 1, text)
        left = ("or", (left, right))
    return left, at


def _product(tokens: list[str], at: int, text: str) -> tuple[Expression, int]:
    left, at = _difference(tokens, at, text)
    # Two adjacent operands without an operator are a product, too.
    while at < len(tokens) and (tokens[at] in "&*" or _STARTS.match(tokens[at])):
        right, at = _difference(tokens, at + (tokens[at] in "&*"), text)
        left = ("and", (left, right))
    return left, at


def _difference(tokens: list[str], at: int, text: str) -> tuple[Expression, int]:
    left, at = _operand(tokens, at, text)
    while at < len(tokens) and tokens[at] == "^":
        right, at = _operand(tokens, at + 1, text)
        left = ("xor", (left, right))
    return left, at


def _operand(tokens: list[str], at: int, text: str) -> tuple[Expression, int]:
    if at == len(tokens):
        raise LibertyError(f'the expression "{text}" ends too early')
    token = tokens[at]
    found: Expression
    if token == "!":
        inner, at = _operand(tokens, at + 1, text)
        found = ("not", (inner,))
    elif token == "(":
        found, at = _sum(tokens, at + 1, text)
        if at == len(tokens) or tokens[at] != ")":
            raise LibertyError(f'the expression "{text}" lacks a ")"')
        at += 1
    elif _STARTS.match(token):
        found, at = token, at + 1
    else:
        raise LibertyError(f'the expression "{text}" has "{token}" where a pin is expected')
    while at < len(tokens) and tokens[at] == "'":
        found, at = ("not", (found,)), at + 1
    return found, at


def pins_of(expression: Expression) -> set[str]:
    """The names of the pins in an expression, without the constants "0" and "1"."""
    if isinstance(expression, str):
        return set() if expression in "01" else {expression}
    return set[str]().union(*(pins_of(part) for part in expression[1]))


def truth_table(expression: Expression, pins: Sequence[str]) -> int:
    """The truth table as an integer: bit i is the value of the expression when pin number k of `pins` has the value of
    bit k of i. Raises LibertyError for a pin that is not among `pins`.
    """
    if missing := pins_of(expression) - set(pins):
        raise LibertyError(
            f"an expression names {', '.join(sorted(missing))}, which is not an input of the cell"
        )
    table = 0
    for i in range(1 << len(pins)):
        values = {pin: i >> k & 1 for k, pin in enumerate(pins)}
        table |= _value(expression, values) << i
    return table


def _value(expression: Expression, values: dict[str, int]) -> int:
    if isinstance(expression, str):
        return int(expression) if expression in "01" else values[expression]
    operator, operands = expression
    found = [_value(operand, values) for operand in operands]
    if operator == "not":
        return 1 - found[0]
    if operator == "and":
        return found[0] & found[1]
    return found[0] | found[1] if operator == "or" else found[0] ^ found[1]

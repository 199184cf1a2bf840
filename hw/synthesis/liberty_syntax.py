"""Parses the syntax of Liberty files: groups of attributes, in the order of the text.

A Liberty file has groups `name (arguments) { ... }` of attributes `name : value;` and `name (values);` (Synopsys,
Liberty user guide, volume 1, "Liberty syntax"). PyPI's liberty-parser, which uses lark and sympy, takes half a minute
for a file of half a megabyte; this parser takes less than a second.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from vdla.util.errors import UserError

MOST_BYTES = 512 << 20
"""Size in bytes of the largest accepted file; the largest libraries of foundries have several hundred megabytes."""

_TOKEN = re.compile(
    r'/\*.*?\*/|//[^\n]*|\\\r?\n|\s+|"((?:[^"\\]|\\.|\\\n)*)"|([(){}:;,])|([^\s(){}:;,"]+)', re.DOTALL
)
_Token = tuple[str, bool]
"""A token: its text without quotes, and whether it was quoted."""
_OPEN, _CLOSE, _END, _LAST = ("{", False), ("}", False), (";", False), (")", False)


class LibertyError(UserError):
    """Raised if a file is no Liberty file, or lacks a group or attribute that is needed."""


@dataclass(slots=True)
class Group:
    """A group `name(arguments) { ... }`. `simple`: the value, without quotes, of each attribute `name : value;`.
    `complex`: the list of values of each attribute `name (values);`. Of several attributes with one name, the last
    counts. `groups`: inner groups, in order.
    """

    name: str
    arguments: list[str]
    simple: dict[str, str] = field(default_factory=dict[str, str])
    complex: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    groups: list[Group] = field(default_factory=list["Group"])

    def named(self, *names: str) -> Iterator[Group]:
        """The inner groups whose name is one of `names`."""
        return (group for group in self.groups if group.name in names)


def parse_groups(text: str, *, skipped: Container[str] = ()) -> Group:
    """Parses a Liberty text; returns its outermost group. Inner groups with names in `skipped` are left out. Raises
    LibertyError.
    """
    tokens = [
        (m[1], True) if m[1] is not None else (m[2] or m[3], False)
        for m in _TOKEN.finditer(text)
        if m[1] is not None or m[2] or m[3]
    ]
    if not tokens:
        raise LibertyError("it is empty")
    root = Group("", [])
    try:
        at = _statements(tokens, 0, root, skipped)
    except IndexError:
        raise LibertyError("it ends inside a group, so it may be incomplete") from None
    if at != len(tokens) or len(root.groups) != 1:
        raise LibertyError("it is not one group library(...) { ... }")
    return root.groups[0]


def _statements(tokens: list[_Token], at: int, into: Group, skipped: Container[str]) -> int:
    """Reads statements, from token number `at` on, and adds them to the group `into`. Inner groups with names in
    `skipped` are left out. Stops at the group's closing brace or, at the top level, at the end of the text. Returns the
    index of the brace, or the number of tokens. Raises IndexError if the text ends inside a statement.
    """
    while at < len(tokens) and tokens[at] != _CLOSE:
        name = tokens[at][0]
        if name == ";":
            at += 1
            continue
        mark = tokens[at + 1][0] if at + 1 < len(tokens) else ""
        if mark == ":":
            at = _value(tokens, at + 2, name, into)
        elif mark == "(":
            end = at + 2
            while tokens[end] != _LAST:
                end += 1
            arguments = [word for word, quoted in tokens[at + 2 : end] if quoted or word != ","]
            at = end + 1
            if at < len(tokens) and tokens[at] == _OPEN:
                if name in skipped:
                    at = _behind(tokens, at)
                    continue
                inner = Group(name, arguments)
                at = _statements(tokens, at + 1, inner, skipped)
                if at == len(tokens):
                    raise IndexError
                at += 1
                into.groups.append(inner)
            else:
                into.complex[name] = arguments
        else:
            found = f'"{mark}"' if mark else "the end of the file"
            raise LibertyError(f'expected ":" or "(" after "{name}", not {found}')
    return at


def _value(tokens: list[_Token], at: int, name: str, into: Group) -> int:
    """Reads the value of attribute `name` from token `at` on and adds it to the group `into`; returns the index of the
    next token. Some files omit the semicolon after a value.
    """
    end = at
    while end < len(tokens) and tokens[end] not in (_END, _CLOSE):
        end += 1
        if tokens[end - 1][1]:  # A quoted text is the whole value.
            break
        if end < len(tokens) and tokens[end] == (":", False):
            end -= 1  # The last word belongs to the next attribute.
            break
    into.simple[name] = " ".join(word for word, _ in tokens[at:end])
    return end


def _behind(tokens: list[_Token], at: int) -> int:
    """Index of the token after the group whose opening brace is token `at`."""
    depth = 0
    while True:
        depth += {_OPEN: 1, _CLOSE: -1}.get(tokens[at], 0)
        at += 1
        if depth == 0:
            return at

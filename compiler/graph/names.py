"""Names that nothing has yet."""

from __future__ import annotations

from collections.abc import Collection


def unused(name: str, *taken: Collection[str]) -> str:
    """`name`, with a number behind it where one of `taken` has it: name#2, name#3, ..."""
    unique, number = name, 1
    while any(unique in names for names in taken):
        number += 1
        unique = f"{name}#{number}"
    return unique

"""Names that nothing has yet."""

from __future__ import annotations

from collections.abc import Collection


def unused(name: str, taken: Collection[str]) -> str:
    """`name`, with a number behind it where it is taken: name#2, name#3, ..."""
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f"{name}#{number}"
    return unique

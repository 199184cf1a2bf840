"""Unused names for nodes and tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection

_ONE_BY_ONE = 16
"""Numbers tried one by one, before the search doubles and bisects."""


def unused(name: str, *taken: Collection[str]) -> str:
    """`name` if it is in none of `taken`, else `name` with a number: name#2, name#3, ...

    The number is the least free one or, beyond `_ONE_BY_ONE`, one that follows a taken number. The search takes
    logarithmic time: layers of many steps need thousands of names.
    """

    def is_taken(number: int) -> bool:
        candidate = _numbered(name, number)
        return any(candidate in names for names in taken)

    return _numbered(name, first_free(is_taken))


def first_free(is_taken: Callable[[int], bool]) -> int:
    """A free number of 1 or more: the least free one or, beyond `_ONE_BY_ONE`, one that follows a taken number."""
    for number in range(1, _ONE_BY_ONE + 1):
        if not is_taken(number):
            return number
    # Invariant: `low` is taken. After the first loop `high` is free.
    low, high = _ONE_BY_ONE, 2 * _ONE_BY_ONE
    while is_taken(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if is_taken(middle):
            low = middle
        else:
            high = middle
    return high


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"

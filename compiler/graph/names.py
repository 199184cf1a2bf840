"""Names that nothing has yet."""

from __future__ import annotations

from collections.abc import Callable, Collection

_ONE_BY_ONE = 16
"""Numbers that are tried in their order, before the search goes on in steps."""


def unused(name: str, *taken: Collection[str]) -> str:
    """`name`, with a number behind it where one of `taken` has it: name#2, name#3, ...

    The number is the least that is free, or, beyond some numbers, the one behind a number that is taken: the search
    takes the logarithm of the number of names, not the number, as layers of many steps ask for thousands.
    """

    def is_taken(number: int) -> bool:
        candidate = _numbered(name, number)
        return any(candidate in names for names in taken)

    return _numbered(name, first_free(is_taken))


def first_free(is_taken: Callable[[int], bool]) -> int:
    """A number from 1 on that is not taken: the least, or, beyond some numbers, the one behind a taken number."""
    for number in range(1, _ONE_BY_ONE + 1):
        if not is_taken(number):
            return number
    # From here on `low` is taken, and in the end `high` is free.
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

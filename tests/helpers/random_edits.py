"""Random edits of JSON values and tables, as made by a person or by a damaged disk."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

ODD: tuple[Any, ...] = (
    *(0, -1, 1, 2**70, 1.5, 1e308, -1e308, 1e-320, float("nan"), float("inf"), -float("inf"), True, None),
    *("", "x", "\x00", "é", "(" * 200, "9" * 5000, [], {}, [1], {"a": 1}, [[]], [None], [[0, 0, 0]], [[99]]),
)
"""Unusual values, which most fields of a file do not accept."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the paths (tuples of keys and indices) of all items nested in a value, but not of the value itself.
    `path`: the path of the value, with which all paths begin.
    """
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


def edited(random: Random, value: Any, odd: Sequence[Any] = ODD, edits: int = 2) -> Any:
    """A copy of the value with 1 to `edits` random edits: an item is replaced by a value of `odd`, a value of `odd` is
    added, or an item is removed. A value without items stays as it is.
    """
    value = copy.deepcopy(value)
    for _ in range(random.randint(1, edits)):
        paths = list(places(value))
        if not paths:
            break
        *before, last = random.choice(paths)
        at = value
        for key in before:
            at = at[key]
        match random.randrange(4):
            case 0:
                del at[last]
            case 1 if isinstance(at, list):
                at.insert(last, copy.deepcopy(random.choice(odd)))
            case 1:
                at[random.choice(["x", "", last])] = copy.deepcopy(random.choice(odd))
            case _:
                at[last] = copy.deepcopy(random.choice(odd))
    return value

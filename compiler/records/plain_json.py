"""JSON values from untrusted files: checks, texts for messages, canonical form."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from vdla.util.printable import printable

MOST_SHOWN = 60
"""Largest number of characters of a value that a message shows."""
MOST_LEVELS = 8
"""Greatest number of nested levels of a workload or target; the innermost plain values are one of the levels."""
_LEAST, _MOST = -(2**63), 2**63 - 1


def is_integer(value: object) -> bool:
    """Whether the value is an int, not a bool, that fits in 64 signed bits."""
    return type(value) is int and _LEAST <= value <= _MOST


def is_number(value: object) -> bool:
    """Whether the value is a finite float, or an int that fits in 64 signed bits; a bool is not a number."""
    return (type(value) is float and math.isfinite(value)) or is_integer(value)


def is_name(value: object) -> bool:
    """Whether the value is a non-empty printable text of one line."""
    return type(value) is str and value != "" and value.isprintable()


def description_obstacle(name: str, value: object, required: str) -> str | None:
    """The reason why `value` is not a description of a workload or target; None if it is one. A description is a JSON
    object with a name under the key `required`. `name`: name of the value in messages.
    """
    if not isinstance(value, Mapping):
        return f"{name} is {short(value)}, must be an object"
    if not is_name(value.get(required)):
        return f"{name}.{required} is {short(value.get(required))}, must be a name"
    return _value_obstacle(name, value, MOST_LEVELS)


def _value_obstacle(place: str, value: object, levels: int) -> str | None:
    if levels == 0:
        return f"{place} is nested more than {MOST_LEVELS} levels deep"
    if isinstance(value, Mapping):
        for name in value:
            if not is_name(name):
                return f"{place} has a field {short(name)}, must be a printable word"
        inside = [(f"{place}.{name}", item) for name, item in value.items()]
    elif isinstance(value, list | tuple):
        inside = [(f"{place}[{i}]", item) for i, item in enumerate(value)]
    elif value is None or type(value) is bool or is_number(value) or value == "" or is_name(value):
        return None
    else:
        return f"{place} is {short(value)}, must be a plain JSON value"
    obstacles = (_value_obstacle(*item, levels - 1) for item in inside)
    return next((found for found in obstacles if found), None)


def canonical(value: object) -> str:
    """The canonical text of a JSON value: sorted names, no spaces, ASCII; 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def brief(text: str) -> str:
    """The text cut to `MOST_SHOWN` printable characters."""
    return printable(text, MOST_SHOWN)


def short(value: object) -> str:
    """The value's repr cut to `MOST_SHOWN` printable characters."""
    try:
        return brief(repr(value))
    except RecursionError:
        return "nested too deeply"

"""Values of many designs as compact columns of JSON. A value that all designs share is written once. If there are few
distinct values, each is written once, and every design has the index of its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vdla.isa.config import Config
from vdla.isa.config_text import toml_text

from .layers import rounded

FEW = 4
"""Least ratio of the number of designs to the number of distinct values for which a column is written in the shorter
form: a list of the distinct values, and an index for each design.
"""


def column(values: Sequence[Any]) -> Any:
    """A column of one value for each design as JSON: {"all": value} if all are equal, {"values": [distinct values],
    "index": [one for each design]} if few are distinct, else {"each": [values]}.
    """
    keys = [repr(value) for value in values]
    different = dict(zip(keys, values, strict=True))
    if len(different) == 1:
        return {"all": values[0]}
    if len(different) * FEW <= len(values):
        places = {key: place for place, key in enumerate(different)}
        return {"values": list(different.values()), "index": [places[key] for key in keys]}
    return {"each": list(values)}


def numbers(values: Sequence[float | None]) -> Any:
    """A column of numbers for JSON (see `column`): integers exactly, other numbers rounded to the digits that a page
    shows, None for a missing number.
    """
    return column([_digits(value) for value in values])


def _digits(value: float | None) -> float | int | None:
    if value is None:
        return None
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else rounded(value)


def toml_columns(machines: Sequence[Config | None]) -> list[tuple[str, Any]]:
    """The TOML files of machines, line by line. Each item is a pair (key of the line, `column` of its values as texts).
    A column has one text for each machine, None for a machine without the line. `name`, which differs for each machine,
    is left out; keys of [memory] begin with "memory.".
    """
    tables = [{} if machine is None else _lines(machine) for machine in machines]
    longest = max(tables, key=len, default={})
    keys = list(longest)
    for table in tables:
        for before, key in zip([None, *table], table, strict=False):
            if key not in keys:
                # A field that only some machines set is inserted after the line before it.
                keys.insert(0 if before is None else keys.index(before) + 1, key)
    return [(key, column([table.get(key) for table in tables])) for key in keys if key != "name"]


def _lines(machine: Config) -> dict[str, str]:
    found, prefix = {}, ""
    for line in toml_text(machine).splitlines():
        if line == "[memory]":
            prefix = "memory."
        elif line:
            key, _, value = line.partition(" = ")
            found[prefix + key] = value
    return found

"""Conversions of a space's points to knobs and to columns, and helpers of processors' cost models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from ..columns import Columns, Values
from ..space import Account, Axis

T = TypeVar("T")
Words = Mapping[str, Sequence[object]]
"""For axes whose values are indices: the knob values that they index, by axis name."""


def values_of(columns: Columns) -> dict[str, int]:
    """The values of the single point in `columns`, by axis name."""
    return {name: int(values[0]) for name, values in columns.items()}


def knobs_at(kind: type[T], columns: Columns, words: Words | None = None) -> T:
    """The knobs of the single point in `columns`: a dataclass `kind` with a field for each axis.

    Axis values of fields whose type is a Literal or bool are indices of the type's values; for names in `words`,
    indices of `words`.
    """
    known = {**_words(kind), **(words or {})}
    found = values_of(columns).items()
    return kind(**{name: known[name][value] if name in known else value for name, value in found})


def point_of(knobs: object, full: Values, words: Words | None = None) -> dict[str, int]:
    """The axis values of `knobs`. `full`: the axis values for fields that are None, which stands for all."""
    known = {**_words(type(knobs)), **(words or {})}
    values: dict[str, int] = {}
    for name in get_type_hints(type(knobs)):
        held = getattr(knobs, name)
        if held is None:
            values[name] = full[name]
        else:
            values[name] = known[name].index(held) if name in known else int(held)
    return values


@lru_cache(maxsize=16)
def _words(kind: type) -> Words:
    hints = get_type_hints(kind)
    words: dict[str, Sequence[object]] = {
        name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal
    }
    return words | {name: (False, True) for name, hint in hints.items() if hint is bool}


def grid_of(axes: Sequence[Axis], *names: str) -> Columns:
    """All combinations of the values of the named axes."""
    chosen = [axis for axis in axes if axis.name in names]
    grid = np.meshgrid(*(np.array(axis.values, dtype=np.int64) for axis in chosen), indexing="ij")
    return {axis.name: values.ravel() for axis, values in zip(chosen, grid, strict=True)}


def estimates(
    limits: Mapping[str, np.ndarray],
    bound: np.ndarray,
    quantities: Mapping[str, np.ndarray | float],
    effective: Columns,
) -> Account:
    """The Account of n points; scalar quantities are broadcast to n, and all quantities are at least 1e-9."""
    count = len(bound)
    return Account(
        limits=limits,
        bound=bound,
        quantities={
            name: np.maximum(np.broadcast_to(values, count), 1e-9).astype(np.float64)
            for name, values in quantities.items()
        },
        effective=effective,
    )

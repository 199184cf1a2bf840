"""Points of a space as knobs, as columns of a cost model, and what cost models of processors have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from ..space import Account, Axis, Columns, Values

T = TypeVar("T")
Words = Mapping[str, Sequence[object]]
"""What the numbers of an axis stand for, by the axis' name."""


def values_of(columns: Columns) -> dict[str, int]:
    """The values of the only point of these columns."""
    return {name: int(values[0]) for name, values in columns.items()}


def knobs_at(kind: type[T], columns: Columns, words: Words | None = None) -> T:
    """The knobs, a dataclass with a field for each axis, of the only point of these columns.

    Numbers are places among `words`, or among those of a field that is a Literal.
    """
    known = {**_words(kind), **(words or {})}
    found = values_of(columns).items()
    return kind(**{name: known[name][value] if name in known else value for name, value in found})


def point_of(knobs: object, full: Values, words: Words | None = None) -> dict[str, int]:
    """The values of knobs; `full` are those of fields that are None, which stands for all there is."""
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
    """All combinations of the values of the axes that are named."""
    chosen = [axis for axis in axes if axis.name in names]
    grid = np.meshgrid(*(np.array(axis.values, dtype=np.int64) for axis in chosen), indexing="ij")
    return {axis.name: values.ravel() for axis, values in zip(chosen, grid, strict=True)}


def estimates(
    limits: Mapping[str, np.ndarray],
    bound: np.ndarray,
    quantities: Mapping[str, np.ndarray | float],
    effective: Columns,
) -> Account:
    """What a cost model says of points; numbers hold for all of them, and quantities are kept above zero."""
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

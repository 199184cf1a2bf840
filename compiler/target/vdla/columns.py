"""Columns: what many iterations, or many instructions, have in common or not.

Emission evaluates every expression once for all iterations of the loops around it. A column is one int where it is the
same for all of them, or an int64 array with one value a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.int64]
Column: TypeAlias = int | NDArray[np.int64]

_MOST_KEYS = 1 << 31


def pick(column: Column, rows: NDArray[Any]) -> Column:
    """A column of some rows only: their numbers, ascending, or a bool a row."""
    return column[rows] if isinstance(column, np.ndarray) else column


def item(column: Column, row: int) -> int:
    """The value of a column in one row."""
    return int(column[row]) if isinstance(column, np.ndarray) else column


def full(column: Column, count: int) -> Rows:
    """A column as an array of `count` rows."""
    return column if isinstance(column, np.ndarray) else np.full(count, column, dtype=np.int64)


def lesser(a: Any, b: Any) -> Any:
    """The lesser of two columns, row by row."""
    return np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else min(a, b)


def greater(a: Any, b: Any) -> Any:
    """The greater of two columns, row by row."""
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)


def where(condition: Any, then: Column, otherwise: Column) -> Column:
    """`then` in the rows in which a bool column holds, `otherwise` in the others."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, then, otherwise)
    return then if condition else otherwise


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows that agree in some columns: the first row of each group, and the group of each row."""

    first: Rows
    of: Rows

    def __iter__(self):
        """The rows of one group after the other."""
        if len(self.first) == 1:
            yield np.arange(len(self.of))
            return
        for group in range(len(self.first)):
            yield np.flatnonzero(self.of == group)


def group_rows(columns: Iterable[Column], count: int) -> Groups:
    """`count` rows grouped by their values in all `columns`."""
    key, keys = np.zeros(count, dtype=np.int64), 1
    for column in columns:
        if not isinstance(column, np.ndarray) or not count:
            continue
        low, high = int(column.min()), int(column.max())
        if low == high:
            continue
        if keys * (high - low + 1) > _MOST_KEYS:
            _, key = np.unique(key, return_inverse=True)
            keys = count
        key, keys = key * (high - low + 1) + (column - low), keys * (high - low + 1)
    if keys == 1:
        return Groups(np.zeros(min(count, 1), dtype=np.int64), key)
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    return Groups(first, of)

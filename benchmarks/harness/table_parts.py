"""Parts of table rows: means, and figures taken from several objects of a list."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .page import Document


def geomean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers."""
    return statistics.geometric_mean(list(values))


def chosen(key: str, names: Iterable[str] | None = None) -> Callable[[Sequence[Document]], list[Any]]:
    """A function that returns the values of `key` in those objects of a list whose names are in `names` (None: all)."""
    wanted = None if names is None else set(names)
    return lambda rows: [row[key] for row in rows if wanted is None or row["name"] in wanted]


def mean_of(
    key: str, names: Iterable[str] | None = None, pick: Callable[[Iterable[float]], float] = geomean
) -> Callable[[Sequence[Document]], float]:
    """A function that takes a list of objects and returns the geometric mean (or the result of `pick`) of `key` over
    the objects whose names are in `names` (None: all).
    """
    values = chosen(key, names)
    return lambda rows: pick(values(rows))

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
    """A function that selects the objects of a list by name (`names`; None: all) and returns their values of `key`."""
    wanted = None if names is None else set(names)
    return lambda rows: [row[key] for row in rows if wanted is None or row["name"] in wanted]


def mean_of(
    key: str, names: Iterable[str] | None = None, pick: Callable[[Iterable[float]], float] = geomean
) -> Callable[[Sequence[Document]], float]:
    """A function that selects the objects of a list by name (`names`; None: all) and returns the geometric mean of
    their values of `key`, or the result of `pick` in place of the mean.
    """
    values = chosen(key, names)
    return lambda rows: pick(values(rows))

"""A template's knob values at one or many points of its search space; tables with columns computed on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

Values = Mapping[str, int]
"""A setting of a template's knobs: a value for each axis of its space."""


Columns = Mapping[str, np.ndarray]
"""Values of many points (settings of the knobs): an int64 array for each axis, all of one length."""


ESTIMATE = "estimate"
"""Name of the column with a template's own estimate of the cost, in the unit of measurements; some templates have none.
"""


class Deferred(Mapping[str, np.ndarray]):
    """Mapping of column names to arrays. The `known` columns exist already; all others are computed on first access to
    one of them. The choice of default knobs needs known columns (costs) only.
    """

    def __init__(self, compute: Callable[[], Columns], known: Columns = MappingProxyType({})) -> None:
        self._compute = compute
        self._known = known
        self._columns: Columns | None = None

    def _found(self) -> Columns:
        if self._columns is None:
            self._columns = {**self._compute(), **self._known}
        return self._columns

    def __getitem__(self, name: str) -> np.ndarray:
        return self._known[name] if name in self._known else self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())


def one_point(values: Values) -> Columns:
    """The columns of a single point (setting of the knobs)."""
    return {name: np.array([value], dtype=np.int64) for name, value in values.items()}

"""The iterations of the loops around a statement, all at once and in program order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .columns import Column, Rows, pick


@dataclass(frozen=True, slots=True, eq=False)
class Iterations:
    """One row an iteration: what the loops' variables hold by name, and its `position`.

    Positions number all iterations of all statements of a layer in program order, with gaps: so instructions
    of different statements are put in order by sorting, whenever they were made.
    """

    values: Mapping[str, Column]
    position: Rows

    def __len__(self) -> int:
        return len(self.position)

    def chosen(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Iterations:
        """Some of the iterations: their numbers, ascending, or a bool an iteration."""
        values = {name: pick(value, rows) for name, value in self.values.items()}
        return Iterations(values, self.position[rows])

    def shifted(self, positions: int) -> Iterations:
        """The same iterations `positions` later."""
        return Iterations(self.values, self.position + positions) if positions else self

    def fixed(self, names: Iterable[str]) -> Iterations:
        """The same iterations of an inner statement whose loops `names` stand at 0."""
        return Iterations({**self.values, **dict.fromkeys(names, 0)}, self.position)

    def expanded(self, name: str, extent: Column, positions: int) -> Iterations:
        """The iterations of a loop inside: `extent` of each (0 or less: none), `positions` apart."""
        count = len(self)
        if isinstance(extent, np.ndarray):
            extent = np.maximum(extent, 0)
            outer = np.repeat(np.arange(count), extent)
            inner = np.arange(len(outer)) - np.repeat(np.cumsum(extent) - extent, extent)
        elif extent == 1:
            return self.fixed((name,))
        else:
            outer = np.repeat(np.arange(count), max(extent, 0))
            inner = np.tile(np.arange(max(extent, 0)), count)
        within = self.chosen(outer)
        return Iterations({**within.values, name: inner}, within.position + inner * positions)

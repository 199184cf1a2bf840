"""Configuration registers as emission sees them: a CONFIG instruction only where a value really changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class RegisterFile:
    """The values the units' registers will have at this point of the program (zero at launch)."""

    def __init__(self) -> None:
        self._values: dict[str, int] = {}

    def write(self, name: str, values: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the writes of `values` to register `name`, in program order, change it."""
        before = np.empty_like(values)
        before[:1] = self._values.get(name, 0)
        before[1:] = values[:-1]
        if len(values):
            self._values[name] = int(values[-1])
        return values != before

"""Operands of intrinsics and copies as addresses, evaluated for all tiles at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir.stmt import Region
from .columns import Column
from .evaluate import Environment, evaluator


class Access:
    """One operand: its start and extents, and the strides of its leading dimensions in elements.

    On a scratchpad the first dimension selects the copy of the buffer; addresses are element numbers. In DRAM
    addresses count elements from the buffer's address. `least` is the room that the innermost dimension takes even
    where the buffer has less of it: the rows of a weight tile.
    """

    def __init__(
        self,
        region: Region,
        slots: Mapping[str, tuple[int, ...]],
        element_dimensions: int,
        least: int = 1,
    ) -> None:
        buffer = region.buffer
        self.buffer = buffer
        self.slots = None if buffer.name not in slots else np.array(slots[buffer.name], dtype=np.int64)
        leading = len(buffer.shape) - element_dimensions
        strides, stride = [0] * leading, 1
        for d in range(leading - 1, -1, -1):
            strides[d] = stride
            stride *= max(buffer.shape[d], least if d == leading - 1 else 1)
        skip = 0 if self.slots is None else 1
        self._copy = evaluator(region.starts[0]) if skip else None
        self.strides = tuple(strides[skip:])
        self.starts = tuple(evaluator(start) for start in region.starts[skip:leading])
        self.sizes = buffer.shape[skip:leading]
        self.extents = tuple([evaluator(extent) for extent in region.extents[skip:leading]])

    def base(self, environment: Environment) -> Column:
        """First element of the buffer's copy that an iteration uses."""
        if self.slots is None or self._copy is None:
            return 0
        first = self.slots[self._copy(environment)]
        return first if isinstance(first, np.ndarray) else int(first)

    def offset(self, environment: Environment) -> Column:
        """Element number of the region's start within the buffer's copy."""
        total: Column = 0
        for start, stride in zip(self.starts, self.strides, strict=True):
            if stride:
                total = total + start(environment) * stride
        return total

    def step(self, environment: Environment, loop: str | None) -> Column:
        """How many elements the start moves in one iteration of a loop; 0 for none."""
        if loop is None:
            return 0
        following = {**environment, loop: environment[loop] + 1}
        return self.offset(following) - self.offset(environment)

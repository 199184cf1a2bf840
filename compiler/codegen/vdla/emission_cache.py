"""Cache of emitted instructions, for kernels at equal addresses on machines that differ only in fields that kernels do
not read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .program_order import Draft


@dataclass(frozen=True, slots=True, eq=False)
class Drafts:
    """A kernel's instructions before they have numbers, and its micro-op sequences (uint32)."""

    drafts: Sequence[Draft]
    sequences: Sequence[NDArray[np.uint32]]

    @property
    def rows(self) -> int:
        """Number of instructions, including ones that `put_in_order` leaves out."""
        return sum(len(draft.positions) for draft in self.drafts)


class EmissionCache:
    """Least-recently-used cache of drafts, of at most `most` rows; key: kernel, operand addresses, machine."""

    def __init__(self, most: int = 400_000) -> None:
        self._most = most
        self._rows = 0
        self._kept: OrderedDict[Hashable, Drafts] = OrderedDict()

    @property
    def rows(self) -> int:
        """Number of cached rows (instructions)."""
        return self._rows

    def find(self, key: Hashable) -> Drafts | None:
        """The cached drafts of a key; None if there are none."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: Hashable, drafts: Drafts) -> None:
        """Adds drafts under a key that the cache does not have yet; evicts the oldest ones beyond `most` rows."""
        self._kept[key] = drafts
        self._rows += drafts.rows
        while self._rows > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._rows -= oldest.rows

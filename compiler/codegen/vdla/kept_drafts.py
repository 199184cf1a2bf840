"""What emission wrote down before: kernels at the same addresses, on machines that differ where no kernel sees it."""

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
        """Instructions, those left out later among them."""
        return sum(len(draft.positions) for draft in self.drafts)


class KeptDrafts:
    """Drafts by all that decides them; at most `most` rows are kept, those that were used last."""

    def __init__(self, most: int = 400_000) -> None:
        self._most = most
        self._rows = 0
        self._kept: OrderedDict[Hashable, Drafts] = OrderedDict()

    @property
    def rows(self) -> int:
        """How many rows are kept."""
        return self._rows

    def find(self, key: Hashable) -> Drafts | None:
        """What was kept under a key."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: Hashable, drafts: Drafts) -> None:
        """Keep what is not kept yet."""
        self._kept[key] = drafts
        self._rows += drafts.rows
        while self._rows > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._rows -= oldest.rows

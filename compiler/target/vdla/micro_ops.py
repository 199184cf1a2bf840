"""Micro-op sequences: each distinct one is kept once, and loaded into the micro-op memory once if all fit.

A page is a run of layers whose sequences fit the micro-op memory together; a page is loaded as a whole where its first
layer begins. Most networks need one page.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Sequence:
    """Micro-ops `first` .. `last`-1 of a page; the first `overwriting` of them start a sum."""

    page: int
    first: int
    last: int


class MicroOpMemory:
    """Collects the network's micro-op sequences into pages of at most `depth` micro-ops."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.pages: list[list[np.ndarray]] = [[]]
        self._fill = 0
        self._known: dict[bytes, Sequence] = {}

    def place(self, words: np.ndarray) -> Sequence | None:
        """Where the uint32 sequence `words` lies in the current page, added if new; None if it does not fit."""
        key = words.tobytes()
        found = self._known.get(key)
        if found is not None:
            return found
        if self._fill + len(words) > self.depth:
            return None
        found = Sequence(len(self.pages) - 1, self._fill, self._fill + len(words))
        self._known[key] = found
        self.pages[-1].append(words)
        self._fill += len(words)
        return found

    def turn_page(self) -> None:
        """Start an empty page; sequences of the old one are no longer loaded."""
        self.pages.append([])
        self._fill = 0
        self._known = {}

    def contents(self, page: int) -> np.ndarray:
        """The uint32 micro-ops of a page."""
        parts: Iterable[np.ndarray] = self.pages[page]
        return np.concatenate([np.zeros(0, dtype=np.uint32), *parts])

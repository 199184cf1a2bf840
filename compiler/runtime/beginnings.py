"""Search for a longer array that begins with given bytes: the table of 100 positions is a prefix of that of 512."""

from __future__ import annotations

import hashlib
from typing import Generic, TypeVar

import numpy as np

HEAD = 4096
"""Bytes of a prefix that are hashed for the lookup; shorter arrays are not worth sharing."""
ValueT = TypeVar("ValueT")


class Beginnings(Generic[ValueT]):
    """A map from arrays, uint8 [size], to values, looked up by prefix; the arrays must not change."""

    def __init__(self) -> None:
        self._known: dict[bytes, list[tuple[np.ndarray, ValueT]]] = {}

    def add(self, raw: np.ndarray, value: ValueT) -> None:
        """Adds an array, of which later arrays may be prefixes."""
        if raw.size >= HEAD:
            self._known.setdefault(_head(raw), []).append((raw, value))

    def find(self, raw: np.ndarray) -> ValueT | None:
        """The value of the first bytes added that begin with `raw`, or None."""
        if raw.size < HEAD:
            return None
        for longer, value in self._known.get(_head(raw), ()):
            if longer.size >= raw.size and np.array_equal(longer[: raw.size], raw):
                return value
        return None


def _head(raw: np.ndarray) -> bytes:
    return hashlib.sha256(raw[:HEAD].data).digest()

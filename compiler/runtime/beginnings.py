"""Arrays that are the beginning of another one: positions of 100 tokens are the first of those of 512."""

from __future__ import annotations

import hashlib
from typing import Generic, TypeVar

import numpy as np

HEAD = 4096
"""Bytes by which arrays are looked up; less is not worth it."""
ValueT = TypeVar("ValueT")


class Beginnings(Generic[ValueT]):
    """Bytes, as uint8 [size], with a value of each; they must not change."""

    def __init__(self) -> None:
        self._known: dict[bytes, list[tuple[np.ndarray, ValueT]]] = {}

    def add(self, raw: np.ndarray, value: ValueT) -> None:
        """These bytes may be what others begin with from now on."""
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

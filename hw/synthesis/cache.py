"""Caches the results of long tool runs by a hash of their inputs; files are written whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from vdla.util import user_cache

_PART = "synthesis"


def key(*parts: str) -> str:
    """Name of the cache entry for the inputs `parts`: 32 hexadecimal digits of their SHA-256."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def load(name: str, suffix: str) -> bytes | None:
    """The bytes of entry `name` (file ending `suffix`); None if there is no entry or its file was changed."""
    path = user_cache.find_cached(_PART, _file(name, suffix))
    return None if path is None else gzip.decompress(path.read_bytes())


def save(name: str, suffix: str, data: bytes) -> None:
    """Stores `data` as entry `name` (file ending `suffix`); if the user's cache is not writable, for this
    process only.
    """

    def write(path: Path) -> None:
        path.write_bytes(gzip.compress(data, 1, mtime=0))

    user_cache.cached_or_made(_PART, _file(name, suffix), write, lambda path: False)


def _file(name: str, suffix: str) -> str:
    return f"{name}.{suffix}.gz"

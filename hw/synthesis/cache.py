"""Results of long tool runs, kept by a hash of all that goes in; written whole or not at all."""

from __future__ import annotations

import gzip
import hashlib

from vdla.isa.program import write_whole

from .. import user_cache

_PART = "synthesis"


def key(*parts: str) -> str:
    """The name of what follows from `parts`."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def load(name: str, suffix: str) -> bytes | None:
    """What is kept under `name`, or None. A file that does not decompress counts as none."""
    try:
        return gzip.decompress((user_cache.cache_directory(_PART) / f"{name}.{suffix}.gz").read_bytes())
    except (OSError, EOFError, gzip.BadGzipFile):
        return None


def save(name: str, suffix: str, data: bytes) -> None:
    """Keeps `data` under `name`. Raises CacheError or ProgramError, naming the place, when the system refuses."""
    with user_cache.open_cache(_PART) as directory:
        write_whole(directory / f"{name}.{suffix}.gz", gzip.compress(data, 1, mtime=0))

"""Results of long tool runs, kept by a hash of all that goes in; written whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
from pathlib import Path


def cache_directory() -> Path:
    """Where results are kept: $XDG_CACHE_HOME/vdla/synthesis, by default in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vdla" / "synthesis"


def key(*parts: str) -> str:
    """The name of what follows from `parts`."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def load(name: str, suffix: str) -> bytes | None:
    """What is kept under `name`, or None. A file that does not decompress counts as none."""
    try:
        return gzip.decompress((cache_directory() / f"{name}.{suffix}.gz").read_bytes())
    except (OSError, EOFError, gzip.BadGzipFile):
        return None


def save(name: str, suffix: str, data: bytes) -> None:
    """Keeps `data` under `name`."""
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=f".{name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(gzip.compress(data, 1, mtime=0))
        os.replace(temporary, directory / f"{name}.{suffix}.gz")
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise

"""Hash of the RTL's sources and of Amaranth's version: the part of cache keys that does not depend on a
configuration.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path


@lru_cache(maxsize=1)
def sources_digest() -> str:
    """SHA-256, hexadecimal, of the sources of `vdla.hw` and `vdla.isa` and of Amaranth's version."""
    digest = hashlib.sha256(metadata.version("amaranth").encode())
    for package in ("vdla.hw", "vdla.isa"):
        root = Path(str(resources.files(package)))
        for path in sorted((*root.rglob("*.py"), *root.rglob("*.cpp"), *root.rglob("*.h"))):
            digest.update(path.read_bytes())
    return digest.hexdigest()

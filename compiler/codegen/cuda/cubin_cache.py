"""The user's cache of cubins; key: source, architecture, options and NVRTC's version.

The key determines the cubin, so an entry is never out of date. When all entries together exceed `MOST_BYTES`, the least
recently used entries are deleted. One process at a time writes entries, each of them whole. A damaged entry is written
again.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from vdla.util.user_cache import cached_or_made, discard_least_used

from .nvrtc import OPTIONS, compile_cubin, nvrtc_version

PART = "cubins"
MOST_BYTES = 2**28


def cached_cubin(source: str, arch: str) -> bytes:
    """The result of `nvrtc.compile_cubin`, from the cache if possible. Raises the errors of `compile_cubin`."""
    decides = json.dumps([source, arch, OPTIONS, nvrtc_version()], sort_keys=True)
    name = f"{hashlib.sha256(decides.encode()).hexdigest()}.cubin"
    built = False

    def build(partial: Path) -> None:
        nonlocal built
        partial.write_bytes(compile_cubin(source, arch))
        built = True

    path = cached_or_made(PART, name, build)
    data = path.read_bytes()
    if built:
        discard_least_used(PART, ".cubin", MOST_BYTES)
    else:
        with suppress(OSError):
            os.utime(path)
    return data

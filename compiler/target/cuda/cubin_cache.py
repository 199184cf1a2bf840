"""Cubins, kept for this user by what decides their bytes: source, architecture, options and NVRTC's version.

So an entry is never out of date, only unused; the least recently used go when all take more than `MOST_BYTES`.
Entries are written whole by one process at a time, and one that was damaged since is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from vdla.hw.user_cache import cached, discard_least_used

from .nvrtc import OPTIONS, compile_cubin, nvrtc_version

PART = "cubins"
MOST_BYTES = 2**28
_DIGEST = hashlib.sha256().digest_size


def cached_cubin(source: str, arch: str) -> bytes:
    """`nvrtc.compile_cubin`, now or earlier; raises what that does, and CacheError if there is no place to keep it."""
    decides = json.dumps([source, arch, OPTIONS, nvrtc_version()], sort_keys=True)
    name = f"{hashlib.sha256(decides.encode()).hexdigest()}.cubin"
    built = False

    def build(partial: Path) -> None:
        nonlocal built
        cubin = compile_cubin(source, arch)
        partial.write_bytes(hashlib.sha256(cubin).digest() + cubin)
        built = True

    path = cached(PART, name, build, _is_whole)
    data = path.read_bytes()[_DIGEST:]
    if built:
        discard_least_used(PART, ".cubin", MOST_BYTES)
    else:
        with suppress(OSError):
            os.utime(path)
    return data


def _is_whole(path: Path) -> bool:
    """Whether an entry is what was written."""
    data = path.read_bytes()
    return hashlib.sha256(data[_DIGEST:]).digest() == data[:_DIGEST]

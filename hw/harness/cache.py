"""Libraries on disk: one builder at a time for each, whichever processes ask for it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from vdla.isa.errors import UserError


class CacheError(UserError):
    """The cache directory cannot be written."""


def cache_directory() -> Path:
    """Where libraries are kept: $XDG_CACHE_HOME/vdla/rtl, by default in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vdla" / "rtl"


def cached(name: str, build: Callable[[Path], None], valid: Callable[[Path], bool] = Path.exists) -> Path:
    """The path of file `name` in the cache; `build` writes it to the path it is given if it is not there yet.

    A file that is there and not `valid` is built again.

    Of several processes that ask at once, one builds and the others wait. The lock belongs to the builder's process,
    so a builder that dies leaves none behind. Raises CacheError when the directory cannot be written.
    """
    target = cache_directory() / name
    if target.exists() and valid(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_suffix(".lock")):
            if not (target.exists() and valid(target)):
                partial = target.with_suffix(".partial")
                build(partial)
                partial.replace(target)
    except OSError as error:
        raise CacheError(
            f"{target.parent}: {error.strerror}; XDG_CACHE_HOME may name another place for RTL libraries"
        ) from None
    return target


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

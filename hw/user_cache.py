"""What is made once and kept for this user: one builder at a time for each entry, whichever processes ask for it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from vdla.isa.errors import UserError


class CacheError(UserError):
    """The cache directory cannot be written."""


def cache_directory(part: str) -> Path:
    """Where `part` of the toolkit keeps its entries: $XDG_CACHE_HOME/vdla/`part`, by default in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vdla" / part


@contextlib.contextmanager
def open_cache(part: str) -> Iterator[Path]:
    """The directory of `part` to write in, made if it is not there.

    What the system refuses inside of the block is raised as CacheError.
    """
    directory = cache_directory(part)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
    except OSError as error:
        raise CacheError(
            f"{directory}: {error.strerror}; XDG_CACHE_HOME may name another place for caches"
        ) from None


def cached(
    part: str, name: str, build: Callable[[Path], None], valid: Callable[[Path], bool] = Path.exists
) -> Path:
    """The path of entry `name` of `part`; `build` makes it, a file or a folder, at the path it is given.

    An entry that is there and `valid` is not built again. Of several processes that ask at once, one builds and the
    others wait. The lock belongs to the builder's process, so a builder that dies leaves none behind. Raises CacheError
    when the directory cannot be written, and what `build` raises; the entry is then as it was before.
    """
    target = cache_directory(part) / name
    if target.exists() and valid(target):
        return target
    with open_cache(part) as directory, _locked(directory / f"{name}.lock"):
        if not (target.exists() and valid(target)):
            partial = directory / f"{name}.partial"
            _remove(partial)  # of a builder that died
            try:
                build(partial)
                if target.is_dir():
                    _remove(target)
                partial.replace(target)
            finally:
                _remove(partial)
    return target


def discard_least_used(part: str, suffix: str, most_bytes: int) -> None:
    """Removes entries of `part` that end in `suffix`, longest unused first, until they take `most_bytes` at most.

    The last one used stays, whatever its size. The time of use is that of the file's last change: who uses an entry
    sets it (`os.utime`). What another process removes meanwhile, or may not be removed, is passed over.
    """
    entries: list[tuple[float, int, Path]] = []
    for path in cache_directory(part).glob(f"*{suffix}"):
        with contextlib.suppress(OSError):
            status = path.stat()
            entries.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries)[:-1]:
        if total <= most_bytes:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

"""A cache of files and folders built for this user: one process at a time builds an entry, all others wait for it.

Entries contain machine code, so they are used only if this user made them: the folders belong to the user alone
(`util.own_folders`), and each entry has a seal (`cache_seal`), written to its lock file after the build. An entry whose
seal does not match is built again.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from .cache_seal import SEAL_BYTES, is_sealed, locked, seal_of, user_key
from .errors import UserError
from .files import open_file
from .own_folders import make_own_folder
from .whole_files import WriteError


class CacheError(UserError):
    """The cache directory cannot be used: others may write there, or this user may not, or its disk is full."""


def cache_directory(part: str) -> Path:
    """The folder of the entries of `part`: $XDG_CACHE_HOME/vdla/`part`, by default in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vdla" / part


def cached(
    part: str, name: str, build: Callable[[Path], None], valid: Callable[[Path], bool] = Path.exists
) -> Path:
    """The path of entry `name` of `part`; `build` makes it, a file or a folder, at the path in its argument.

    An entry that was built by this function, is unchanged and `valid`, is not built again. If several processes call at
    once, one builds and the others wait. The lock belongs to the builder's process, so it ends when the builder dies.
    Raises CacheError if the directory cannot be used, and all errors of `build`, after which the entry is as it was
    before.
    """
    return _cached_in(cache_directory(part), name, build, valid)


def cached_or_made(
    part: str, name: str, build: Callable[[Path], None], valid: Callable[[Path], bool] = Path.exists
) -> Path:
    """The path of an entry as from `cached`; if the user's cache cannot be used, the entry is built for this process
    alone.

    A warning on standard error, once in a process, says that it is not cached.
    """
    try:
        return cached(part, name, build, valid)
    except CacheError as error:
        say_not_kept(str(error))
        return _cached_in(_for_this_process() / part, name, build, valid)


def other_tools_cache(part: str, *, make: bool = False) -> Path | None:
    """A folder that replaces the unusable cache of another tool, such as numba.

    It is removed when this process ends. None unless this or an earlier call made it.
    """
    if not make and not _for_this_process.cache_info().currsize:
        return None
    place = _for_this_process() / part
    if make:
        place.mkdir(parents=True, exist_ok=True)
    return place if place.is_dir() else None


def find_cached(part: str, name: str) -> Path | None:
    """The path of an entry built by `cached` or `cached_or_made` and unchanged since; else None."""
    places = [cache_directory(part)]
    if _for_this_process.cache_info().currsize:
        places.append(_for_this_process() / part)
    for directory in places:
        with contextlib.suppress(CacheError), _opened(directory) as key:
            if _is_ours(key, directory / name):
                return directory / name
    return None


def discard_least_used(part: str, suffix: str, most_bytes: int) -> None:
    """Removes the least recently used entries of `part` whose names end in `suffix`, until these have at most
    `most_bytes`.

    The most recently used one stays, whatever its size. The time of use is the file's modification time, which users of
    an entry set (`os.utime`). Entries that another process removes meanwhile, or that may not be removed, are skipped.
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


def _cached_in(
    directory: Path, name: str, build: Callable[[Path], None], valid: Callable[[Path], bool]
) -> Path:
    target = directory / name
    with _opened(directory) as key:
        if _is_ours(key, target) and valid(target):
            return target
        with locked(_lock_of(target)) as lock:
            if not (_is_ours(key, target) and valid(target)):
                partial = directory / f"{name}.partial"
                _remove(partial)  # left by a builder that died
                try:
                    build(partial)
                    if target.is_dir():
                        _remove(target)
                    partial.replace(target)
                except WriteError as error:
                    if error.path != partial:
                        raise
                    raise OSError(error.errno, error.reason) from None
                finally:
                    _remove(partial)
                # Between these two steps the entry has no valid seal and is not used.
                os.pwrite(lock, seal_of(key, directory.name, target) or b"", 0)
    return target


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[bytes]:
    """The key for the entries of a directory, which is created if necessary.

    Raises CacheError for an OSError inside of the block, and for a directory that others may write.
    """
    try:
        make_own_folder(directory.parent)
        make_own_folder(directory)
        yield user_key(directory.parent)
    except OSError as error:
        raise CacheError(
            f"{directory}: {error.strerror}; XDG_CACHE_HOME may name another place for caches"
        ) from None


def _is_ours(key: bytes, target: Path) -> bool:
    """Whether an entry is there and unchanged since a process of this user built it."""
    try:
        with os.fdopen(open_file(_lock_of(target), follow=False), "rb") as file:
            wanted = file.read(SEAL_BYTES)
    except OSError:
        return False
    return is_sealed(seal_of(key, target.parent.name, target), wanted)


def _lock_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.lock")


@functools.cache
def _for_this_process() -> Path:
    """A folder that replaces the user's cache and is removed at the end of this process."""
    folder = Path(tempfile.mkdtemp(prefix="vdla-cache-"))
    maker = os.getpid()

    def remove() -> None:
        if os.getpid() == maker:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder / "vdla"


@functools.cache
def say_not_kept(why: str) -> None:
    """Prints on standard error, once in a process, that a cache cannot be used."""
    print(f"warning: nothing is kept for later runs: {why}", file=sys.stderr)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

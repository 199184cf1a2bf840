"""A cache of files and folders for one user: one process at a time builds an entry, the others wait for it.

Entries contain machine code, so they are used only if this user made them: the folders belong to the user alone
(`util.own_folders`), and each entry has a seal in its lock file, a message authentication code (HMAC) of the entry with
this user's secret key. An entry whose seal does not match is built again. A checksum would only detect damage: somebody
who replaces an entry can replace its checksum too. The key is never copied from its file, which only the user may read.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hmac
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from .errors import UserError
from .files import WriteError, open_file
from .own_folders import check_own_file, make_own_folder


class CacheError(UserError):
    """Raised if the cache directory cannot be used: others may write there, this user may not, or the disk is full."""


def cache_directory(part: str) -> Path:
    """The folder of the cache's section `part`: $XDG_CACHE_HOME/vdla/`part`, by default ~/.cache/vdla/`part`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vdla" / part


def cached(
    part: str, name: str, build: Callable[[Path], None], valid: Callable[[Path], bool] = Path.exists
) -> Path:
    """The path of entry `name` of the cache's section `part`. `build` is called with a path and creates the entry, a
    file or folder, there.

    `build` is not called if the entry exists, its seal matches and `valid` accepts it. If several processes call at
    once, one builds and the others wait; the lock is released when the builder's process ends. Raises CacheError if the
    directory cannot be used or `build` raises OSError, and every other error of `build`; the cache is then as before.
    """
    return _cached_in(cache_directory(part), name, build, valid)


def cached_or_made(
    part: str, name: str, build: Callable[[Path], None], valid: Callable[[Path], bool] = Path.exists
) -> Path:
    """The path of entry `name` of the cache's section `part`, built by `build` if there is no entry that `valid`
    accepts (`cached`). If the user's cache cannot be used, builds the entry in a folder that exists only for this
    process and prints a warning on standard error, once for each reason (`say_not_kept`).
    """
    try:
        return cached(part, name, build, valid)
    except CacheError as error:
        say_not_kept(str(error))
        return _cached_in(_for_this_process() / part, name, build, valid)


def other_tools_cache(part: str, *, make: bool = False) -> Path | None:
    """The folder named `part`, for this process only, to replace a cache of another tool (numba) that cannot be used.

    `make`: whether to create the folder. If False, returns it only if an earlier call created it, else None.
    """
    if not make and not _for_this_process.cache_info().currsize:
        return None
    place = _for_this_process() / part
    if make:
        place.mkdir(parents=True, exist_ok=True)
    return place if place.is_dir() else None


def find_cached(part: str, name: str) -> Path | None:
    """The path of entry `name` of section `part`; None if there is none, or if it was changed since it was built."""
    places = [cache_directory(part)]
    if _for_this_process.cache_info().currsize:
        places.append(_for_this_process() / part)
    for directory in places:
        with contextlib.suppress(CacheError), _opened(directory) as key:
            if _is_ours(key, directory / name):
                return directory / name
    return None


def discard_least_used(part: str, suffix: str, most_bytes: int) -> None:
    """Removes the least recently used files of section `part` whose names end in `suffix`, until these files have at
    most `most_bytes` together.

    The most recently used file stays, whatever its size. The time of use is the modification time, which callers set
    when they use an entry (`os.utime`). Files that another process removes meanwhile, or that cannot be removed, are
    skipped.
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
                # Until its seal is written, no process uses the entry.
                os.pwrite(lock, seal_of(key, directory.name, target) or b"", 0)
    return target


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[bytes]:
    """Context with the secret key for the entries of `directory`, which is created if necessary.

    Raises CacheError for an OSError within the context, and for a directory that other users may write.
    """
    try:
        make_own_folder(directory.parent)
        make_own_folder(directory)
        yield user_key(directory.parent)
    except OSError as error:
        raise CacheError(
            f"{directory}: {error.strerror}; set XDG_CACHE_HOME to another folder for caches"
        ) from None


def _is_ours(key: bytes, target: Path) -> bool:
    """Whether entry `target` exists and its seal by `key` matches: this user built it, and it was not changed since."""
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
    """Prints on standard error that nothing can be stored in the cache, and why; once in a process for each `why`."""
    print(f"warning: nothing is cached for later runs: {why}", file=sys.stderr)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


KEY = "key"
KEY_BYTES = 32
SEAL_BYTES = 32
_BLOCK = 1 << 20
_FOR_USER = 0o600


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Context that waits for the lock of a file and yields the file's descriptor. Creates an empty file if necessary.

    The lock is released when the process ends. Raises OSError, also if `path` is a symbolic link.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags, _FOR_USER)
    try:
        check_own_file(descriptor, path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def user_key(folder: Path) -> bytes:
    """This user's secret key, KEY_BYTES random bytes, from the file KEY in `folder`. The key is created if there is
    none, and replaced if it has another size or other users could read it. Raises OSError.
    """
    found = _read_key(folder / KEY)
    if found is not None:
        return found
    with locked(folder / f"{KEY}.lock"):
        found = _read_key(folder / KEY)
        if found is not None:
            return found
        key = secrets.token_bytes(KEY_BYTES)
        partial = folder / f"{KEY}.partial"
        partial.unlink(missing_ok=True)  # left by a process that died
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(partial, flags, _FOR_USER), "wb") as file:
            os.fchmod(file.fileno(), _FOR_USER)
            file.write(key)
        partial.replace(folder / KEY)
    return key


def seal_of(key: bytes, part: str, path: Path) -> bytes | None:
    """The seal of the file or folder at `path`: HMAC-SHA256 by `key` of `part`, the entry's name and its contents.

    None if there is no entry, or if it contains a link, a device or a file that cannot be read.
    """
    code = hmac.new(key, digestmod="sha256")
    try:
        code.update(f"{len(part)} {part} {len(path.name)} {path.name}\n".encode())
        _add(code, path, "")
    except (OSError, UnicodeError):
        return None
    return code.digest()


def is_sealed(seal: bytes | None, wanted: bytes) -> bool:
    """Whether an entry's present seal equals `wanted`, the seal that was stored when the entry was made."""
    return seal is not None and hmac.compare_digest(seal, wanted)


def _add(code: hmac.HMAC, path: Path, name: str) -> None:
    if stat.S_ISDIR(path.lstat().st_mode):
        names = sorted(os.listdir(path))
        code.update(f"folder {len(names)} {len(name.encode())} {name}\n".encode())
        for inner in names:
            _add(code, path / inner, inner)
        return
    with os.fdopen(open_file(path, follow=False), "rb", buffering=0) as file:
        found = os.fstat(file.fileno())
        runs = bool(found.st_mode & stat.S_IXUSR)
        code.update(f"file {found.st_size} {runs:d} {len(name.encode())} {name}\n".encode())
        while block := file.read(_BLOCK):
            code.update(block)


def _read_key(path: Path) -> bytes | None:
    """The key in the file at `path`; None if there is none, its size is wrong or others can read it. Raises OSError."""
    try:
        descriptor = open_file(path, follow=False)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        check_own_file(descriptor, path)
        found = os.fstat(descriptor)
        # A key file with a second name (hard link) may be readable by somebody else.
        whole = found.st_size == KEY_BYTES and found.st_nlink == 1
        closed = not stat.S_IMODE(found.st_mode) & ~_FOR_USER
        return file.read() if whole and closed else None

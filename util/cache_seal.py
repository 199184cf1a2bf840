"""Seals of cache entries: codes computed with this user's secret key, so that entries made by others are not used.

A checksum would only detect damage: somebody who replaces an entry can replace its checksum too. The key is never
copied from its file, which only the user may read.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .files import open_file
from .own_folders import check_own_file

KEY = "key"
KEY_BYTES = 32
SEAL_BYTES = 32
_BLOCK = 1 << 20
_FOR_USER = 0o600


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Waits for the lock of a file and yields its descriptor. Creates the file if necessary; never changes it.

    The lock belongs to the process, and ends with it. Raises OSError, also for a link.
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
    """The key in a folder of this user, created if there is none; a key that others could read is replaced.

    Raises OSError.
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
    """The seal of the entry at `path` in `part`: a code of its name and its contents, a file or a folder of files.

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
    """Whether an entry's seal equals the one that was stored when the entry was made."""
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
    """The key; None if there is no usable one."""
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

"""Reads files with limits, so that no file, pipe or device takes all memory or all time; writes files whole or not at
all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .errors import UserError

MOST_BYTES = 2**31 - 1
"""Size in bytes of the largest file that is read whole; also the limit of ONNX's format."""
MOST_TEXT_BYTES = 2**20
"""Size in bytes of the largest configuration file; people write these files by hand."""


def read_file(path: str | Path, *, most: int = MOST_BYTES, pipes: bool = False) -> bytes:
    """The bytes of a regular file or, with `pipes`, of a pipe or device until its end, for which the call waits.

    Raises OSError, with a `strerror` in words, for every other kind of file and for more than `most` bytes; a larger
    regular file is not read at all.
    """
    descriptor = open_file(path, pipes=pipes)
    with os.fdopen(descriptor, "rb") as file:
        if (size := os.fstat(descriptor).st_size) > most:
            raise _too_large(path, most)
        data = file.read(-1 if size else most + 1)  # A read with a limit first allocates as many bytes.
    if len(data) > most:
        raise _too_large(path, most)
    return data


def open_file(path: str | Path, *, pipes: bool = False, follow: bool = True) -> int:
    """Descriptor of a regular file, opened for reading; with `pipes`, of a pipe or device, too.

    Without `follow`, the last part of `path` must not be a symbolic link. Raises OSError.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    # Without O_NONBLOCK, opening a pipe that has no writer would wait.
    try:
        descriptor = os.open(path, flags if pipes else flags | os.O_NONBLOCK)
    except ValueError:
        raise OSError(errno.ENOENT, "the path contains a zero byte", str(path)) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or (pipes and not stat.S_ISDIR(mode)):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "a pipe or a device, not a file", str(path))


def _too_large(path: str | Path, most: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than the limit of {most:,} bytes for this file", str(path))


_COPY_BYTES = 2**22
"""Number of bytes that `copy_whole` copies at a time."""


class WriteError(UserError):
    """Raised if the system refused to write the file at `path`; `errno` is the code of the error and
    `reason` its text.
    """

    def __init__(self, path: Path, error: OSError) -> None:
        self.path = path
        self.errno = error.errno
        self.reason = error.strerror
        super().__init__(f"{path}: cannot be written: {error.strerror}")


@contextmanager
def whole_file(path: str | Path) -> Iterator[IO[bytes]]:
    """A temporary file beside `path` to write in a `with` block; it replaces `path` when the block ends without error.

    If `path` is a symbolic link, the file it points to is replaced. A pipe or device (/dev/null) is written directly.
    Raises WriteError, which names `path`, for an OSError.
    """
    path = Path(path)
    temporary = None
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        place = path.resolve()
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}.", delete=False) as file:
            temporary = file.name
            yield file.file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, place)
    except OSError as error:
        raise WriteError(path, error) from None
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)


def write_whole(path: str | Path, *parts: bytes | memoryview) -> None:
    """Writes the concatenation of `parts` to `path`, completely or not at all (`whole_file`). Raises WriteError."""
    with whole_file(path) as file:
        file.writelines(parts)


def make_folder(path: str | Path) -> None:
    """Creates a folder and its missing parents. Raises WriteError, which names `path`."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(Path(path), error) from None


def copy_whole(source: Path, path: str | Path) -> None:
    """Copies the file `source` to `path`, completely or not at all.

    Raises UserError if `source` cannot be read, WriteError if `path` cannot be written.
    """
    try:
        original = os.fdopen(open_file(source), "rb")
    except OSError as error:
        raise UserError(f"{source}: cannot be read: {error.strerror}") from None
    with original, whole_file(path) as file:
        if hasattr(os, "copy_file_range"):
            # Some file systems share blocks and move no data; others cannot do it, which raises an error.
            with contextlib.suppress(OSError):
                while os.copy_file_range(original.fileno(), file.fileno(), _COPY_BYTES):
                    pass
        shutil.copyfileobj(original, file, _COPY_BYTES)

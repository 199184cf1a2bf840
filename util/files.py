"""Reads files that a user names, with limits, so that no file, pipe or device takes all memory or all time."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 2**31 - 1
"""Size of the largest file that is read whole; ONNX's format allows no larger ones either."""
MOST_TEXT_BYTES = 2**20
"""Size of the largest configuration file; people write these by hand."""


def read_file(path: str | Path, *, most: int = MOST_BYTES, pipes: bool = False) -> bytes:
    """The bytes of a regular file; with `pipes` also the output of a pipe or device, for which it may wait.

    Raises OSError, with a `strerror` in words, for all other files, and for more than `most` bytes; a regular file of
    that size is not read at all.
    """
    descriptor = open_file(path, pipes=pipes)
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > most:
            raise _too_large(path, most)
        data = file.read(most + 1)
    if len(data) > most:
        raise _too_large(path, most)
    return data


def open_file(path: str | Path, *, pipes: bool = False, follow: bool = True) -> int:
    """A descriptor for reading a regular file; without `follow`, the last part of `path` must not be a link.

    `pipes` as in `read_file`. Raises OSError.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    # Opening a pipe without a writer would block.
    try:
        descriptor = os.open(path, flags if pipes else flags | os.O_NONBLOCK)
    except ValueError:
        raise OSError(errno.ENOENT, "the path holds a zero byte", str(path)) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or (pipes and not stat.S_ISDIR(mode)):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "a pipe or device and no file", str(path))


def _too_large(path: str | Path, most: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than the {most:,} bytes that are read of such a file", str(path))

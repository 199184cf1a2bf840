"""Files of records, one line of JSON each: one process at a time appends lines, and a process that is killed loses at
most the line being written. A power failure may lose more lines (`SYNC_INTERVAL`).
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from .errors import UserError
from .files import read_file

PATIENCE = 1.0
"""Seconds to wait for the lock of a file. A process that a killed writer had started may still hold the lock for a
moment.
"""
SYNC_INTERVAL = 1.0
"""Least number of seconds between two calls of fsync by `LineFile.append_line`.

A killed process loses no written line; a power failure loses the lines written since the last call.
"""
_BLOCK = 1 << 16
"""Number of bytes read at a time to find the end of the last complete line."""


class RecordError(UserError):
    """Raised if a file of records cannot be read or written; the message names the file and the cause."""


RecordT = TypeVar("RecordT")


def whole_records(path: Path, make: Callable[[Any], RecordT], *, kind: str) -> list[RecordT]:
    """Reads a file with one JSON value in each line. Returns the result of `make` for each value; an empty list if
    there is no file.

    An incomplete last line, left by a killed process, is skipped. Raises RecordError if the file cannot be read. If a
    line is not valid JSON, or if `make` raises KeyError, TypeError, ValueError, OverflowError or AttributeError for it,
    raises RecordError with the message that the line is not a record of `kind`.
    """
    try:
        data = read_file(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from None
    records: list[RecordT] = []
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            records.append(make(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise RecordError(
                f"{path}:{number}: is not a record of {kind}; move the file away or name another folder"
            ) from None
    return records


class LineFile:
    """Appends lines to a file of records, created if necessary. A context manager that closes the file at its end.

    One write call appends one line. An incomplete last line, left by a killed process, is ended by a line break or,
    with `cut`, removed. Raises RecordError if another process has the file open, and for errors of the operating
    system.
    """

    def __init__(self, path: Path, *, cut: bool = False) -> None:
        self._path = path
        self._file = _open_locked(path)
        try:
            if cut:
                os.ftruncate(self._file, _whole_bytes(self._file))
            self._torn = _is_torn(self._file)
        except OSError as error:
            os.close(self._file)
            raise _refused(path, error) from None
        self._synced = time.monotonic()

    def append_line(self, line: bytes) -> None:
        """Appends `line`, which ends with a line break. Raises RecordError for errors of the operating system."""
        rest = b"\n" + line if self._torn else line
        try:
            # If the system writes only a part of the line, the next attempt raises an error with the reason.
            while rest:
                rest = rest[os.write(self._file, rest) :]
                self._torn = bool(rest)
            if time.monotonic() - self._synced >= SYNC_INTERVAL:
                self.sync()
        except OSError as error:
            raise _refused(self._path, error) from None

    def sync(self) -> None:
        """Waits until everything written is on the disk. Raises RecordError for errors of the operating system."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise _refused(self._path, error) from None
        self._synced = time.monotonic()

    def close(self) -> None:
        """Releases the file after a last `sync`, and removes it if it is empty. A second call does nothing."""
        if self._file < 0:
            return
        try:
            self.sync()
            if os.fstat(self._file).st_size == 0 and _is_at(self._file, self._path):
                # Nothing was written: an empty file would be useless.
                self._path.unlink(missing_ok=True)
        finally:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # The user should see the error of the `with` block, not that of closing the file.
        with suppress(RecordError):
            self.close()


def _refused(path: Path, error: OSError) -> RecordError:
    return RecordError(f"{path}: records cannot be written: {error.strerror or error}")


def _open_locked(path: Path) -> int:
    """Descriptor of the file at `path`, opened for appending and locked against other writers until it is closed.
    Raises RecordError if `path` is no regular file, or if another process has the lock for PATIENCE seconds.
    """
    if path.is_dir():
        raise RecordError(f"{path}: is a directory; name a file of records")
    if path.exists() and not path.is_file():
        raise RecordError(f"{path}: is a pipe or a device; name a file of records")
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            if _lock(file) and _is_at(file, path):
                return file
            os.close(file)
            if time.monotonic() >= deadline:
                raise RecordError(
                    f"{path}: another process is writing records to it; wait for its end, or name another file"
                )
            time.sleep(0.02)
    except OSError as error:
        raise _refused(path, error) from None


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        os.close(file)
        raise
    return True


def _is_at(file: int, path: Path) -> bool:
    """Whether the open file `file` is still the file at `path`; another process may have replaced it before it was
    locked.
    """
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _is_torn(file: int) -> bool:
    """Whether the last line of a file has no line break at its end."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def _whole_bytes(file: int) -> int:
    """Number of bytes from the beginning of a file to the end of its last complete line."""
    end = os.fstat(file).st_size
    while end > 0:
        start = max(0, end - _BLOCK)
        if (found := os.pread(file, end - start, start).rfind(b"\n")) >= 0:
            return start + found + 1
        end = start
    return 0

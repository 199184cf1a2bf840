"""Standard streams that may be closed, full, or without a reader: a lost result (standard output) is an error, a lost
note (standard error) is ignored.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import TextIO

_CLOSED = "it is closed"


class OutputLostError(Exception):
    """Raised if a result could not be written to standard output. `errno` is the system's error number; the message has
    its text.
    """

    def __init__(self, error: OSError) -> None:
        self.errno = error.errno
        reason = _CLOSED if error.errno == errno.EBADF else error.strerror
        super().__init__(f"standard output: cannot be written: {reason}")


class _Results(io.FileIO):
    """Standard output as a stream. After the first failure the stream ignores all output, because Python tries to write
    again when the process ends.
    """

    lost = False

    def write(self, data: object, /) -> int:
        if self.lost:
            return memoryview(data).nbytes  # type: ignore[arg-type]
        try:
            while True:
                written = super().write(data)  # type: ignore[arg-type]
                if written is not None:
                    return written
                # Another process made the pipe non-blocking.
                select.select([], [self], [])
        except OSError as error:
            self.lost = True
            raise OutputLostError(error) from None


class _Notes(io.FileIO):
    """Standard error as a stream. It ignores text that cannot be written, so that the command continues: its exit code
    and files remain valid.
    """

    def write(self, data: object, /) -> int:
        try:
            written = super().write(data)  # type: ignore[arg-type]
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written  # type: ignore[arg-type]


def guard_streams() -> None:
    """Replaces sys.stdout by a stream that raises OutputLostError if output cannot be written, and sys.stderr by a
    stream that never raises.

    If a stream is closed already, /dev/null takes its descriptor, so that no file opened later gets this descriptor.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The opened file gets the lowest free descriptor, which is that of a closed stream. It is opened only for
            # reading, so that output counts as lost.
            os.open(os.devnull, os.O_RDONLY if descriptor < 2 else os.O_WRONLY)
            os.set_inheritable(descriptor, True)
    # Names may contain letters that the terminal's encoding lacks.
    sys.stdout = _stream(sys.stdout, _Results(1, "w", closefd=False))
    sys.stderr = _stream(sys.stderr, _Notes(2, "w", closefd=False), lines=True)


def _stream(before: TextIO | None, raw: io.FileIO, *, lines: bool = False) -> TextIO:
    known = before if isinstance(before, io.TextIOWrapper) else None
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if known is None else known.encoding,
        errors="backslashreplace",
        newline="\n",
        line_buffering=lines or raw.isatty(),
        write_through=known is not None and known.write_through,
    )

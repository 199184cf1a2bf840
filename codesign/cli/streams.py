"""Standard streams that may be closed, full, or without a reader: lost results are an error, lost notes are not."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import TextIO

_CLOSED = "it is closed"


class OutputLostError(Exception):
    """Standard output did not take a result: for the `reason` of `errno`."""

    def __init__(self, error: OSError) -> None:
        self.errno = error.errno
        reason = _CLOSED if error.errno == errno.EBADF else error.strerror
        super().__init__(f"standard output: cannot be written: {reason}")


class _Results(io.FileIO):
    """Standard output. After the first refusal it takes everything, as Python tries again when it ends."""

    lost = False

    def write(self, data: object, /) -> int:
        if self.lost:
            return memoryview(data).nbytes  # type: ignore[arg-type]
        try:
            while True:
                written = super().write(data)  # type: ignore[arg-type]
                if written is not None:
                    return written
                # Another process made the pipe one that refuses instead of waiting.
                select.select([], [self], [])
        except OSError as error:
            self.lost = True
            raise OutputLostError(error) from None


class _Notes(io.FileIO):
    """Standard error. Text that cannot be written is dropped, and the command goes on: its exit code and files
    remain."""

    def write(self, data: object, /) -> int:
        try:
            written = super().write(data)  # type: ignore[arg-type]
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written  # type: ignore[arg-type]


def guard_streams() -> None:
    """Puts streams in place of sys.stdout and sys.stderr that raise OutputLostError, and nothing, where the system
    refuses. Streams that are closed count as such from here on, whatever files this process opens.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is this one. A descriptor opened only for reading cannot be written, so output
            # counts as lost.
            os.open(os.devnull, os.O_RDONLY if descriptor < 2 else os.O_WRONLY)
            os.set_inheritable(descriptor, True)
    # Names hold letters that the encoding of a terminal may lack.
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

"""Files of records: read whatever they hold, appended to so that no crash costs more than the line being written."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

from vdla.util.errors import UserError
from vdla.util.whole_files import write_whole

from .line import MOST_BYTES, NO_TEXT, TOO_LONG, LineError, LineParser, record_line
from .record import Record

PATIENCE = 1.0
"""Seconds to wait for a file's lock: what a killed tuner started may hold it until it sees that the tuner is gone."""
SYNC_INTERVAL = 1.0
"""Seconds between two fsyncs at least. A kill loses nothing that was written; a power cut loses what came since."""


class RecordError(UserError):
    """A file of records that cannot be read, or not written to; names it and the way out."""


class Skip(NamedTuple):
    """How many lines were skipped for one kind of reason, the first one's number (from 1), what was wrong with it."""

    number: int
    first: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Which of a file's `lines` (empty ones not counted) were no records, by kind of reason."""

    source: str
    lines: int
    kinds: Mapping[str, Skip]

    @property
    def count(self) -> int:
        """Lines skipped in all."""
        return sum(skip.number for skip in self.kinds.values())

    @property
    def warning(self) -> str | None:
        """One line for the user, "r.jsonl: 3 of 120 lines skipped: 2 no JSON (first: line 7), 1 …", or None."""
        if not self.kinds:
            return None
        parts = []
        for kind, skip in self.kinds.items():
            where = f"{'first: ' if skip.number > 1 else ''}line {skip.first}"
            parts.append(f"{skip.number} {kind} ({where}{f': {skip.detail}' if skip.detail else ''})")
        return f"{self.source}: {self.count} of {self.lines} lines skipped: {', '.join(parts)}"


def read_records(path: Path) -> tuple[list[Record], Skipped]:
    """The records of a file, in its order, and what was skipped. RecordError for what is no text file."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise RecordError(f"{path}: is a directory; name a file of records")
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise RecordError(f"{path}: is a device; name a file of records")
        with path.open("rb") as file:
            records, skipped = read_lines(file, str(path))
    except OSError as error:
        raise RecordError(f"{path}: the records cannot be read: {error.strerror or error}") from None
    if not records and NO_TEXT in skipped.kinds:
        raise RecordError(f"{path}: is no text; records are lines of JSON, as the tuner writes them")
    return records, skipped


def read_lines(file: IO[bytes], source: str) -> tuple[list[Record], Skipped]:
    """The records of an open file, and what was skipped; `source` names it."""
    records: list[Record] = []
    counts: Counter[str] = Counter()
    first: dict[str, tuple[int, str]] = {}
    parse = LineParser().parse
    number = lines = 0
    while line := file.readline(MOST_BYTES + 1):
        number += 1
        if len(line) <= MOST_BYTES and line.isspace():
            continue
        lines += 1
        try:
            records.append(parse(line))
        except LineError as error:
            counts[error.kind] += 1
            first.setdefault(error.kind, (number, error.detail))
            if error.kind == TOO_LONG:
                _finish_line(file, line)
    kinds = {kind: Skip(count, *first[kind]) for kind, count in counts.items()}
    return records, Skipped(source=source, lines=lines, kinds=kinds)


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Makes `path` a file of these records, whole or not at all. RecordError while a tuner writes to it.

    Raises ProgramError where the system refuses.
    """
    data = b"".join(map(record_line, records))
    if not path.is_file():
        write_whole(path, data)
        return
    # Its writer would go on writing to the file that is replaced.
    with RecordWriter(path):
        write_whole(path, data)


class RecordWriter:
    """Appends records to a file, which is made where there is none; a context manager, which closes it.

    Each record is one write at the end of the file. One process at a time has the file: RecordError for the second, and
    where the system refuses. What a killed writer left of a line stays alone on that line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open_locked(path)
        try:
            self._torn = _is_torn(self._file)
        except OSError as error:
            os.close(self._file)
            raise _refused(path, error) from None
        self._synced = time.monotonic()

    def append(self, record: Record) -> None:
        """Writes one record. ValueError for one that could not be read again, RecordError where the system refuses."""
        line = record_line(record)
        rest = b"\n" + line if self._torn else line
        try:
            # Where the system cuts a write short, the next one says why.
            while rest:
                rest = rest[os.write(self._file, rest) :]
                self._torn = bool(rest)
            if time.monotonic() - self._synced >= SYNC_INTERVAL:
                self.sync()
        except OSError as error:
            raise _refused(self._path, error) from None

    def sync(self) -> None:
        """Waits until the disk has all that was written. RecordError where the system refuses."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise _refused(self._path, error) from None
        self._synced = time.monotonic()

    def close(self) -> None:
        """Gives the file free, after a last `sync`; again, it does nothing."""
        if self._file < 0:
            return
        try:
            self.sync()
            if os.fstat(self._file).st_size == 0 and _is_at(self._file, self._path):
                # Nothing was tried, and an empty file would say so to nobody.
                self._path.unlink(missing_ok=True)
        finally:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # What went wrong first is what the user is told.
        with suppress(RecordError):
            self.close()


def _finish_line(file: IO[bytes], line: bytes) -> None:
    """Reads on to the end of a line, a piece at a time, however long it is."""
    while line and not line.endswith(b"\n"):
        line = file.readline(1 << 20)


def _refused(path: Path, error: OSError) -> RecordError:
    return RecordError(f"{path}: records cannot be written: {error.strerror or error}")


def _open_locked(path: Path) -> int:
    """A file to append to, locked against other writers until it is closed."""
    if path.is_dir():
        raise RecordError(f"{path}: is a directory; name a file of records")
    if path.exists() and not path.is_file():
        raise RecordError(f"{path}: is no file; records are appended to one")
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
    """Whether an open file is still the one at `path`: before it was locked, another may have replaced it."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _is_torn(file: int) -> bool:
    """Whether the last line has no end."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"

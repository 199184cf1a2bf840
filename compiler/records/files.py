"""Files of tuning records. A reader skips invalid lines. If the program crashes while it appends a line, at most this
line is lost.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from vdla.util.files import write_whole
from vdla.util.line_file import LineFile, RecordError

from .line import MOST_BYTES, NO_TEXT, TOO_LONG, LineError, LineParser, record_line
from .record import Record


class Skip(NamedTuple):
    """The lines of a file that were skipped for one kind of reason: their number, the line number of the first of them
    (counted from 1), and the defect of this line.
    """

    number: int
    first: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The skipped lines of the file `source`, by kind of reason. `lines`: number of the file's non-empty lines."""

    source: str
    lines: int
    kinds: Mapping[str, Skip]

    @property
    def count(self) -> int:
        """Number of skipped lines."""
        return sum(skip.number for skip in self.kinds.values())

    @property
    def warning(self) -> str | None:
        """One line, "r.jsonl: 3 of 120 lines skipped: 2 no JSON (first: line 7), 1 …"; None if no line was skipped."""
        if not self.kinds:
            return None
        parts = []
        for kind, skip in self.kinds.items():
            where = f"{'first: ' if skip.number > 1 else ''}line {skip.first}"
            parts.append(f"{skip.number} {kind} ({where}{f': {skip.detail}' if skip.detail else ''})")
        return f"{self.source}: {self.count} of {self.lines} lines skipped: {', '.join(parts)}"


def read_records(path: Path) -> tuple[list[Record], Skipped]:
    """Returns the tuning records of a file, in the file's order, and the skipped lines. Raises RecordError for a
    directory, for a device, and for a file that cannot be read or is not text.
    """
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
        raise RecordError(f"{path}: is not text; records are lines of JSON, as the tuner writes them")
    return records, skipped


def read_lines(file: IO[bytes], source: str) -> tuple[list[Record], Skipped]:
    """Returns the tuning records of an open file, and the file's skipped lines; `source` is the file's name in
    messages.
    """
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
    """Replaces the file at `path` atomically by a file with these tuning records.

    Raises RecordError if a tuner is writing to the file, and WriteError if the file cannot be written.
    """
    data = b"".join(map(record_line, records))
    if not path.is_file():
        write_whole(path, data)
        return
    # The lock of RecordWriter: another writer would continue to write to the replaced file.
    with RecordWriter(path):
        write_whole(path, data)


class RecordWriter(LineFile):
    """Appends tuning records to a file, each as one line of JSON (`LineFile`)."""

    def append(self, record: Record) -> None:
        """Writes one tuning record. Raises ValueError for a record that `read_records` would not accept, RecordError if
        writing fails.
        """
        self.append_line(record_line(record))


def _finish_line(file: IO[bytes], line: bytes) -> None:
    """Reads and drops the rest of a line, whose beginning `line` has been read. Each read is at most 1 MiB."""
    while line and not line.endswith(b"\n"):
        line = file.readline(1 << 20)

"""The records of an exploration: one line of JSON for each evaluated machine, appended, and read again.

A last line that a killed process left incomplete is cut off; any other damage is an error that names the line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vdla.util.line_file import LineFile, RecordError, whole_records

from .evaluate import Figures, from_json, to_json
from .space import Value, plain

FORMAT = 1


Known = dict[tuple[str, str], Figures]
"""Known figures of machines by (key, digest of the machine). The key (`evaluate.study_key`) is a hash of the networks,
the compiler and everything else on which figures depend, except the machine.
"""


def read_records(path: Path) -> Known:
    """The records of evaluated machines in the file at `path`; of several records of a machine the first counts. Empty
    if there is no file.
    """
    known: Known = {}
    for key, figures in whole_records(path, _record, kind="a study"):
        known.setdefault(key, figures)
    return known


def _record(value: Any) -> tuple[tuple[str, str], Figures]:
    if value["format"] != FORMAT:
        raise ValueError
    return (_text(value["study"]), _text(value["machine"])), from_json(value)


def existing_records(paths: Sequence[Path]) -> Known:
    """The records in the files of other explorations; of a machine that is in several files, the last file counts.
    Raises RecordError for a damaged or missing file.
    """
    known: Known = {}
    for path in paths:
        if not path.exists():
            raise RecordError(f"{path}: no such file; name the records.jsonl of a study")
        known |= read_records(path)
    return known


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


class RecordsFile(LineFile):
    """A file to which records are appended (`LineFile`); an incomplete line at its end is removed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, cut=True)

    def append(self, study: str, machine: str, fields: Mapping[str, Value], figures: Figures) -> None:
        """Appends the figures (area, clock, cycles, energy) of one machine. `study`: the key of the exploration's
        settings (`evaluate.study_key`); `machine`: the digest of the configuration; `fields`: the values of the space's
        fields.
        """
        value = {"format": FORMAT, "study": study, "machine": machine, "fields": plain(fields)}
        line = json.dumps({**value, **to_json(figures)}, separators=(",", ":"), allow_nan=False)
        self.append_line(line.encode() + b"\n")

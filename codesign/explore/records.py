"""The records of a study: a line of JSON for each machine that was evaluated, appended, and read again.

A line that a killed process left half written is cut off; any other damage is an error that names the line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vdla.util.errors import UserError
from vdla.util.files import read_file

from .evaluate import Figures, from_json, to_json

FORMAT = 1


class RecordsError(UserError):
    """A file that holds no records of a study."""


Known = dict[tuple[str, str], Figures]
"""Figures by key of the study (`evaluate.study_key`) and digest of the machine."""


def read_records(path: Path) -> Known:
    """The records in a file, the first of each machine; none where there is no file."""
    try:
        data = read_file(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RecordsError(f"{path}: {error.strerror}") from None
    known: Known = {}
    whole = data[: data.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            value: Any = json.loads(line)
            key = (_text(value["study"]), _text(value["machine"]))
            if value["format"] != FORMAT:
                raise ValueError
            known.setdefault(key, from_json(value))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise RecordsError(
                f"{path}:{number}: is no record of a study; move the file away or name another folder"
            ) from None
    return known


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


class RecordsFile:
    """Appends records to a file, each written whole before the next."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("ab")
            kept = _whole_bytes(path)
            os.truncate(path, kept)
        except OSError as error:
            raise RecordsError(f"{path}: cannot be written: {error.strerror}") from None

    def append(self, study: str, machine: str, fields: Mapping[str, Any], figures: Figures) -> None:
        """Writes one record."""
        value = {"format": FORMAT, "study": study, "machine": machine, "fields": dict(fields)}
        line = json.dumps({**value, **to_json(figures)}, separators=(",", ":"), allow_nan=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Ends the file."""
        self._file.close()

    def __enter__(self) -> RecordsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _whole_bytes(path: Path) -> int:
    """How many bytes of a file are whole lines."""
    data = path.read_bytes()
    return data.rfind(b"\n") + 1

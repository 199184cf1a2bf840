"""The records of a search for decisions: a line of JSON for each evaluation, appended, and read again.

A line that a killed process left half written is cut off; any other damage is an error that names the line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vdla.compiler.graph.quantize.decisions import Decisions
from vdla.util.files import read_file
from vdla.util.line_file import LineFile, RecordError

from .evaluate import Figures, from_json, to_json

FORMAT = 1
Known = dict[tuple[str, Decisions], Figures]
"""Figures by key of the study and decisions."""


def read_records(path: Path) -> Known:
    """The records in a file, the first of each; none where there is no file. Raises RecordError."""
    try:
        data = read_file(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from None
    known: Known = {}
    whole = data[: data.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            value: Any = json.loads(line)
            if value["format"] != FORMAT or not isinstance(value["study"], str):
                raise ValueError
            known.setdefault((value["study"], decisions_from_json(value["decisions"])), from_json(value))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise RecordError(
                f"{path}:{number}: is no record of a quantization; move the file away or name another folder"
            ) from None
    return known


def decisions_to_json(decisions: Decisions) -> dict[str, list[str]]:
    """Decisions as JSON values."""
    return {
        "float": sorted(decisions.floats),
        "symmetric": sorted(decisions.symmetric),
        "per_tensor": sorted(decisions.per_tensor),
    }


def decisions_from_json(value: Mapping[str, Any]) -> Decisions:
    """What `decisions_to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
    floats, symmetric, per_tensor = (value[key] for key in ("float", "symmetric", "per_tensor"))
    if not all(isinstance(name, str) for names in (floats, symmetric, per_tensor) for name in names):
        raise ValueError("names are texts")
    return Decisions(
        floats=frozenset(floats), symmetric=frozenset(symmetric), per_tensor=frozenset(per_tensor)
    )


class RecordsFile(LineFile):
    """Appends records to a file, see `LineFile`; half a line at its end goes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, cut=True)

    def append(self, study: str, decisions: Decisions, figures: Figures) -> None:
        """Writes one record."""
        value = {"format": FORMAT, "study": study, "decisions": decisions_to_json(decisions)}
        line = json.dumps({**value, **to_json(figures)}, separators=(",", ":"), allow_nan=False)
        self.append_line(line.encode() + b"\n")

"""The records of a search for quantization decisions: one line of JSON for each evaluation, appended to a file and read
again.

An incomplete last line of a killed process is removed; any other damage is an error that names the line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vdla.compiler.quantize.decisions import Decisions
from vdla.util.line_file import LineFile, whole_records

from .evaluate import Figures, from_json, to_json

FORMAT = 1
Known = dict[tuple[str, Decisions], Figures]
"""Known figures by (key, set of decisions). The key (`study.study_key`) is a hash of the search's settings."""


def read_records(path: Path) -> Known:
    """The records of evaluated sets of decisions in the file at `path`; of records with equal key and decisions the
    first counts. Empty if there is no file. Raises RecordError.
    """
    known: Known = {}
    for key, figures in whole_records(path, _record, kind="a quantization"):
        known.setdefault(key, figures)
    return known


def _record(value: Any) -> tuple[tuple[str, Decisions], Figures]:
    if value["format"] != FORMAT or not isinstance(value["study"], str):
        raise ValueError
    return (value["study"], decisions_from_json(value["decisions"])), from_json(value)


def decisions_to_json(decisions: Decisions) -> dict[str, list[str]]:
    """A set of quantization decisions as JSON values."""
    return {
        "float": sorted(decisions.floats),
        "symmetric": sorted(decisions.symmetric),
        "per_tensor": sorted(decisions.per_tensor),
    }


def decisions_from_json(value: Mapping[str, Any]) -> Decisions:
    """The decisions in a JSON value made by `decisions_to_json`. Raises KeyError, TypeError or ValueError for any other
    value.
    """
    floats, symmetric, per_tensor = (value[key] for key in ("float", "symmetric", "per_tensor"))
    for name in (*floats, *symmetric, *per_tensor):
        if not isinstance(name, str):
            raise ValueError(
                f'"float", "symmetric" and "per_tensor" must be lists of names, but contain {name!r}'
            )
    return Decisions(
        floats=frozenset(floats), symmetric=frozenset(symmetric), per_tensor=frozenset(per_tensor)
    )


class RecordsFile(LineFile):
    """Appends records to a file (`LineFile`); an incomplete last line is removed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, cut=True)

    def append(self, study: str, decisions: Decisions, figures: Figures) -> None:
        """Appends the figures of one set of decisions under the key `study`."""
        value = {"format": FORMAT, "study": study, "decisions": decisions_to_json(decisions)}
        line = json.dumps({**value, **to_json(figures)}, separators=(",", ":"), allow_nan=False)
        self.append_line(line.encode() + b"\n")

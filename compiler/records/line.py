"""A tuning record as a line of a file, one JSON object.

    {"version":1,"workload":{...},"target":{...},"knobs":{"rows":4,...},"cost":7040.0,"unit":"cycles","error":null,
     "trial":17,"seed":0,"strategy":"model","elapsed":0.004,"compiler":"0.1.0+6d3f0a91c2be"}

(in one line, ASCII; records of earlier releases have no compiler). All fields are checked when a line is read, because
files may come from other machines, or be damaged by a crash.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from typing import Any

from vdla.util.printable import printable

from .plain_json import brief, is_integer, is_name, is_number, short
from .record import Record, Task

VERSION = 1
"""Version of the format of tuning records. It changes when the set of fields that every record must have changes."""
MOST_BYTES = 1 << 18
"""Length in bytes of the longest line of a file of tuning records. It suffices for the settings of a network with
several hundred nodes.
"""
MOST_CHARACTERS = 500
"""Length in characters of the longest error text of a tuning record."""
MOST_TRIALS = 1 << 40
"""Trials of a search are counted from 0. The number of a trial must be below this bound."""

_HEAD = ("version", "workload", "target")
_TAIL = ("knobs", "cost", "unit", "error", "trial", "seed", "strategy", "elapsed")
_OPTIONAL = frozenset({"compiler"})
_CUT = ',"knobs":'


class LineError(Exception):
    """Raised if a line is not a tuning record. `kind`: class of the defect, one of the constants from `NO_TEXT` on;
    `detail`: text on the defect, or "".
    """

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind
        self.detail = detail


NO_TEXT = "not text"
NO_JSON = "not JSON"
NO_RECORD = "not a record"
OTHER_VERSION = "of another version"
TWICE = "with a field twice"
TOO_LONG = f"longer than {MOST_BYTES} bytes"


def record_line(record: Record) -> bytes:
    """A tuning record as a line, newline included. Texts of errors are cut and made printable.

    Raises ValueError for a record that a reader would not accept.
    """
    task, error = record.task, record.error
    if error is not None:
        error = printable(" ".join(error.split()), None)[:MOST_CHARACTERS]
        error = error or "no reason given"
    fields = {
        "version": VERSION,
        "workload": task.workload,
        "target": task.target,
        "knobs": {name: operator.index(value) for name, value in record.knobs.items()},
        "cost": None if record.cost is None else float(record.cost),
        "unit": task.unit,
        "error": error,
        "trial": operator.index(record.trial),
        "seed": operator.index(record.seed),
        "strategy": record.strategy,
        "elapsed": float(record.elapsed),
    }
    if record.compiler is not None:
        fields["compiler"] = record.compiler
    try:
        _check_tail(fields, task.unit)
    except LineError as problem:
        raise ValueError(f"this is {problem}") from None
    line = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    if len(line) > MOST_BYTES:
        raise ValueError(f"a record is {TOO_LONG}")
    return line


class LineParser:
    """Parses the lines of files of tuning records. Tasks are long and repeated on many lines, so parsed tasks are
    cached.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def parse(self, line: bytes) -> Record:
        """The tuning record of a line, with or without its newline. Raises LineError."""
        if len(line) > MOST_BYTES:
            raise LineError(TOO_LONG)
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise LineError(NO_TEXT) from None
        cut = text.find(_CUT)
        head = text[:cut] if cut > 0 else ""
        # Where `head}` is an object and `{tail` is one, `head,tail` is the object with the fields of both.
        if (task := self._tasks.get(head)) is not None:
            try:
                fields = _decode("{" + text[cut + 1 :])
                if fields.keys() - _OPTIONAL == _TAIL_FIELDS:
                    return _record(task, fields)
            except LineError:
                pass  # The reported reason is that of the whole line.
        fields = _decode(text)
        _check_fields(fields)
        task = _task(fields)
        record = _record(task, fields)
        if head and _is_head(head):
            self._tasks[head] = task
        return record


_FIELDS = frozenset(_HEAD + _TAIL)
_TAIL_FIELDS = frozenset(_TAIL)


def _is_head(head: str) -> bool:
    try:
        return _decode(head + "}").keys() == set(_HEAD)
    except LineError:
        return False


def _decode(text: str) -> dict[str, Any]:
    """The JSON object of a text. Raises LineError, also for duplicate fields at any depth."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise LineError(NO_TEXT if "\0" in text else NO_JSON) from None
    if type(value) is not dict:
        raise LineError(NO_RECORD, f"{short(value)} is not an object")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise LineError(TWICE)
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def _check_fields(fields: dict[str, Any]) -> None:
    version = fields.get("version")
    if type(version) is int and version != VERSION:
        raise LineError(OTHER_VERSION, f"{short(version)}; this release reads {VERSION}")
    if type(version) is not int:
        raise LineError(NO_RECORD, "it has no version")
    if wrong := sorted(_FIELDS ^ (fields.keys() - _OPTIONAL)):
        problem = "has no" if wrong[0] in _FIELDS else "has an unknown"
        raise LineError(NO_RECORD, f"it {problem} field {short(wrong[0])}")


def _task(fields: dict[str, Any]) -> Task:
    try:
        return Task(workload=fields["workload"], target=fields["target"])
    except ValueError as error:
        raise LineError(NO_RECORD, str(error)) from None


def _record(task: Task, fields: dict[str, Any]) -> Record:
    _check_tail(fields, task.unit)
    if fields["trial"] >= MOST_TRIALS:
        raise _wrong(
            "trial", fields["trial"], f"below {MOST_TRIALS:,}, the number of trials that no search reaches"
        )
    cost = fields["cost"]
    return Record(
        task=task,
        knobs=fields["knobs"],
        cost=None if cost is None else float(cost),
        error=fields["error"],
        trial=fields["trial"],
        seed=fields["seed"],
        strategy=fields["strategy"],
        elapsed=float(fields["elapsed"]),
        compiler=fields.get("compiler"),
    )


def _check_tail(fields: Mapping[str, Any], unit: str) -> None:
    """Checks the fields of a tuning record that follow its target: knobs, cost, unit, error and the search. Raises
    LineError.
    """
    knobs, cost, error = fields["knobs"], fields["cost"], fields["error"]
    if type(knobs) is not dict:
        raise _wrong("knobs", knobs, "an object")
    for name, value in knobs.items():
        if not is_integer(value):
            raise _wrong(f"knobs.{name}", value, "an integer")
        if not name or not name.isprintable():
            raise _wrong("the name of a knob", name, "a printable word")
    if fields["unit"] != unit:
        raise _wrong("unit", fields["unit"], f"{unit} for this target")
    if cost is not None and not (is_number(cost) and cost > 0):
        raise _wrong("cost", cost, "a positive number, or null where the trial failed")
    if cost is None and not (is_name(error) and len(error) <= MOST_CHARACTERS):
        raise _wrong(
            "error", error, f"one line of text, at most {MOST_CHARACTERS} characters, where cost is null"
        )
    if cost is not None and error is not None:
        raise _wrong("error", error, "null where there is a cost")
    for name in ("trial", "seed"):
        if not (is_integer(fields[name]) and fields[name] >= 0):
            raise _wrong(name, fields[name], "an integer of 0 or more")
    if not is_name(fields["strategy"]):
        raise _wrong("strategy", fields["strategy"], "a printable word")
    if not (is_number(fields["elapsed"]) and fields["elapsed"] >= 0):
        raise _wrong("elapsed", fields["elapsed"], "a number of seconds, 0 or more")
    if "compiler" in fields and not is_name(fields["compiler"]):
        raise _wrong("compiler", fields["compiler"], "a printable word")


def _wrong(name: str, value: object, must: str) -> LineError:
    return LineError(NO_RECORD, f"{brief(name)} is {short(value)}, must be {must}")

"""Records of tuning trials: what was tried and what it cost, one JSON object a line.

    {"version":1,"workload":{...},"target":{...},"knobs":{"rows":4,...},"cost":7040.0,"unit":"cycles","error":null,
     "trial":17,"seed":0,"strategy":"model","elapsed":0.004}

(in one line, ASCII). Everything is checked when a line is read, since files come from elsewhere, and after a crash.
`record_files.py` reads and writes files of them, `record_book.py` uses them.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from vdla.isa.config import Config

from ...target.cpu.machine import CpuTarget

VERSION = 1
"""Of the lines; it changes when their fields do."""
UNITS = {"vdla": "cycles", "llvm": "seconds"}
"""The kinds of targets, each with what costs are counted in."""
MOST_BYTES = 1 << 16
"""Of a line; no record comes near."""
MOST_CHARACTERS = 500
"""Of an error's text."""
MOST_LEVELS = 8
"""Of lists and objects within a workload or a target."""

Key: TypeAlias = tuple[str, str]
"""The canonical text of a workload and the identity of a target: what records are found by."""
Description: TypeAlias = Mapping[str, Any]
"""A JSON object that describes a workload or a target."""

_HEAD = ("version", "workload", "target")
_TAIL = ("knobs", "cost", "unit", "error", "trial", "seed", "strategy", "elapsed")
_CUT = ',"knobs":'
_LEAST, _MOST = -(2**63), 2**63 - 1


class LineError(Exception):
    """A line that is no record. `kind` is one of a few that can be counted, `detail` says what is wrong, or ""."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind
        self.detail = detail


NO_TEXT = "no text"
NO_JSON = "no JSON"
NO_RECORD = "no record"
OTHER_VERSION = "of another version"
TWICE = "with a field twice"
TOO_LONG = f"longer than {MOST_BYTES} bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is tuned: a workload, {"template": name, and its shape}, on a target, {"kind": "vdla" or "llvm", ...}.

    Both are JSON objects; tuples in them become lists. Tasks are equal, and so are their keys, for equal workloads on
    equal machines, whatever these are called: of a target with a "digest" that and the kind count, of others
    everything. ValueError for what is no such object.
    """

    workload: Description = field(compare=False)
    target: Description = field(compare=False)
    key: Key = field(init=False)

    def __post_init__(self) -> None:
        for name, required in (("workload", "template"), ("target", "kind")):
            value = getattr(self, name)
            if obstacle := _description_obstacle(name, value, required):
                raise ValueError(obstacle)
            object.__setattr__(self, name, json.loads(_canonical(value)))
        kind = self.target["kind"]
        if kind not in UNITS:
            raise ValueError(f"target.kind is {_short(kind)}, must be one of {', '.join(UNITS)}")
        identity = self.target
        if "digest" in identity:
            identity = {"kind": kind, "digest": identity["digest"]}
        digest = hashlib.sha256(_canonical(identity).encode()).hexdigest()
        object.__setattr__(self, "key", (_canonical(self.workload), digest))

    @property
    def unit(self) -> str:
        """What its costs are counted in, "cycles" or "seconds"."""
        return UNITS[self.target["kind"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One trial of a search: these `knobs` cost so many cycles or seconds (`task.unit`), or failed.

    `cost` is None where the trial failed; then `error` says why in one line. `trial` counts from 0 within one search,
    which is named by `strategy` and `seed`; `elapsed` are seconds spent on it.
    """

    task: Task
    knobs: Mapping[str, int]
    cost: float | None
    error: str | None = None
    trial: int
    seed: int
    strategy: str
    elapsed: float


def describe_target(machine: Config | CpuTarget) -> dict[str, Any]:
    """The target of records for an accelerator or a processor, as a JSON object."""
    if isinstance(machine, Config):
        return {"kind": "vdla", "config": machine.name, "digest": machine.digest}
    return {"kind": "llvm", "triple": machine.triple, "cpu": machine.cpu, "digest": machine.digest}


def record_line(record: Record) -> bytes:
    """A record as a line, newline included. Long or unprintable texts of errors are shortened to what can be read.

    ValueError for a record that could not be read again.
    """
    task, error = record.task, record.error
    if error is not None:
        error = "".join(c if c.isprintable() else "?" for c in " ".join(error.split()))[:MOST_CHARACTERS]
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
    try:
        _check_tail(fields, task.unit)
    except LineError as problem:
        raise ValueError(f"this is {problem}") from None
    line = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    if len(line) > MOST_BYTES:
        raise ValueError(f"a record is {TOO_LONG}")
    return line


class LineParser:
    """Reads lines of one or many files, and remembers tasks, which are long and come on many lines."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def parse(self, line: bytes) -> Record:
        """The record of a line, with or without its newline. Raises LineError."""
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
                if fields.keys() == _TAIL_FIELDS:
                    return _record(task, fields)
            except LineError:
                pass  # The reason is that of the whole line.
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
    """The object that a text is. Raises LineError, also for fields that come twice, at any depth."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise LineError(NO_TEXT if "\0" in text else NO_JSON) from None
    if type(value) is not dict:
        raise LineError(NO_RECORD, f"{_short(value)} is no object")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise LineError(TWICE)
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def _check_fields(fields: dict[str, Any]) -> None:
    version = fields.get("version")
    if type(version) is int and version != VERSION:
        raise LineError(OTHER_VERSION, f"{_short(version)}; this release reads {VERSION}")
    if type(version) is not int:
        raise LineError(NO_RECORD, "it has no version")
    if wrong := sorted(_FIELDS ^ fields.keys()):
        problem = "has no" if wrong[0] in _FIELDS else "has an unknown"
        raise LineError(NO_RECORD, f"it {problem} field {_short(wrong[0])}")


def _task(fields: dict[str, Any]) -> Task:
    try:
        return Task(workload=fields["workload"], target=fields["target"])
    except ValueError as error:
        raise LineError(NO_RECORD, str(error)) from None


def _record(task: Task, fields: dict[str, Any]) -> Record:
    _check_tail(fields, task.unit)
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
    )


def _check_tail(fields: Mapping[str, Any], unit: str) -> None:
    """Raises LineError unless what follows the target is what it must be."""
    knobs, cost, error = fields["knobs"], fields["cost"], fields["error"]
    if type(knobs) is not dict:
        raise _wrong("knobs", knobs, "an object")
    for name, value in knobs.items():
        if type(value) is not int or not _LEAST <= value <= _MOST:
            raise _wrong(f"knobs.{name}", value, "an integer")
        if not name or not name.isprintable():
            raise _wrong("the name of a knob", name, "a printable word")
    if fields["unit"] != unit:
        raise _wrong("unit", fields["unit"], f"{unit} for this target")
    if cost is not None and not (_is_number(cost) and cost > 0):
        raise _wrong("cost", cost, "a positive number, or null where the trial failed")
    if cost is None and not (_is_name(error) and len(error) <= MOST_CHARACTERS):
        raise _wrong(
            "error", error, f"a text of a line where cost is null, {MOST_CHARACTERS} characters at most"
        )
    if cost is not None and error is not None:
        raise _wrong("error", error, "null where there is a cost")
    for name in ("trial", "seed"):
        if not (_is_integer(fields[name]) and fields[name] >= 0):
            raise _wrong(name, fields[name], "an integer from 0")
    if not _is_name(fields["strategy"]):
        raise _wrong("strategy", fields["strategy"], "a printable word")
    if not (_is_number(fields["elapsed"]) and fields["elapsed"] >= 0):
        raise _wrong("elapsed", fields["elapsed"], "a number of seconds from 0")


def _wrong(name: str, value: object, must: str) -> LineError:
    return LineError(NO_RECORD, f"{_printable(name)} is {_short(value)}, must be {must}")


def _is_integer(value: object) -> bool:
    return type(value) is int and _LEAST <= value <= _MOST


def _is_number(value: object) -> bool:
    return (type(value) is float and math.isfinite(value)) or _is_integer(value)


def _is_name(value: object) -> bool:
    return type(value) is str and value != "" and value.isprintable()


def _description_obstacle(name: str, value: object, required: str) -> str | None:
    """Why a workload or target is none."""
    if not isinstance(value, Mapping):
        return f"{name} is {_short(value)}, must be an object"
    if not _is_name(value.get(required)):
        return f"{name}.{required} is {_short(value.get(required))}, must be a name"
    return _value_obstacle(name, value, MOST_LEVELS)


def _value_obstacle(place: str, value: object, levels: int) -> str | None:
    if levels == 0:
        return f"{place} is nested more than {MOST_LEVELS} levels deep"
    if isinstance(value, Mapping):
        for name in value:
            if not _is_name(name):
                return f"{place} has a field {_short(name)}, must be a printable word"
        inside = [(f"{place}.{name}", item) for name, item in value.items()]
    elif isinstance(value, list | tuple):
        inside = [(f"{place}[{i}]", item) for i, item in enumerate(value)]
    elif value is None or type(value) is bool or _is_number(value) or value == "" or _is_name(value):
        return None
    else:
        return f"{place} is {_short(value)}, must be a plain JSON value"
    obstacles = (_value_obstacle(*item, levels - 1) for item in inside)
    return next((found for found in obstacles if found), None)


def _canonical(value: object) -> str:
    """The one text of a JSON value: sorted names, no spaces, ASCII; 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _printable(text: str) -> str:
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _short(value: object) -> str:
    try:
        return _printable(repr(value))
    except RecursionError:
        return "nested too deeply"

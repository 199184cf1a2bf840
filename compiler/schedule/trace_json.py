"""Converts traces (the recorded steps of schedules) to text, lists of JSON values and JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from vdla.util.errors import UserError

from .trace import Argument, Step, Trace, step_obstacle

VERSION = 1
"""Version of the JSON form of traces; it changes when a step's arguments do."""


class TraceError(UserError):
    """Raised for an invalid trace: text that is not JSON, another version, an unknown primitive or wrong arguments."""


def format_trace(trace: Iterable[Step]) -> str:
    """A trace as readable text, one call on each line."""
    return "".join(f"{step.primitive}({', '.join(map(_argument, step.arguments))})\n" for step in trace)


def trace_to_lists(trace: Iterable[Step]) -> list[list[Any]]:
    """A trace as lists of JSON values, each [primitive, arguments …]."""
    return [[step.primitive, *_to_list(step.arguments)] for step in trace]


def trace_from_lists(lists: object) -> Trace:
    """The trace described by lists from `trace_to_lists`. Raises TraceError for anything else, with a step's number."""
    if not isinstance(lists, Sequence) or isinstance(lists, str):
        raise TraceError(f"a trace is a list of steps, not {_short(lists)}")
    steps: list[Step] = []
    for number, entry in enumerate(lists, 1):
        if not isinstance(entry, Sequence) or isinstance(entry, str) or not entry:
            raise TraceError(f"step {number} of the trace is {_short(entry)}, not [primitive, arguments …]")
        head, *rest = entry
        if not isinstance(head, str):
            raise TraceError(
                f"step {number} of the trace begins with {_short(head)}, which does not name a primitive"
            )
        step = Step(primitive=head, arguments=_to_tuple(rest))
        if (reason := step_obstacle(step)) is not None:
            raise TraceError(f"step {number} of the trace: {reason}")
        steps.append(step)
    return tuple(steps)


def trace_to_json(trace: Iterable[Step]) -> str:
    """A trace as JSON text, one step on each line, equal on any machine."""
    lines = [json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in trace_to_lists(trace)]
    steps = ",\n".join(f"  {line}" for line in lines)
    return f'{{"version": {VERSION}, "steps": [\n{steps}\n]}}\n'


def trace_from_json(text: str) -> Trace:
    """The trace in a text of `trace_to_json`, however spaced. Raises TraceError for text that is no such trace."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"the trace is not JSON: {error}") from None
    if not isinstance(value, dict) or value.keys() != {"version", "steps"}:
        raise TraceError(f"a trace is an object of version and steps, not {_short(value)}")
    if value["version"] != VERSION:
        raise TraceError(f"the trace is of version {_short(value['version'])}; this release reads {VERSION}")
    return trace_from_lists(value["steps"])


def _argument(value: Argument) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_argument, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that a trace may contain")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _to_list(arguments: tuple[Any, ...]) -> list[Any]:
    return [_to_list(a) if isinstance(a, tuple) else a for a in arguments]


def _to_tuple(arguments: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([_to_tuple(a) if isinstance(a, list | tuple) else a for a in arguments])

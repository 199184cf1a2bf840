"""Traces: the steps of a schedule, as values and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from vdla.util.errors import UserError

from ..ir.quick_init import quick_init
from ..ir.stmt import LOOP_KINDS

Argument: TypeAlias = str | int | float | tuple["Argument", ...] | None

VERSION = 1
"""Version of the JSON form; it changes when a step's arguments do."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One primitive with its arguments; an intrinsic is given by its name."""

    primitive: str
    arguments: tuple[Argument, ...]


Trace: TypeAlias = tuple[Step, ...]


class TraceError(UserError):
    """Raised for an invalid trace: no JSON, another version, an unknown primitive, or invalid arguments."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A type of argument: its name in messages, and its predicate."""

    text: str
    accepts: Callable[[object], bool]


def _integer(value: object) -> bool:
    return type(value) is int and abs(value) < 2**63


def _name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _tuples(value: object, *each: Callable[[object], bool]) -> bool:
    """Whether a value is a tuple of tuples whose elements the predicates `each` accept."""
    return isinstance(value, tuple) and all(
        isinstance(v, tuple) and len(v) == len(each) and all(f(x) for f, x in zip(each, v, strict=True))
        for v in value
    )


_LOOP = _Kind("the name of a loop", _name)
_PLACE = _Kind("the name of a loop, or null", lambda v: v is None or _name(v))
_STATEMENT = _Kind("the name of a statement", _name)
_BUFFER = _Kind("the name of a buffer", _name)
_SCOPE = _Kind("a memory scope", _name)
_COUNT = _Kind("an integer", _integer)
_LOOP_KIND = _Kind(f"one of {', '.join(LOOP_KINDS)}", lambda v: isinstance(v, str) and v in LOOP_KINDS)
_END = _Kind("first or last", lambda v: v in ("first", "last"))
_TILES = _Kind("a list of [dimension, size]", lambda v: _tuples(v, _integer, _integer))
_ORDER = _Kind("a list of dimensions", lambda v: isinstance(v, tuple) and all(map(_integer, v)))
_AXES = _Kind("a list of [axis, threads]", lambda v: _tuples(v, _name, _integer))
_INTRINSIC = _Kind("the name of an intrinsic", _name)
_ATTRIBUTES = _Kind(
    "a list of [name, value]",
    lambda v: _tuples(v, _name, lambda x: isinstance(x, str | float) or _integer(x)),
)

PRIMITIVES: Mapping[str, tuple[_Kind, ...]] = {
    "split": (_LOOP, _COUNT),
    "fuse": (_LOOP, _LOOP),
    "reorder": (_LOOP,),
    "tile": (_LOOP, _LOOP, _COUNT, _COUNT),
    "annotate": (_LOOP, _LOOP_KIND),
    "peel": (_LOOP, _END),
    "pipeline": (_LOOP, _COUNT, _COUNT),
    "split_copy": (_STATEMENT, _COUNT, _COUNT),
    "expand_copy": (_STATEMENT,),
    "box_copy": (_STATEMENT,),
    "share_copy": (_STATEMENT, _AXES, _COUNT),
    "guard": (_LOOP, _COUNT),
    "pad": (_LOOP, _COUNT),
    "skip_pads": (_LOOP,),
    "pack": (_BUFFER, _TILES, _ORDER),
    "prefetch": (_LOOP, _BUFFER, _COUNT),
    "decompose_reduction": (_STATEMENT, _LOOP),
    "rfactor": (_STATEMENT, _LOOP),
    "compute_at": (_STATEMENT, _LOOP),
    "reverse_compute_at": (_STATEMENT, _LOOP),
    "compute_inline": (_STATEMENT,),
    "compute_early": (_STATEMENT,),
    "set_scope": (_BUFFER, _SCOPE),
    "widen": (_BUFFER, _COUNT, _COUNT),
    "cache_read": (_BUFFER, _PLACE, _SCOPE),
    "cache_write": (_BUFFER, _PLACE, _SCOPE),
    "tensorize": (_STATEMENT, _INTRINSIC, _ATTRIBUTES),
}
"""The primitives of traces, with the types of their arguments. `reorder` takes one loop or more; the last argument of
`pipeline` is optional.
"""


def step_obstacle(step: Step) -> str | None:
    """The reason why a step is invalid; None if its primitive exists and its arguments have the right types."""
    kinds = PRIMITIVES.get(step.primitive)
    if kinds is None:
        return f"there is no primitive {step.primitive!r}; there are: {', '.join(PRIMITIVES)}"
    if step.primitive == "reorder":
        kinds = kinds * max(1, len(step.arguments))
    if step.primitive == "pipeline" and len(step.arguments) == 2:
        kinds = kinds[:2]
    if len(step.arguments) != len(kinds):
        return f"{step.primitive} takes {len(kinds)} arguments, not {len(step.arguments)}"
    for position, (argument, kind) in enumerate(zip(step.arguments, kinds, strict=True), 1):
        if not kind.accepts(argument):
            return f"argument {position} of {step.primitive} is {argument!r}, must be {kind.text}"
    return None


def format_trace(trace: Iterable[Step]) -> str:
    """A trace as readable text, one call on each line."""
    return "".join(f"{step.primitive}({', '.join(map(_argument, step.arguments))})\n" for step in trace)


def trace_to_lists(trace: Iterable[Step]) -> list[list[Any]]:
    """A trace as lists of JSON values, each [primitive, arguments …]."""
    return [[step.primitive, *_to_list(step.arguments)] for step in trace]


def trace_from_lists(lists: object) -> Trace:
    """The trace described by lists from `trace_to_lists`. Raises TraceError, which names the step, for anything
    else.
    """
    if not isinstance(lists, Sequence) or isinstance(lists, str):
        raise TraceError(f"a trace is a list of steps, not {_short(lists)}")
    steps: list[Step] = []
    for number, entry in enumerate(lists, 1):
        if not isinstance(entry, Sequence) or isinstance(entry, str) or not entry:
            raise TraceError(f"step {number} of the trace is {_short(entry)}, not [primitive, arguments …]")
        head, *rest = entry
        if not isinstance(head, str):
            raise TraceError(f"step {number} of the trace names no primitive but {_short(head)}")
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
    """The trace that `trace_to_json` wrote. Raises TraceError for any other text."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"the trace is no JSON: {error}") from None
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
    raise ValueError(f"{name} is no number of a trace")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _to_list(arguments: tuple[Any, ...]) -> list[Any]:
    return [_to_list(a) if isinstance(a, tuple) else a for a in arguments]


def _to_tuple(arguments: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([_to_tuple(a) if isinstance(a, list | tuple) else a for a in arguments])

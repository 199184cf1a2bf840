"""Traces: the steps of a schedule (primitives with their arguments), as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..ir.quick_init import quick_init
from ..ir.stmt import LOOP_KINDS

Argument: TypeAlias = str | int | float | tuple["Argument", ...] | None


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One primitive with its arguments; an intrinsic is given by its name."""

    primitive: str
    arguments: tuple[Argument, ...]


Trace: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A type of argument of a primitive: its name in messages, and the predicate that tests a value."""

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
_INTRINSIC = _Kind("the name of an intrinsic or function", _name)
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
    "update_in_place": (_STATEMENT, _BUFFER),
    "compute_early": (_STATEMENT, _INTRINSIC),
    "set_scope": (_BUFFER, _SCOPE),
    "widen": (_BUFFER, _COUNT, _COUNT),
    "cache_read": (_BUFFER, _PLACE, _SCOPE),
    "cache_write": (_BUFFER, _PLACE, _SCOPE),
    "tensorize": (_STATEMENT, _INTRINSIC, _ATTRIBUTES),
}
"""Argument types by primitive. `reorder` takes one or more; `pipeline`, `compute_early` may lack the last argument."""


def step_obstacle(step: Step) -> str | None:
    """The reason why a step is invalid; None if its primitive exists and its arguments have the right types."""
    kinds = PRIMITIVES.get(step.primitive)
    if kinds is None:
        return f"there is no scheduling primitive {step.primitive!r}; there are: {', '.join(PRIMITIVES)}"
    if step.primitive == "reorder":
        kinds = kinds * max(1, len(step.arguments))
    if step.primitive in ("pipeline", "compute_early") and len(step.arguments) == len(kinds) - 1:
        kinds = kinds[:-1]
    if len(step.arguments) != len(kinds):
        return f"{step.primitive} takes {len(kinds)} arguments, not {len(step.arguments)}"
    for position, (argument, kind) in enumerate(zip(step.arguments, kinds, strict=True), 1):
        if not kind.accepts(argument):
            return f"argument {position} of {step.primitive} is {argument!r}, must be {kind.text}"
    return None

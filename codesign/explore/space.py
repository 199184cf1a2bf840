"""A space of machines (accelerator configurations): a base configuration and the values that its fields may have. This
module reads the file that describes a space, and enumerates the space's points.

    base = "vta"                                   # a preset, or a TOML file beside this one
    conditions = ["wgt_buffer_bytes >= 512 * block_in"]

    [fields]
    block_in = [8, 16, 32]                         # a list of values
    block_out = "block_in"                         # follows from other fields
    inp_buffer_bytes = { from = 16384, to = 131072, times = 2 }
    read_latency = { from = 30, to = 120, step = 30 }

`vdla config --fields` lists the fields, including the memory's. If a point changes the memory, each FIFO whose size the
space does not set gets a size that keeps the memory's bus busy; conditions and derived fields read these sizes.
"""

from __future__ import annotations

import reprlib
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import prod
from pathlib import Path
from random import Random
from typing import Any

from vdla.isa.config import MACHINE_FIELDS, OTHER_TYPES, PRESETS, Config, load_config
from vdla.isa.fifos import FIFOS
from vdla.util.errors import UserError
from vdla.util.files import MOST_TEXT_BYTES, read_file

from .expressions import Expression, parse_expression

MOST_VALUES = 4096
"""Largest number of values that one field of a space may have."""
MOST_LOOKED_AT = 4096
"""Largest number of points of a space that are examined. In a space of more points, a random sample is examined. If no
examined point is a valid machine, the space counts as empty.
"""
Value = int | str | tuple[str, ...]
Point = tuple[int, ...]
"""A point of a space: for each axis, the index of a value of that axis."""


class SpaceError(UserError):
    """Raised for a space that cannot be read or contains no valid machine, and for a point that breaks a condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A field of the configuration and the distinct values that it may have."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Space:
    """All combinations of the values of `axes` that meet all `conditions`; `derived` fields follow from
    other fields.
    """

    base: Config
    axes: tuple[Axis, ...]
    derived: Mapping[str, Expression]
    conditions: tuple[Expression, ...]

    @property
    def size(self) -> int:
        """Number of points (choices of values for all axes), including points that are no valid machine."""
        return prod(len(axis.values) for axis in self.axes)

    def points(self) -> Iterator[Point]:
        """All points (choices of values for all axes); the last axis changes fastest."""
        for number in range(self.size):
            yield self.point(number)

    def point(self, number: int) -> Point:
        """The point (a choice of values for all axes) with a number from 0 to `size` - 1."""
        indices = []
        for axis in reversed(self.axes):
            number, index = divmod(number, len(axis.values))
            indices.append(index)
        return tuple(reversed(indices))

    def fields(self, point: Point) -> dict[str, Value]:
        """The values, by field, of the space's own fields (axes and derived fields) at a point of the space. Raises
        UserError if a derived field has no value.
        """
        chosen: dict[str, Value] = {a.name: a.values[i] for a, i in zip(self.axes, point, strict=True)}
        known = {**field_values(self.base), **chosen}
        for name, expression in self.derived.items():
            if _reads_fifo(expression):
                known |= self._fifo_sizes(chosen)
            known[name] = chosen[name] = expression.value(known)
        return chosen

    def machine(self, point: Point) -> Config:
        """The machine at a point of the space. Raises UserError, with the reason, if a condition does not hold or the
        fields contradict each other.
        """
        chosen = self.fields(point)
        known = {**field_values(self.base), **chosen}
        # Conditions are checked before the machine is built, so they may exclude contradictory fields; conditions on
        # FIFOs need the machine, which sizes them.
        for condition in sorted(self.conditions, key=_reads_fifo):
            if _reads_fifo(condition):
                known |= self._fifo_sizes(chosen)
            if not condition.value(known):
                raise SpaceError(f"the condition {condition.text} does not hold")
        return self._config_with(chosen)

    def _fifo_sizes(self, chosen: Mapping[str, Value]) -> dict[str, int]:
        """Bytes of every FIFO of the base machine with the fields in `chosen`. A key is the name of a configuration
        field, such as "load_fifo_bytes". Raises UserError if the fields contradict each other.
        """
        machine = self._config_with(chosen)
        return {f"{fifo}_fifo_bytes": machine.fifo_bytes(fifo) for fifo in FIFOS}

    def _config_with(self, chosen: Mapping[str, Value]) -> Config:
        """The base configuration with the fields in `chosen`. Raises UserError if the fields contradict each other."""
        memory = {name: value for name, value in chosen.items() if hasattr(self.base.memory, name)}
        own: dict[str, Any] = {name: value for name, value in chosen.items() if name not in memory}
        name = " ".join(f"{key}={shown(value)}" for key, value in chosen.items())
        if memory:
            # The base's FIFOs are sized for its memory; another memory's bus would starve.
            own = {f"{fifo}_fifo_bytes": None for fifo in FIFOS} | own
        return replace(self.base, name=name, memory=replace(self.base.memory, **memory), **own)


def _reads_fifo(expression: Expression) -> bool:
    """Whether the expression reads the size of a FIFO. Such an expression is evaluated last: a FIFO size that the space
    does not set is derived from all other fields of the machine.
    """
    return any(f"{fifo}_fifo_bytes" in expression.names for fifo in FIFOS)


def shown(value: Value) -> int | str:
    """A field's value as tables show it; names of extensions are joined by "+"."""
    return "+".join(value) if isinstance(value, tuple) else value


def size_text(value: int | str) -> str:
    """A field's value as text on the axis of a plot; a multiple of 1024 as in "16 Ki"."""
    if isinstance(value, int) and value >= 1024 and value % 1024 == 0:
        return f"{value // 1024} Ki"
    return f"{value:,}" if isinstance(value, int) else value


def plain(fields: Mapping[str, Value]) -> dict[str, Any]:
    """The fields of a machine as JSON values, by name."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}


def field_values(machine: Config) -> dict[str, Any]:
    """Every field of a machine by name, including fields of the memory; None for sizes that follow from the bus."""
    return {
        name: getattr(machine.memory if hasattr(machine.memory, name) else machine, name)
        for name in MACHINE_FIELDS
    }


def load_space(path: str | Path) -> Space:
    """Reads the file of a space. Raises SpaceError, which names file and field."""
    path = Path(path)
    try:
        table = tomllib.loads(read_file(path, most=MOST_TEXT_BYTES).decode())
    except OSError as error:
        raise SpaceError(f"{path}: {error.strerror}; give the TOML file of a search space") from None
    except (ValueError, RecursionError) as error:
        raise SpaceError(f"{path}: not valid TOML: {error}") from None
    try:
        return space_of(table, beside=path.parent)
    except UserError as error:
        raise SpaceError(f"{path}: {error}") from None


def space_of(table: Mapping[str, Any], *, beside: Path | None = None) -> Space:
    """The space described by `table`, the parsed file; a base configuration given as a file is searched in the folder
    `beside`. Raises UserError.
    """
    if unknown := sorted(set(table) - {"base", "fields", "conditions"}):
        raise SpaceError(f"unknown key {unknown[0]}; a space has base, [fields] and conditions")
    fields = table.get("fields")
    if not isinstance(fields, Mapping) or not fields:
        raise SpaceError("the space has no [fields]: name at least one field of the machine and its values")
    axes, derived = [], {}
    for name, item in fields.items():
        if name not in MACHINE_FIELDS:
            close = get_close_matches(name, MACHINE_FIELDS, 1)
            hint = f"did you mean {close[0]}?" if close else "`vdla config --fields` lists them"
            raise SpaceError(f"there is no field {name}; {hint}")
        if isinstance(item, str) and name != "extensions":
            derived[name] = _expression(item)
        else:
            axes.append(Axis(name=name, values=_values(name, item)))
    space = Space(
        base=_base(table.get("base", "vta"), beside),
        axes=tuple(axes),
        derived=_ordered(derived),
        conditions=tuple(_expression(item) for item in _texts(table.get("conditions", []))),
    )
    if all(machine_error(space, point) is not None for point in _sample(space)):
        examined = min(space.size, MOST_LOOKED_AT)
        raise SpaceError(
            f"none of {examined:,} examined choices of field values is a legal machine; change fields or conditions; "
            f"the first choice fails with: {machine_error(space, space.point(0))}"
        )
    return space


def _sample(space: Space) -> Iterator[Point]:
    """All points of a small space; `MOST_LOOKED_AT` random points (fixed seed) of a larger one."""
    if space.size <= MOST_LOOKED_AT:
        yield from space.points()
        return
    random = Random(0)
    for _ in range(MOST_LOOKED_AT):
        yield space.point(random.randrange(space.size))


def _base(base: Any, beside: Path | None) -> Config:
    if isinstance(base, Config):
        return base
    if not isinstance(base, str):
        raise SpaceError(f"base = {reprlib.repr(base)}: give a preset ({', '.join(PRESETS)}) or a TOML file")
    if base in PRESETS or beside is None:
        return load_config(base, pipes=False)
    return load_config(beside / base, pipes=False)


def _texts(items: Any) -> Sequence[str]:
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise SpaceError("conditions: give a list of texts, each a comparison of fields")
    return items


def _expression(text: str) -> Expression:
    expression = parse_expression(text)
    if unknown := sorted(expression.names - set(MACHINE_FIELDS)):
        raise SpaceError(f'"{text}": there is no field {unknown[0]}')
    return expression


def _ordered(derived: Mapping[str, Expression]) -> dict[str, Expression]:
    """The derived fields, each after the fields that it reads. Fields that read the size of a FIFO come last, because
    this size follows from the other fields.
    """
    left, found = dict(derived), dict[str, Expression]()
    while left:
        ready = [name for name, item in left.items() if not item.names & left.keys()]
        if not ready:
            raise SpaceError(
                f"the expressions of the fields {', '.join(left)} depend on each other in a circle; give one of these "
                "fields a list of values"
            )
        for name in [name for name in ready if not _reads_fifo(left[name])] or ready:
            found[name] = left.pop(name)
    return found


_EXPECTED = {tuple: "lists of names", int: "integers", str: "texts", bool: "true or false"}


def _values(name: str, item: Any) -> tuple[Value, ...]:
    if isinstance(item, Mapping):
        item = _range(name, item)
    values = [tuple(v) if isinstance(v, list) else v for v in (item if isinstance(item, list) else [item])]
    if not values or len(values) > MOST_VALUES:
        raise SpaceError(f"{name} has {len(values)} values; give 1 to {MOST_VALUES}")
    wanted = tuple if name == "extensions" else OTHER_TYPES.get(name, int)
    for value in values:
        if type(value) is not wanted or (
            isinstance(value, tuple) and not all(isinstance(each, str) for each in value)
        ):
            raise SpaceError(f"{name} = {reprlib.repr(value)}: expected {_EXPECTED[wanted]}")
    return tuple(dict.fromkeys(values))


def _range(name: str, item: Mapping[str, Any]) -> list[int]:
    """The values of a range in the file of a space: {from, to, step} adds `step` from one value to the next, and {from,
    to, times} multiplies by `times`. The last value is at most `to`.
    """
    step = "times" if "times" in item else "step"
    low, high, by = item.get("from"), item.get("to"), item.get(step)
    if set(item) - {"from", "to", step} or not all(type(value) is int for value in (low, high, by)):
        raise SpaceError(
            f"{name}: write a range as {{ from = A, to = B, step = C }}; for powers write times = C instead of step"
        )
    assert isinstance(low, int) and isinstance(high, int) and isinstance(by, int)
    if low > high:
        raise SpaceError(f"{name}: the range is empty: from = {low} is above to = {high}; exchange the two")
    if by < (2 if step == "times" else 1) or (step == "times" and low < 1):
        allowed = "times = 2 or more, and from = 1 or more" if step == "times" else "step = 1 or more"
        raise SpaceError(
            f"{name}: from = {low} with {step} = {by} never gets past to = {high}; give {allowed}"
        )
    values = [low]
    while (after := values[-1] * by if step == "times" else values[-1] + by) <= high:
        values.append(after)
        if len(values) > MOST_VALUES:
            break
    return values


def without_machine(space: Space) -> str | None:
    """A sentence about the points that are no valid machine, with the most frequent reason (among all points, or in a
    sample of a large space); None if all points are valid.
    """
    reasons: Counter[str] = Counter()
    first: dict[str, str] = {}
    for point in _sample(space):
        if (error := machine_error(space, point)) is not None:
            # Reasons are grouped by their text before the first comma, the subject.
            kind = str(error).partition(",")[0]
            reasons[kind] += 1
            first.setdefault(kind, str(error))
    if not reasons:
        return None
    count = sum(reasons.values())
    kind, most = reasons.most_common(1)[0]
    of = f"{space.size:,} points" if space.size <= MOST_LOOKED_AT else f"{MOST_LOOKED_AT:,} points looked at"
    share = "" if most == count else f" ({most:,} of them)"
    return f"{count:,} of {of} are not legal machines{share}: {first[kind]}"


def machine_error(space: Space, point: Point) -> UserError | None:
    """The reason why a point of the space is no valid machine; None if it is valid."""
    try:
        space.machine(point)
    except UserError as error:
        return error
    return None

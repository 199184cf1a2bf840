"""Declares the fields of a configuration: meaning, unit, legal range and other properties.

    read_latency: int = parameter(30, "cycles from ...", unit="cycles", low=1, high=10_000, rtl=False, samples=(1, 30))

The declarations are used by validation (`check_declared`), the parser of configuration files, the table of fields
(`describe.field_table`), random machines (`samples`), the machines and memories of co-simulation, the RTL's memory
model and the digest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from .errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """The declaration of a field. `doc`: its meaning. `low`, `high`: range, inclusive; None if the range depends on
    other fields, as `doc` says.

    `holds`: type of the values. `choices`: all legal values of a field that holds text; empty if any text is legal.
    `rtl`: the Verilog depends on the field (not on the latency of a memory, for example). `samples`: values for random
    machines. `later`: the field was added after programs, tuning records and digests had been written; `Config.to_dict`
    and the digest leave it out while it has its default, so that older files stay valid. `timing`: the field
    influences cycles, but never the instructions of a kernel with given knobs; a cached kernel serves all its values.
    """

    doc: str
    unit: str = ""
    low: int | None = None
    high: int | None = None
    power_of_two: bool = False
    holds: type = int
    choices: tuple[str, ...] = ()
    rtl: bool = True
    samples: tuple[int | str, ...] = ()
    later: bool = False
    timing: bool = False

    @property
    def legal(self) -> str:
        """Text of the legal values; empty if they depend on other fields."""
        if self.low is None or self.high is None:
            return " or ".join(map(repr, self.choices))
        if not self.power_of_two:
            return f"{self.low} to {self.high}"
        *most, last = (str(1 << bit) for bit in range(64) if self.low <= 1 << bit <= self.high)
        return f"{', '.join(most)} or {last}"


def parameter(default: Any, doc: str, **declaration: Any) -> Any:
    """A dataclass field with the default `default` and the declaration `Parameter(doc=doc, **declaration)`."""
    return dataclasses.field(default=default, metadata={"parameter": Parameter(doc=doc, **declaration)})


def declared(kind: type) -> Iterator[tuple[str, Any, Parameter]]:
    """Yields (name, default, declaration) for each declared field of the dataclass `kind`, in order."""
    for item in dataclasses.fields(kind):
        if "parameter" in item.metadata:
            yield item.name, item.default, item.metadata["parameter"]


def check_declared(values: object, prefix: str = "") -> None:
    """Checks declared fields of `values` against ranges. Raises ConfigError, with `prefix` before the field's name."""
    for name, default, item in declared(type(values)):
        value = getattr(values, name)
        if item.choices and value not in item.choices:
            raise ConfigError(f"{prefix}{name} = {value!r}: give {item.legal}")
        if item.low is None or item.high is None or (value is None and default is None):
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{prefix}{name} = {value!r}: expected an integer, {item.legal}")
        if not item.low <= value <= item.high or (item.power_of_two and not is_power_of_two(value)):
            must = (
                f"be a power of two, {item.legal}"
                if item.power_of_two
                else f"lie between {item.low} and {item.high}"
            )
            raise ConfigError(f"{prefix}{name} = {value}: must {must}")


def later_defaults(kind: type) -> dict[str, Any]:
    """Defaults, by name, of the fields of the dataclass `kind` that are declared `later`: they were added after older
    files had been written, so those files lack them.
    """
    return {name: default for name, default, item in declared(kind) if item.later}


def is_power_of_two(value: int) -> bool:
    """Whether `value` is a power of two: 1, 2, 4, ..."""
    return value > 0 and value & (value - 1) == 0


def short_repr(values: Any, usual: Any, leave_out: Collection[str] = ()) -> str:
    """The constructor call of the dataclass `values` as text, with only the fields that differ from those of `usual`
    and are not in `leave_out`."""
    parts = [
        f"{item.name}={getattr(values, item.name)!r}"
        for item in dataclasses.fields(values)
        if item.name not in leave_out and getattr(values, item.name) != getattr(usual, item.name)
    ]
    return f"{type(values).__name__}({', '.join(parts)})"

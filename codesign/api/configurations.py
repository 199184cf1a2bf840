"""Configurations by name or file, with any field replaced."""

from __future__ import annotations

from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from vdla.isa.config import Config, Memory, load_config
from vdla.isa.errors import ConfigError

_MEMORY = frozenset(field.name for field in fields(Memory))
_CONFIG = frozenset(field.name for field in fields(Config))


def config(base: Config | str | Path = "vta", **changed: Any) -> Config:
    """The configuration `base` (a preset's name, a TOML file, or a `Config`) with the fields in `changed` replaced.

    The memory's fields (bus_bytes, read_latency, ...) are named like any other. The result is validated as a whole.
    Raises ConfigError for an unknown field, and for values that are out of range or contradict each other.
    """
    start = base if isinstance(base, Config) else load_config(base)
    for name in changed:
        if name not in _CONFIG | _MEMORY:
            close = get_close_matches(name, sorted(_CONFIG | _MEMORY), 1)
            raise ConfigError(
                f"configuration {start.name}: there is no field {name!r}"
                + (
                    f"; did you mean {close[0]!r}?"
                    if close
                    else f"; there are {', '.join(sorted(_CONFIG | _MEMORY))}"
                )
            )
    if memory := {name: value for name, value in changed.items() if name in _MEMORY}:
        start = replace(start, memory=replace(start.memory, **memory))
    return replace(start, **{name: value for name, value in changed.items() if name in _CONFIG})

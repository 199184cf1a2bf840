"""Configurations by name or file, with any field replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from vdla.isa.config import Config, Memory, load_config
from vdla.isa.custom import AluInstruction
from vdla.isa.errors import ConfigError

_MEMORY = frozenset(field.name for field in fields(Memory))
_CONFIG = frozenset(field.name for field in fields(Config))
_TUPLES: Mapping[str, type] = MappingProxyType({"extensions": str, "instructions": AluInstruction})
"""Fields of Config that hold tuples, and the type of the elements."""


def config(base: Config | str | Path = "vta", **changed: Any) -> Config:
    """The configuration `base` (a preset's name, a TOML file, or a `Config`) with the fields in `changed` replaced.

    The memory's fields (bus_bytes, read_latency, ...) are given by name, as all other fields. Numbers may be numpy's. A
    tuple of names may be given as a list or an array. The result is validated as a whole. Raises ConfigError for an
    unknown field, and for values that are out of range or contradict each other.
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
    values = {name: _plain(name, value) for name, value in changed.items()}
    if memory := {name: value for name, value in values.items() if name in _MEMORY}:
        start = replace(start, memory=replace(start.memory, **memory))
    return replace(start, **{name: value for name, value in values.items() if name in _CONFIG})


def _plain(name: str, value: Any) -> Any:
    """The value of the field `name` as a type that Config and Memory have: numpy's numbers become Python's, and lists
    and arrays become tuples. Raises ConfigError if `value` is a list but the field has a single value, if the field has
    a tuple but `value` is no list, or if the memory is no `Memory`.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if name == "memory" and not isinstance(value, Memory):
        raise ConfigError(
            f"memory is of type {type(value).__name__}; give a vdla.Memory, or its fields by name"
        )
    if name not in _TUPLES:
        if isinstance(value, tuple | list):
            raise ConfigError(f"{name} is {value!r:.40}; give one value")
        return value
    if not isinstance(value, tuple | list) or not all(isinstance(item, _TUPLES[name]) for item in value):
        raise ConfigError(f"{name} is {value!r:.40}; give a list of {_TUPLES[name].__name__}")
    return value if isinstance(value, tuple) else tuple(value)

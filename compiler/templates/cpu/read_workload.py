"""Workloads on processors from JSON: every field is checked, and sizes that cannot be measured are rejected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import prod
from typing import Any, get_args

from ...te.blocks import Window
from ...te.ops.sums import Activation
from ..workload_limits import MOST_ELEMENTS as MOST_TENSOR
from ..workload_limits import MOST_POSITIONS, MOST_STEP, WorkloadError
from .workload import CpuWorkload, Operator, Parts, SketchCpu

_CLASSES: tuple[type[CpuWorkload], ...] = get_args(CpuWorkload)
_WORDS = {"activation": get_args(Activation), "operator": get_args(Operator)}
_NESTED: dict[str, type] = {"window": Window, "parts": Parts}
_LENGTHS = {"pads": 4, "kernel": 2, "strides": 2, "dilations": 2}
_MAY_BE_ZERO = ("pads",)
MOST_SIZE = 1 << 24
"""Largest size in a workload; no tensor is larger along a dimension."""
_MOST = {"height": MOST_POSITIONS} | dict.fromkeys(_MAY_BE_ZERO, MOST_STEP)
"""Largest height and pads, by field name. Both are small because the choice of blocks tries every row."""


def workload_from_dict(values: Mapping[str, Any]) -> CpuWorkload:
    """The workload that a JSON object describes. Raises WorkloadError, which names the field, if it describes none."""
    template = values.get("template")
    kind = next((c for c in _CLASSES if c.__dataclass_fields__["template"].default == template), None)
    if kind is None:
        raise WorkloadError(f"there is no template {template!r} on processors")
    workload: CpuWorkload = read_fields(kind, f"{template}", values)
    if isinstance(workload, SketchCpu) and (reason := workload.refusal()) is not None:
        raise WorkloadError(f"{template}: {reason}")
    try:
        parameters = workload.program().parameters
    except ValueError as error:
        raise WorkloadError(f"{template}: {error}") from None
    if large := next((p for p in parameters if prod(p.shape) > MOST_TENSOR), None):
        raise WorkloadError(f"{template}: {large.name} has more than {MOST_TENSOR} elements")
    return workload


def read_fields(kind: type, where: str, values: Any) -> Any:
    """A dataclass `kind` (a workload or part of one) from the JSON values of all of its fields.

    Raises WorkloadError, whose message begins with `where`.
    """
    names = {field.name: field.default for field in fields(kind)}
    if not isinstance(values, Mapping):
        raise WorkloadError(f"{where} is {values!r}, must be an object")
    if wrong := sorted(values.keys() ^ names.keys()):
        what = "is missing" if wrong[0] in names else "is none of its fields"
        raise WorkloadError(f"{where}: {wrong[0]} {what}")
    return kind(
        **{
            # Null stands for an optional field that is left out.
            name: None if value is None and names[name] is None else _value(f"{where}: {name}", name, value)
            for name, value in values.items()
        }
    )


def _value(where: str, name: str, value: Any) -> Any:
    if name == "template":
        return value
    if name == "expression":
        from ...ir.node_reader import ProgramFormatError
        from ...ir.program_json import program_from_dict

        try:
            return program_from_dict(value)
        except ProgramFormatError as error:
            raise WorkloadError(f"{where} {error}") from None
    if name == "constants":
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise WorkloadError(f"{where} is {value!r}, must be a list of names")
    if (kind := _NESTED.get(name)) is not None:
        return read_fields(kind, where, value)
    if name in ("bias", "operand"):
        if isinstance(value, bool):
            return value
        raise WorkloadError(f"{where} is {value!r}, must be true or false")
    if (words := _WORDS.get(name)) is not None:
        if value in words:
            return value
        raise WorkloadError(f"{where} is {value!r}, must be one of {', '.join(words)}")
    least = 0 if name in _MAY_BE_ZERO else 1
    if (length := _LENGTHS.get(name)) is None:
        return _size(where, least, value, _MOST.get(name, MOST_SIZE))
    if isinstance(value, list | tuple) and len(value) == length:
        return tuple([_size(where, least, item, _MOST.get(name, MOST_SIZE)) for item in value])
    raise WorkloadError(f"{where} is {value!r}, must be a list of {length} sizes")


def _size(where: str, least: int, value: Any, most: int = MOST_SIZE) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise WorkloadError(f"{where} has {value!r}, must be {least} to {most}")

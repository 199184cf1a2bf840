"""Workloads on processors from JSON: every field is checked, and sizes that cannot be measured are rejected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

from ...te.blocks import Window
from ..workload_limits import MOST_STEP, WorkloadError
from .workload import CpuWorkload, Operator, SketchCpu

_LENGTHS = {"pads": 4, "kernel": 2, "strides": 2, "dilations": 2}
MOST_SIZE = 1 << 24
"""Largest size of a window. Tensors have at most this size along each dimension."""


def workload_from_dict(values: Mapping[str, Any]) -> CpuWorkload:
    """The workload that a JSON object describes. Raises WorkloadError, which names the field, if it describes none."""
    template = values.get("template")
    if template != SketchCpu.__dataclass_fields__["template"].default:
        raise WorkloadError(f"there is no template {template!r} on processors")
    workload: CpuWorkload = read_fields(SketchCpu, f"{template}", values)
    if (reason := workload.refusal()) is not None:
        raise WorkloadError(f"{template}: {reason}")
    return workload


def read_fields(kind: type, where: str, values: Any) -> Any:
    """A dataclass `kind` (a workload or part of one) from the JSON values of all of its fields.

    Raises WorkloadError, whose message begins with `where`.
    """
    names = {field.name: field.default for field in fields(kind)}
    if not isinstance(values, Mapping):
        raise WorkloadError(f"{where} is {values!r}, must be an object")
    if wrong := sorted(values.keys() ^ names.keys()):
        what = "is missing" if wrong[0] in names else "is not one of its fields"
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
    if name == "window":
        return read_fields(Window, where, value)
    if name == "operator":
        if value in (words := get_args(Operator)):
            return value
        raise WorkloadError(f"{where} is {value!r}, must be one of {', '.join(words)}")
    length = _LENGTHS[name]
    if not isinstance(value, list | tuple) or len(value) != length:
        raise WorkloadError(f"{where} is {value!r}, must be a list of {length} sizes")
    # Pads are small because the choice of blocks tries every row.
    least, most = (0, MOST_STEP) if name == "pads" else (1, MOST_SIZE)
    for size in value:
        if not isinstance(size, int) or isinstance(size, bool) or not least <= size <= most:
            raise WorkloadError(f"{where} has {size!r}, must be {least} to {most}")
    return tuple(value)

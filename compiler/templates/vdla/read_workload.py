"""Workloads of the accelerator from JSON: every field is checked, and sizes that no machine runs are rejected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import prod
from typing import Any

from vdla.isa.config import Config

from ..registry import Templates
from ..workload_limits import MOST_ELEMENTS, MOST_POSITIONS, MOST_SIZE, MOST_STEP, WorkloadError
from .template import TEMPLATES, template_named
from .workload import CHAINED, UNRECORDED, Workload


def workload_from_dict(value: Mapping[str, Any]) -> Workload:
    """The workload described by `value`, an output of `Workload.to_dict`.

    Raises WorkloadError for any other value, and for a workload that `checked` rejects.
    """
    names = [item.name for item in fields(Workload) if item.name not in (*CHAINED, *UNRECORDED)]
    if unknown := sorted((value.keys() - set(CHAINED)) ^ set(names)):
        problem = "is missing" if unknown[0] in names else "is not one of them"
        raise WorkloadError(
            f"a workload of the accelerator has the fields {', '.join(names)}; {unknown[0]!r} {problem}"
        )
    if value["template"] not in TEMPLATES:
        raise WorkloadError(
            f"the accelerator has no template {value['template']!r}; its templates are {', '.join(TEMPLATES)}"
        )
    found: dict[str, Any] = {"template": value["template"]}
    for name in (*names, *(name for name in CHAINED if value.get(name) is not None)):
        item, length = value[name], LENGTHS.get(name)
        numbers = [item] if length is None else item
        least = 0 if name.endswith("pads") or name == "margins" else 1
        if name == "template":
            continue
        if name in ("operand", "resident"):
            if not isinstance(item, bool):
                raise WorkloadError(f"{name} = {item!r} of a workload is neither true nor false")
        elif not isinstance(numbers, list | tuple) or len(numbers) != (length or 1):
            needed = "one number" if length is None else f"a list of {length} numbers"
            raise WorkloadError(f"{name} = {item!r} of a workload must be {needed}")
        elif not all(type(n) is int and n >= least for n in numbers):
            raise WorkloadError(
                f"{name} = {item!r} of a workload must consist of integers of at least {least}"
            )
        found[name] = item if length is None else tuple(numbers)
    return checked(Workload(**found))


LENGTHS = {"kernel": 2, "strides": 2, "pads": 4, "dilations": 2, "margins": 4}
LENGTHS |= {"pool_kernel": 2, "pool_strides": 2, "pool_pads": 4}
"""Workload fields that consist of several numbers, and how many."""


def checked(workload: Workload) -> Workload:
    """`workload` unchanged. Raises WorkloadError if a window does not fit, or a size or tensor exceeds
    `workload_limits`.
    """
    for item in fields(Workload):
        value = getattr(workload, item.name)
        if item.name == "template" or value is None:
            continue
        if isinstance(value, tuple) or item.name == "last_vectors":
            most = MOST_STEP
        else:
            most = MOST_POSITIONS if item.name in ("height", "width") else MOST_SIZE
        if max(value if isinstance(value, tuple) else (value,)) > most:
            raise WorkloadError(f"{item.name} = {value} of a workload is larger than {most}")
    try:
        rows, columns = workload.window.outputs(workload.height, workload.width)
        workload.pool.outputs(rows, columns)
    except ValueError as error:
        raise WorkloadError(f"{workload.template}: {error}") from None
    padded = workload.window.padded(workload.height, workload.width)
    tensors: dict[str, tuple[int, ...]] = {
        "input": (workload.batch, workload.channels, *padded),
        "output": (workload.batch, workload.filters, rows, columns),
    }
    if template_named(workload.template).dense_weights:
        tensors["weights"] = (workload.filters, workload.channels, *workload.kernel)
    for name, shape in tensors.items():
        if prod(shape) > MOST_ELEMENTS:
            raise WorkloadError(
                f"{workload.template}: the {name} of {prod(shape)} elements is larger than {MOST_ELEMENTS}"
            )
    return workload


VDLA: Templates[Config, Workload] = Templates(named=template_named, read=workload_from_dict)
"""Templates of the accelerator; costs are cycles."""

"""The table of templates for processors. An entry imports its template only when a network has a workload for it.

Schedules are for networks, with one thread or many. A schedule without knob values uses the template's default for many
threads. A template's `choice` is its default for one thread; a tuner compares candidates with this default.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ..registry import Registry
from ..template import Template
from .read_workload import workload_from_dict
from .workload import CpuWorkload


@cache
def template_named(name: str) -> Template[CpuTarget, Any, Program]:
    """The template with this name. Raises KeyError if there is none."""
    match name:
        case "sketch_cpu":
            from . import sketches

            return Template(
                name=name,
                space=sketches.space,
                choice=sketches.default,
                schedule=lambda target, w, _, values: sketches.schedule(target, w, values or None),
            )
    raise KeyError(name)


CPU: Registry[CpuTarget, CpuWorkload] = Registry(named=template_named, read=workload_from_dict)
"""The templates of processors by name; their costs are in seconds."""

"""The table of templates for processors. An entry imports its template only when a network has a workload for it.

Schedules are for networks, with one thread or many. Without knob values they use the template's defaults for many
threads; a template's `choice` is the default for one thread, with which candidates are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...schedule import Schedule
from ..columns import Values
from ..registry import Registry
from ..template import Template
from .read_workload import workload_from_dict
from .workload import CpuWorkload

W = TypeVar("W")


def _scheduled(
    knobs_of: Callable[[CpuTarget, W, Values], Any],
    schedule: Callable[[CpuTarget, Program, W, Any], Schedule],
) -> Callable[[CpuTarget, W, Program, Values], Schedule]:
    """Makes a template's schedule function, which uses the knobs of a point of the search space, or default knobs if no
    values are given.
    """

    def of(target: CpuTarget, workload: W, program: Program, values: Values) -> Schedule:
        knobs = knobs_of(target, workload, values) if values else None
        return schedule(target, program, workload, knobs)

    return of


@cache
def template_named(name: str) -> Template[CpuTarget, Any, Program]:
    """The template with this name. Raises KeyError if there is none."""
    match name:
        case "conv2d_cpu":
            from . import conv2d, conv2d_space

            return Template(
                name=name,
                space=lambda target, w: conv2d_space.space(target, w.program(), w.window),
                choice=lambda target, w: conv2d_space.default_values(target, w.program(), w.window),
                schedule=_scheduled(
                    lambda _, w, values: conv2d_space.knobs_of(w.program(), w.window, values),
                    lambda target, program, w, knobs: conv2d.schedule(
                        target, program, w.window, knobs, parallel=True
                    ),
                ),
            )
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

"""Tasks as JSON, so that candidates can be measured in other processes and on other machines.

    {"kind": "vdla", "config": Config.to_dict(), "workload": Workload.to_dict()}

`load` makes of a description the function that measures its candidates, wherever that is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from vdla.isa.errors import UserError

from .trial import Result

if TYPE_CHECKING:
    from .measure_vdla import AcceleratorTask

Description: TypeAlias = Mapping[str, Any]
"""A task as a JSON object; "kind" says who reads the rest."""
Values: TypeAlias = Mapping[str, int]
"""A candidate: a value for each knob of the task's space."""
Measure: TypeAlias = Callable[[Values | None], Result]
"""Measures a candidate of one task; None is the template's own choice."""


class TaskError(UserError):
    """A description that is no task, or one that cannot be tuned."""


def describe(task: AcceleratorTask) -> dict[str, Any]:
    """The description of a task of the accelerator."""
    return {"kind": "vdla", "config": task.config.to_dict(), "workload": task.workload.to_dict()}


def canonical(description: Description) -> str:
    """The text of a description, in which equal ones are equal."""
    return json.dumps(description, sort_keys=True)


def load(description: Description) -> Measure:
    """The function that measures candidates of the task.

    Raises UserError for a description that is none: TaskError, or what its configuration or workload raise.
    """
    match description:
        case {"kind": "vdla", "config": dict(config), "workload": dict(workload), **rest} if not rest:
            return _load_accelerator(config, workload)
        case {"kind": "vdla"}:
            raise TaskError("a task of the accelerator has kind, config and workload, both JSON objects")
        case _:
            raise TaskError(f"there are no tasks of the kind {description.get('kind')!r}; there is 'vdla'")


def _load_accelerator(config: dict[str, Any], workload: dict[str, Any]) -> Measure:
    # The simulator and all templates: processes that never measure do without.
    from vdla.isa.program import config_from_dict

    from ..templates.workload_vdla import workload_from_dict
    from .measure_vdla import AcceleratorTask, measure

    machine, shape = config_from_dict(config), workload_from_dict(workload)
    try:
        task = AcceleratorTask.of(machine, shape)
    except ValueError as error:
        raise TaskError(f"a workload that computes nothing: {error}") from None
    return lambda values: measure(task, values)

"""Converts tuning tasks to and from JSON, so that other processes and other machines can measure their candidates.

A task is the search for the fastest schedule of one workload on one target. Its JSON object has these fields:

- Accelerator: "kind" is "vdla", "config" is `Config.to_dict()`, and "workload" is `Workload.to_dict()`. A machine with
  custom instructions also has "imports", a list of the Python modules that define these instructions.
- Processor: "kind" is "llvm", "target" has the fields of a `CpuTarget`, and "workload" is `CpuWorkload.to_dict()`.
- GPU: "kind" is "cuda" or another name in `runtime.gpus.GPUS`, "target" has the fields of a `GpuTarget`, and "workload"
  is `CudaWorkload.to_dict()`.

On a GPU, one task is measured in two steps, which have tasks of their own (`cuda_workers.py`). The task of kind "cuda
code" compiles candidates and writes them to the folder "folder". The task of kind "cuda device" times the compiled
candidates on the GPU whose number is "device".

`load` converts a JSON object to the function that measures candidates of the task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vdla.isa.config import Config
from vdla.util.errors import UserError

from ...runtime.gpus import GPUS, kind_of
from ...templates.columns import Values
from ...templates.registry import Target, Workload
from .trial import Result

if TYPE_CHECKING:
    from ...codegen.cuda.machine import GpuTarget
    from ...templates.gpu.workload import CudaWorkload
    from .trial_cuda import Compile, DeviceTrials

Description: TypeAlias = Mapping[str, Any]
"""A tuning task as a JSON object; its field "kind" selects the function that reads the other fields."""
Measure: TypeAlias = Callable[[Values | None], Result]
"""A function that measures a candidate of one task, given its knob values (None: the template's default)."""


CODE, DEVICE = "code", "device"
"""Second words of the two kinds of tasks on a GPU, after the kind of GPU: "cuda code", "cuda device"."""
_PARTS = {"kind", "target", "workload"}


class TaskError(UserError):
    """Raised for a description that is not a valid task, and for a task that cannot be tuned."""


def describe(target: Target, workload: Workload) -> dict[str, Any]:
    """The JSON description of the tuning task that searches for the fastest candidate of `workload` on `target`."""
    machine: dict[str, Any] = {"target": asdict(target)} if not isinstance(target, Config) else {}
    if isinstance(target, Config):
        machine = {"config": target.to_dict()}
        if target.instructions:
            machine["imports"] = modules_of([target])
    return {"kind": target.described["kind"], **machine, "workload": workload.to_dict()}


def modules_of(machines: Iterable[Config]) -> list[str]:
    """Names of the modules that define the custom instructions of `machines`, for the field "imports" of a description.
    Raises TaskError for an instruction that the running script itself defines, because other processes cannot import
    it.
    """
    instructions = [item for machine in machines for item in machine.instructions]
    for item in instructions:
        if item.rtl.__module__ == "__main__":
            raise TaskError(
                f"instruction {item.name} is defined in the script that runs, and worker processes cannot import it; "
                "put it into a module of its own, and import that"
            )
    return sorted({item.rtl.__module__ for item in instructions})


def import_described(description: Description) -> None:
    """Imports the modules of custom instructions that a description names. (The process that wrote the description had
    imported these modules.) Raises TaskError for a module that this process does not find.
    """
    for module in description.get("imports", ()):
        try:
            import_module(module)
        except ImportError as error:
            raise TaskError(
                f"the machine's custom instructions are in {module}: {error}; install it, or put its folder into "
                "PYTHONPATH, so that worker processes find it"
            ) from None


def describe_cuda_code(task: Description, folder: Path) -> dict[str, Any]:
    """The description of the step that compiles candidates of a task on a GPU into a folder."""
    return {**task, "kind": f"{task['kind']} {CODE}", "folder": str(folder)}


def describe_cuda_device(task: Description, folder: Path, ordinal: int) -> dict[str, Any]:
    """The description of the step that times the folder's candidates on GPU number `ordinal`."""
    return {**task, "kind": f"{task['kind']} {DEVICE}", "folder": str(folder), "device": ordinal}


def canonical(description: Description) -> str:
    """The canonical text of a description: equal descriptions have equal texts."""
    return json.dumps(description, sort_keys=True)


def load(description: Description) -> Measure:
    """Returns the function that measures candidates of the task.

    Raises UserError for an invalid description: a TaskError, or the error about the configuration or the workload in
    the description.
    """
    match description:
        case {"kind": "vdla", "imports": list(), **rest}:
            import_described(description)
            return load({"kind": "vdla", **rest})
        case {"kind": "vdla", "config": dict(config), "workload": dict(workload), **rest} if not rest:
            return _load_accelerator(config, workload)
        case {"kind": "vdla"}:
            raise TaskError(
                f"{_fields(description)}, but a task of the accelerator must have kind, config and workload, the last "
                "two JSON objects"
            )
        case {"kind": "llvm", "target": dict(target), "workload": dict(workload), **rest} if not rest:
            return _load_processor(target, workload)
        case {"kind": "llvm"}:
            raise TaskError(
                f"{_fields(description)}, but a task on a processor must have kind, target and workload, the last two "
                "JSON objects"
            )
        case {"kind": str(kind)} if kind.partition(" ")[0] in GPUS:
            return _load_gpu(description, kind)
        case _:
            known = ", ".join(f"'{name}'" for name in ("vdla", "llvm", *GPUS))
            raise TaskError(f"there are no tasks of the kind {description.get('kind')!r}; there are {known}")


def _fields(description: Mapping[str, Any]) -> str:
    """The beginning of an error that lists the fields of a task's description."""
    return f"the fields of a task are {', '.join(map(str, description)) or 'missing'}"


def _load_gpu(description: Description, kind: str) -> Measure:
    name, _, step = kind.partition(" ")
    if step == CODE:
        return load_cuda_code(description)
    if step != DEVICE:
        raise TaskError(
            f"a task of the kind {kind!r} must be compiled in one process and timed in another: measure it with "
            "CudaWorkers"
        )
    from .trial_cuda import trials_of_process

    return load_cuda_device(description, lambda ordinal: trials_of_process(name, ordinal))


def load_cuda_code(description: Description, compile: Compile | None = None) -> Measure:
    """Returns the function that compiles candidates of a task for a GPU, given their knob values. `compile`: the
    compiler to use (None: the usual compiler for this kind of GPU).

    Raises UserError for an invalid description.
    """
    from .trial_cuda import compile_candidate

    match description:
        case {"folder": str(folder), **task} if task.keys() == _PARTS:
            target, workload = _gpu_task(task)
        case _:
            raise TaskError(
                f"{_fields(description)}, but a task to compile for a GPU must have kind, target, workload and folder"
            )
    if compile is None:
        kind_of(target).check()  # A missing compiler is not the fault of a candidate.
    return lambda values: compile_candidate(target, workload, Path(folder), values, compile)


def load_cuda_device(description: Description, trials: Callable[[int], DeviceTrials]) -> Measure:
    """Returns the function that times compiled candidates of a task on a GPU, given their knob values. `trials` is
    called with the GPU's number, and returns an object that runs trials on it.

    Raises UserError for an invalid description.
    """
    match description:
        case {"device": int(ordinal), "folder": str(folder), **task} if task.keys() == _PARTS:
            target, workload = _gpu_task(task)
            return trials(ordinal).task(target, workload, Path(folder))
        case _:
            raise TaskError(
                f"{_fields(description)}, but a task to time on a GPU must have kind, target, workload, folder and "
                "device"
            )


def _gpu_task(task: Mapping[str, Any]) -> tuple[GpuTarget, CudaWorkload]:
    from ...templates.gpu.workload import workload_from_dict
    from .trial_cuda import target_from_dict

    try:
        target = target_from_dict(str(task["kind"]).partition(" ")[0], dict(task["target"]))
    except (ValueError, TypeError) as error:
        raise TaskError(f"a task on a GPU: {error}") from None
    return target, workload_from_dict(task["workload"])


def _load_accelerator(config: dict[str, Any], workload: dict[str, Any]) -> Measure:
    # Imported late: processes that never measure need neither the simulator nor the templates.
    from vdla.isa.program_file import config_from_dict

    from ...templates.vdla.read_workload import workload_from_dict
    from .measure_vdla import AcceleratorTask, measure

    machine, shape = config_from_dict(config), workload_from_dict(workload)
    try:
        task = AcceleratorTask.of(machine, shape)
    except ValueError as error:
        raise TaskError(f"the workload cannot be computed: {error}") from None
    return lambda values: measure(task, values)


def _load_processor(target: dict[str, Any], workload: dict[str, Any]) -> Measure:
    from ...codegen.cpu.machine import host_target, runs_here
    from ...templates.cpu.read_workload import workload_from_dict
    from .trial_cpu import evaluate, target_from_dict

    try:
        processor = target_from_dict(target)
    except (ValueError, TypeError, KeyError) as error:
        raise TaskError(f"a task on a processor: {error}") from None
    shape = workload_from_dict(workload)
    if not runs_here(processor):
        raise TaskError(
            f"trials for {processor.cpu} ({processor.triple}) cannot run here: this machine is {host_target().cpu} "
            f"({host_target().triple})"
        )
    return lambda values: evaluate(processor, shape, values)

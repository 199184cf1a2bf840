"""What the drivers of networks of kernels share: graphs from models, schedules from steps, and what launches say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypedDict

import numpy as np

from .graph.floating.graph import FloatGraph
from .graph.floating.onnx_import import import_float_model
from .graph.floating.pipeline import graph_passes, run_graph_passes
from .ir.expr import Buffer
from .ir.printer import format_node
from .passes.pipeline import dump_to
from .schedule import Schedule
from .schedule.pack import pack_arrays
from .target.cpu.kernel import aligned_copy
from .templates.lowered_node import LoweredStep, Target

Dump = Callable[[str, str], None]


def float_graph(
    model: Path | str | bytes, *, lanes: int, batch: int, fusion: bool, dump: Dump | None
) -> FloatGraph:
    """An ONNX model as the graph of its kernels, for vectors of `lanes` elements; `dump` sees it after every pass.

    Raises ModelError.
    """
    graph = import_float_model(model, batch=batch)
    return run_graph_passes(graph, graph_passes(lanes, fusion=fusion), dump)


def scheduled(
    steps: Iterable[LoweredStep[Target]], target: Target, dump_passes: Path | None
) -> Iterator[tuple[LoweredStep[Target], Schedule, Dump | None]]:
    """The kernels to be; those of equal programs share one schedule. The last says where to dump what comes of one."""
    schedules: dict[str, Schedule] = {}
    for number, step in enumerate(steps):
        if step.key not in schedules:
            schedules[step.key] = step.schedule(target)
        schedule = schedules[step.key]
        dump = None
        if dump_passes is not None:
            dump = dump_to(dump_passes / f"{number:03d}-{re.sub('[^A-Za-z0-9_.-]+', '_', step.name)}")
            dump("tensor-expression", format_node(step.program) + "\n")
            dump("schedule", format_node(schedule.program) + "\n")
        yield step, schedule, dump


class Work(TypedDict):
    """What launches have in common, whatever their kernel is."""

    name: str
    operator: str
    members: tuple[str, ...]
    operations: int
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray]


def work_of(step: LoweredStep[Target], schedule: Schedule, parameters: tuple[Buffer, ...]) -> Work:
    """A step's work, its constants packed as its schedule says, in the shapes of the kernel's parameters."""
    packed = pack_arrays(schedule.trace, step.constants)
    shapes = {parameter.name: parameter.shape for parameter in parameters}
    return Work(
        name=step.name,
        operator=step.operator,
        members=step.members,
        operations=step.operations,
        tensors=step.tensors,
        constants={name: aligned_copy(array, shapes[name]) for name, array in packed.items()},
    )

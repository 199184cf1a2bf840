"""What the drivers of networks of kernels share: graphs from models, kernels from steps, and what launches say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypedDict

import numpy as np

from .graph.cost import count_operations
from .graph.floating.onnx_import import import_float_model
from .graph.floating.pipeline import graph_passes, run_graph_passes
from .graph.graph import Graph
from .graph.onnx_read import ReadModel, Source
from .ir.expr import Buffer
from .ir.printer import format_node
from .passes.pipeline import dump_to
from .schedule import Schedule
from .schedule.pack import pack_arrays
from .target.cpu.kernel import aligned_copy
from .templates.chosen_knobs import Made
from .templates.lowered_node import LoweredNode, LoweredStep, Target
from .templates.space import Values

Dump = Callable[[str, str], None]


def float_graph(
    model: Source | ReadModel,
    *,
    lanes: int,
    batch: int,
    fusion: bool,
    dump: Dump | None,
    join: bool = False,
) -> Graph:
    """An ONNX model as the graph of its kernels, for vectors of `lanes` elements; `dump` sees it after every pass.

    `fusion` and `join` as of `graph_passes`. Raises ModelError.
    """
    graph = import_float_model(model, batch=batch)
    return run_graph_passes(graph, graph_passes(lanes, fusion=fusion, join=join), dump)


def step_of(graph: Graph, lowered: LoweredNode[Target, Any]) -> LoweredStep[Target]:
    """The step of a node of `graph`, as it is without records."""
    node = lowered.node
    return LoweredStep(
        name=node.name,
        operator=node.kind,
        members=node.members,
        operations=count_operations(graph, node),
        key=lowered.key,
        program=lowered.program,
        schedule=lowered.schedule,
        tensors=lowered.tensors,
        constants=lowered.constants,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compiled(Generic[Target, Made]):
    """A step as it is computed, with `values` of records (None: the template's choice), and what was made of it.

    `dump` goes on with the step's dumps.
    """

    step: LoweredStep[Target]
    values: Values | None
    schedule: Schedule
    made: Made
    dump: Dump | None


Make = Callable[[LoweredStep[Target], Schedule, int, Dump | None], Made]
"""Makes a kernel of a step and its schedule, given how many there are before it, and where to dump."""


def compiled(
    steps: Iterable[LoweredStep[Target]],
    target: Target,
    dump_passes: Path | None,
    make: Make[Target, Made],
    settle: Callable[[Made], object] | None = None,
    kernels: dict[str, Compiled[Target, Made]] | None = None,
) -> Iterator[Compiled[Target, Made]]:
    """What becomes of the steps; those of equal programs share one schedule, and what `make` made of it.

    `kernels` holds what calls before made for this target, and what this one adds.

    With knobs of records where these can be compiled, so `make` may raise `chosen_knobs.UNUSABLE`, and so may `settle`,
    which waits for what `make` has left to be done.
    """
    kernels = {} if kernels is None else kernels
    for number, step in enumerate(steps):
        folder = None if dump_passes is None else dump_passes / f"{number:03d}-{_as_name(step.name)}"
        if (known := kernels.get(step.key)) is not None:
            if known.values is not None and step.recorded is not None:
                step = step.recorded.step(known.values)
            yield replace(known, step=step, dump=_dumped(step, known.schedule, folder))
            continue
        kernel = _recorded(step, target, folder, make, settle, len(kernels))
        if kernel is None:
            kernel = _compiled(step, None, target, folder, make, len(kernels))
        kernels[step.key] = kernel
        yield kernel


def _recorded(
    step: LoweredStep[Target],
    target: Target,
    folder: Path | None,
    make: Make[Target, Made],
    settle: Callable[[Made], object] | None,
    number: int,
) -> Compiled[Target, Made] | None:
    """The step with knobs of records; None where there are none, or none that can be compiled."""
    if (recorded := step.recorded) is None:
        return None

    def settled(values: Values) -> Compiled[Target, Made]:
        kernel = _compiled(recorded.step(values), values, target, folder, make, number)
        if settle is not None:
            settle(kernel.made)
        return kernel

    return recorded.knobs.made(recorded.workload, recorded.space, settled)


def _compiled(
    step: LoweredStep[Target],
    values: Values | None,
    target: Target,
    folder: Path | None,
    make: Make[Target, Made],
    number: int,
) -> Compiled[Target, Made]:
    schedule = step.schedule(target)
    dump = _dumped(step, schedule, folder)
    made = make(step, schedule, number, dump)
    return Compiled(step=step, values=values, schedule=schedule, made=made, dump=dump)


def _dumped(step: LoweredStep[Target], schedule: Schedule, folder: Path | None) -> Dump | None:
    """The beginning of a step's dumps, in place of what was dumped there before."""
    if folder is None:
        return None
    dump = dump_to(folder)
    dump("tensor-expression", format_node(step.program) + "\n")
    dump("schedule", format_node(schedule.program) + "\n")
    return dump


def _as_name(text: str) -> str:
    return re.sub("[^A-Za-z0-9_.-]+", "_", text)


class Work(TypedDict):
    """What launches have in common, whatever their kernel is."""

    name: str
    operator: str
    members: tuple[str, ...]
    operations: int
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray]


def work_of(
    compiled: Compiled[Target, Made],
    parameters: tuple[Buffer, ...],
    placed: Callable[[np.ndarray, tuple[int, ...]], np.ndarray] = aligned_copy,
) -> Work:
    """A step's work, its constants packed as its schedule says, `placed` in the shapes of the kernel's parameters.

    Constants that are only written to a file need no place on a cache line: `np.reshape` does.
    """
    step = compiled.step
    packed = pack_arrays(compiled.schedule.trace, step.constants)
    shapes = {parameter.name: parameter.shape for parameter in parameters}
    return Work(
        name=step.name,
        operator=step.operator,
        members=step.members,
        operations=step.operations,
        tensors=step.tensors,
        constants={name: placed(array, shapes[name]) for name, array in packed.items()},
    )

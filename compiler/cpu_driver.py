"""compile_cpu: a float32 ONNX model in, a network of kernels out, for this machine or as code for another."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict

import numpy as np

from .graph.floating.cost import count_operations
from .graph.floating.graph import FloatGraph
from .graph.floating.onnx_import import import_float_model
from .graph.floating.pipeline import graph_passes, run_graph_passes
from .graph.floating.storage_plan import plan_storage
from .ir.expr import Buffer
from .ir.printer import format_node
from .ir.types import DType
from .passes.pipeline import dump_to
from .runtime.cpu_network import CpuNetwork, Launch
from .runtime.network_archive import NamedLaunch, NetworkCode
from .schedule import Schedule
from .schedule.pack import pack_arrays
from .target.cpu.kernel import Kernel, aligned_copy, build
from .target.cpu.machine import CpuTarget, host_target
from .target.cpu.module import Module, lower
from .templates.lower_cpu import lower_float_node
from .templates.lowered_node import LoweredNode


def compile_cpu(
    model: Path | str | bytes,
    target: CpuTarget | None = None,
    *,
    batch: int = 1,
    fusion: bool = True,
    dump_passes: Path | None = None,
) -> CpuNetwork:
    """Compile a float32 ONNX model (a path, or the bytes of one) for this machine (`target`: a lower level).

    A dynamic first dimension of the inputs becomes `batch`. Without `fusion` every operator is a kernel of its own.
    `dump_passes` names a folder that gets the graph after every pass and every kernel before and after its schedule.
    Equal programs become one kernel. Raises UserError.
    """
    started = time.perf_counter()
    target = host_target() if target is None else target
    graph = _optimized(model, target, batch, fusion, dump_passes)
    kernels: dict[str, Kernel] = {}
    launches: list[Launch] = []
    for lowered, schedule in _scheduled(graph, target, dump_passes):
        if lowered.key not in kernels:
            kernels[lowered.key] = build(schedule.program, target)
        kernel = kernels[lowered.key]
        work = _work(graph, lowered, schedule, kernel.program.parameters)
        launches.append(Launch(**work, kernel=kernel))
    return CpuNetwork(
        graph=graph,
        plan=plan_storage(graph),
        launches=tuple(launches),
        target=target,
        compile_seconds=time.perf_counter() - started,
    )


def compile_cpu_ahead(
    model: Path | str | bytes,
    target: CpuTarget,
    *,
    batch: int = 1,
    fusion: bool = True,
    dump_passes: Path | None = None,
) -> NetworkCode:
    """Compile a float32 ONNX model for any processor; see `compile_cpu`.

    To be saved (`runtime.network_archive`) or to become one function (`runtime.network_object`). Raises UserError.
    """
    graph = _optimized(model, target, batch, fusion, dump_passes)
    modules: dict[str, Module] = {}
    launches: list[NamedLaunch] = []
    for lowered, schedule in _scheduled(graph, target, dump_passes):
        if lowered.key not in modules:
            modules[lowered.key] = lower(schedule.program, target, function=f"vdla_kernel{len(modules)}")
        module = modules[lowered.key]
        work = _work(graph, lowered, schedule, module.parameters)
        launches.append(NamedLaunch(**work, function=module.function))
    return NetworkCode(
        graph=graph,
        plan=plan_storage(graph),
        launches=tuple(launches),
        target=target,
        modules=tuple(modules.values()),
    )


def _optimized(
    model: Path | str | bytes, target: CpuTarget, batch: int, fusion: bool, dump_passes: Path | None
) -> FloatGraph:
    graph = import_float_model(model, batch=batch)
    passes = graph_passes(target.lanes(DType.FLOAT32), fusion=fusion)
    return run_graph_passes(graph, passes, None if dump_passes is None else dump_to(dump_passes))


def _scheduled(
    graph: FloatGraph, target: CpuTarget, dump_passes: Path | None
) -> Iterator[tuple[LoweredNode, Schedule]]:
    """The nodes that need a kernel; those of equal programs share one schedule."""
    schedules: dict[str, Schedule] = {}
    for number, node in enumerate(graph.nodes):
        lowered = lower_float_node(target, graph, node)
        if lowered is None:
            continue
        if lowered.key not in schedules:
            schedules[lowered.key] = lowered.schedule(target)
        schedule = schedules[lowered.key]
        if dump_passes is not None:
            name = f"{number:03d}-{re.sub('[^A-Za-z0-9_.-]+', '_', node.name)}"
            write = dump_to(dump_passes / name)
            write("tensor-expression", format_node(lowered.program) + "\n")
            write("schedule", format_node(schedule.program) + "\n")
        yield lowered, schedule


class _Work(TypedDict):
    """What launches have in common, whatever their kernel is."""

    name: str
    operator: str
    members: tuple[str, ...]
    operations: int
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray]


def _work(
    graph: FloatGraph, lowered: LoweredNode, schedule: Schedule, parameters: tuple[Buffer, ...]
) -> _Work:
    packed = pack_arrays(schedule.trace, lowered.constants)
    shapes = {parameter.name: parameter.shape for parameter in parameters}
    node = lowered.node
    return _Work(
        name=node.name,
        operator=type(node.operator).__name__,
        members=node.members,
        operations=count_operations(graph, node),
        tensors=lowered.tensors,
        constants={name: aligned_copy(array, shapes[name]) for name, array in packed.items()},
    )

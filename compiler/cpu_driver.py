"""compile_cpu: a float32 ONNX model in, a network of kernels for this machine out."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np

from .graph.floating.cost import count_operations
from .graph.floating.graph import FloatGraph
from .graph.floating.onnx_import import import_float_model
from .graph.floating.pipeline import graph_passes, run_graph_passes
from .graph.floating.storage_plan import plan_storage
from .ir.printer import format_node
from .ir.types import DType
from .passes.pipeline import dump_to
from .runtime.cpu_network import CpuNetwork, Launch
from .schedule import Schedule
from .schedule.pack import pack_arrays
from .target.cpu.kernel import Kernel, aligned_empty, build
from .target.cpu.machine import CpuTarget, host_target
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
    graph = import_float_model(model, batch=batch)
    passes = graph_passes(target.lanes(DType.FLOAT32), fusion=fusion)
    dump = None if dump_passes is None else dump_to(dump_passes)
    graph = run_graph_passes(graph, passes, dump)
    kernels: dict[str, tuple[Kernel, Schedule]] = {}
    launches: list[Launch] = []
    for number, node in enumerate(graph.nodes):
        lowered = lower_float_node(target, graph, node)
        if lowered is None:
            continue
        if lowered.key not in kernels:
            schedule = lowered.schedule(target)
            kernels[lowered.key] = build(schedule.program, target), schedule
        kernel, schedule = kernels[lowered.key]
        launches.append(_launch(graph, lowered, kernel, schedule))
        if dump_passes is not None:
            name = f"{number:03d}-{re.sub('[^A-Za-z0-9_.-]+', '_', node.name)}"
            write = dump_to(dump_passes / name)
            write("tensor-expression", format_node(lowered.program) + "\n")
            write("schedule", format_node(schedule.program) + "\n")
    return CpuNetwork(
        graph=graph,
        plan=plan_storage(graph),
        launches=tuple(launches),
        target=target,
        compile_seconds=time.perf_counter() - started,
    )


def _launch(graph: FloatGraph, lowered: LoweredNode, kernel: Kernel, schedule: Schedule) -> Launch:
    packed = pack_arrays(schedule.trace, lowered.constants)
    shapes = {parameter.name: parameter.shape for parameter in kernel.program.parameters}
    node = lowered.node
    return Launch(
        name=node.name,
        operator=type(node.operator).__name__,
        members=node.members,
        operations=count_operations(graph, node),
        kernel=kernel,
        tensors=lowered.tensors,
        constants={name: _aligned(array, shapes[name]) for name, array in packed.items()},
    )


def _aligned(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array on a cache line, in the parameter's shape."""
    result = aligned_empty(shape, array.dtype)
    np.copyto(result, array.reshape(shape))
    return result

"""compile_cpu: an ONNX model in, a network of kernels out, for this machine or as code for another.

Quantized models get integer operators, with the results of `graph.interpret` bit by bit; others real-valued ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from .graph.errors import InvalidModelError, ModelError, NodeError
from .graph.fuse import fuse
from .graph.graph import Graph
from .graph.int8_for_processors import converted_inputs, for_processors
from .graph.onnx_import import import_model
from .graph.onnx_read import Source, is_quantized, read_model
from .graph.printer import format_graph
from .graph.remove_dead import remove_dead
from .graph.storage_plan import StoragePlan, check_plan, format_plan, plan_storage
from .ir.types import DType
from .kernel_steps import Compiled, Dump, compiled, float_graph, step_of, work_of
from .passes.pipeline import dump_to
from .runtime.cpu_network import CpuNetwork
from .runtime.launch import Launch
from .runtime.network_archive import NetworkCode
from .schedule import Schedule
from .target.cpu.background import LibraryInProgress
from .target.cpu.code_worker import CodeWorker
from .target.cpu.kernel import Kernel, build
from .target.cpu.machine import CpuTarget, host_target
from .target.cpu.module import Module, lower
from .templates.chosen_knobs import ChosenKnobs
from .templates.cpu.lower import lower_node
from .templates.cpu.tasks import CPU
from .templates.cpu.workload import CpuWorkload
from .templates.lowered_node import LoweredStep, Recorded
from .templates.space import Values

Told = Callable[[int, int], object]
"""Hears how many kernels are done, and of how many."""


class SharedKernels:
    """Kernels of one target, which the networks that are compiled with them share; use it in a `with` statement.

    Their code is generated on a thread, while the next ones are lowered; whoever runs a kernel waits for its own.
    """

    def __init__(self) -> None:
        self.worker = CodeWorker()
        self.made: dict[str, Compiled[CpuTarget, Kernel]] = {}

    def __enter__(self) -> SharedKernels:
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.end()


def compile_cpu(
    model: Source,
    target: CpuTarget | None = None,
    *,
    batch: int = 1,
    fusion: bool = True,
    dump_passes: Path | None = None,
    knobs: ChosenKnobs[CpuWorkload] | None = None,
    told: Told | None = None,
    kernels: SharedKernels | None = None,
) -> CpuNetwork:
    """Compile an ONNX model (a path, or the bytes of one) for this machine (`target`: a lower level).

    A dynamic first dimension of the inputs becomes `batch`. Without `fusion` every operator is a kernel of its own.
    `dump_passes` names a folder that gets the graph after every pass and every kernel before and after its schedule.
    Equal programs become one kernel. `knobs` chooses them for operators of float networks, as recorded ones of a tuner
    (None: all have their defaults); what it applied and what it ignored is for its owner to read. `told` hears how many
    kernels of how many are done. `kernels` holds those of networks before, for the same target, and gets the new ones,
    whose code may come later. Raises UserError.
    """
    started = time.perf_counter()
    target = host_target() if target is None else target
    work = _lowered(model, target, batch, fusion, dump_passes, knobs)
    return _network(work, target, dump_passes, started, told, kernels)


def compile_cpu_graph(graph: Graph, target: CpuTarget | None = None) -> CpuNetwork:
    """`compile_cpu` from an integer graph on, fused or not, whose convolutions have no pool in them."""
    started = time.perf_counter()
    target = host_target() if target is None else target
    ready = for_processors(graph, target.lanes(DType.INT32))
    return _network(_planned(None, ready, target), target, None, started)


def _network(
    work: _Lowered,
    target: CpuTarget,
    dump_passes: Path | None,
    started: float,
    told: Told | None = None,
    kernels: SharedKernels | None = None,
) -> CpuNetwork:
    with ExitStack() as stack:
        shared = stack.enter_context(SharedKernels()) if kernels is None else kernels

        def make(step: LoweredStep[CpuTarget], schedule: Schedule, number: int, dump: Dump | None) -> Kernel:
            return build(schedule.program, target, shared.worker)

        launches: list[Launch[Kernel]] = []
        for kernel in compiled(
            work.steps, target, dump_passes, make, settle=lambda kernel: kernel.code, kernels=shared.made
        ):
            launches.append(Launch(**work_of(kernel, kernel.made.program.parameters), kernel=kernel.made))
            if told is not None:
                told(len(launches), len(work.steps))
        if kernels is None:
            for launch in launches:
                launch.kernel.generated()
    return CpuNetwork(
        graph=work.graph,
        plan=work.plan,
        launches=tuple(launches),
        target=target,
        compile_seconds=time.perf_counter() - started,
        quantized=work.quantized,
    )


def compile_cpu_ahead(
    model: Source,
    target: CpuTarget,
    *,
    batch: int = 1,
    fusion: bool = True,
    dump_passes: Path | None = None,
    knobs: ChosenKnobs[CpuWorkload] | None = None,
    library: str | None = None,
    told: Told | None = None,
) -> NetworkCode:
    """Compile an ONNX model for any processor; see `compile_cpu`.

    To be saved (`runtime.network_archive`) or to become one function (`runtime.network_object`). With `library` the
    kernels become a static library of that name meanwhile, for the former. Raises UserError.
    """
    work = _lowered(model, target, batch, fusion, dump_passes, knobs)
    modules: dict[str, Module] = {}
    launches: list[Launch[str]] = []

    def make(step: LoweredStep[CpuTarget], schedule: Schedule, number: int, dump: Dump | None) -> Module:
        return lower(schedule.program, target, function=f"vdla_kernel{number}")

    with ExitStack() as stack:
        growing = None
        if library is not None:
            growing = stack.enter_context(LibraryInProgress(target, name=library))
        for kernel in compiled(work.steps, target, dump_passes, make):
            module = kernel.made
            if module.function not in modules:
                modules[module.function] = module
                if growing is not None:
                    growing.add(module, kernel.step.name)
            launches.append(Launch(**work_of(kernel, module.parameters, np.reshape), kernel=module.function))
            if told is not None:
                told(len(launches), len(work.steps))
        code = growing.finish() if growing is not None and modules else None
    return NetworkCode(
        graph=work.graph,
        plan=work.plan,
        launches=tuple(launches),
        target=target,
        modules=tuple(modules.values()),
        quantized=work.quantized,
        library=code,
    )


def network_workloads(
    model: Source, target: CpuTarget, *, batch: int = 1, fusion: bool = True
) -> list[tuple[str, CpuWorkload]]:
    """The kernels of a network for `target` that can be tuned, in order: their nodes' names and their workloads.

    None of quantized networks. Raises UserError.
    """
    steps = _lowered(model, target, batch, fusion, None).steps
    return [(step.name, step.workload) for step in steps if step.workload is not None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Lowered:
    """A network's tensors and where they lie, its kernels to be, and the inputs that may hold no NaN."""

    graph: Graph
    plan: StoragePlan
    steps: tuple[LoweredStep[CpuTarget], ...]
    quantized: frozenset[str] = frozenset()


def _lowered(
    model: Source,
    target: CpuTarget,
    batch: int,
    fusion: bool,
    dump_passes: Path | None,
    knobs: ChosenKnobs[CpuWorkload] | None = None,
) -> _Lowered:
    dump = None if dump_passes is None else dump_to(dump_passes)
    read = read_model(model)
    quantized, refusal = None, None
    if is_quantized(read):
        try:
            quantized = import_model(read, batch=batch, processor=True)
        except InvalidModelError:
            raise
        except ModelError as error:
            # Quantized in parts: what rounds is computed in float32 then, with both roundings of every pair.
            read, refusal = read_model(model), error
    if quantized is not None:
        name, rewrite = ("fuse", fuse) if fusion else ("remove-dead", remove_dead)
        rewritten = rewrite(quantized)
        graph = for_processors(rewritten, target.lanes(DType.INT32))
        if dump is not None:
            dump("import", format_graph(quantized))
            dump(name, format_graph(rewritten))
            dump("for-processors", format_graph(graph))
        return _planned(read.label, graph, target, dump, knobs)
    try:
        lanes = target.lanes(DType.FLOAT32)
        graph = float_graph(read, lanes=lanes, batch=batch, fusion=fusion, dump=dump, join=True)
    except NodeError as error:
        # Constants behind scales, and operators on integers, are the other importer's, which knows what is wrong.
        same = isinstance(refusal, NodeError) and refusal.node == error.node
        if refusal is not None and (
            error.op_type.startswith("QLinear") or (same and error.op_type == "DequantizeLinear")
        ):
            raise refusal from None
        raise
    return _planned(read.label, graph, target, dump, knobs)


def _planned(
    label: str | None,
    graph: Graph,
    target: CpuTarget,
    dump: Dump | None = None,
    knobs: ChosenKnobs[CpuWorkload] | None = None,
) -> _Lowered:
    """A graph with layouts, where its tensors lie, and its kernels to be; the arena's size is checked for a `label`."""
    plan = plan_storage(graph)
    if label is not None:
        check_plan(label, graph, plan)
    if dump is not None:
        dump("memory-plan", format_plan(graph, plan))
    return _Lowered(
        graph=graph,
        plan=plan,
        steps=tuple(_steps(graph, target, knobs)),
        quantized=converted_inputs(graph),
    )


def _steps(
    graph: Graph, target: CpuTarget, knobs: ChosenKnobs[CpuWorkload] | None
) -> Iterator[LoweredStep[CpuTarget]]:
    """The nodes that need a kernel."""
    for node in graph.nodes:
        lowered = lower_node(target, graph, node)
        if lowered is not None:
            step = replace(step_of(graph, lowered), workload=lowered.workload)
            yield step if knobs is None else _with_records(step, target, knobs)


def _with_records(
    step: LoweredStep[CpuTarget], target: CpuTarget, knobs: ChosenKnobs[CpuWorkload]
) -> LoweredStep[CpuTarget]:
    if (workload := step.workload) is None:
        return step

    def with_knobs(values: Values) -> LoweredStep[CpuTarget]:
        return replace(
            step, schedule=partial(CPU.schedule, workload=workload, program=step.program, values=values)
        )

    recorded = Recorded(knobs=knobs, workload=workload, space=partial(CPU.space, target), step=with_knobs)
    return replace(step, recorded=recorded)

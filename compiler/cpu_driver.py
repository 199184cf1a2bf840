"""compile_cpu: an ONNX model in, a network of kernels out, for this machine or as code for another.

Quantized models get integer operators, with results bit-identical to `graph.interpret`; other models float operators.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from .codegen.cpu.background import LibraryInProgress
from .codegen.cpu.code_worker import CodeWorker
from .codegen.cpu.kernel import Kernel, build
from .codegen.cpu.machine import CpuTarget, host_target
from .codegen.cpu.memory import Constants
from .codegen.cpu.module import Module, lower
from .graph.abilities import PROCESSOR
from .graph.errors import InvalidModelError, ModelError, NodeError
from .graph.fuse import fuse
from .graph.graph import Graph, Node
from .graph.int8_for_processors import converted_inputs, for_processors
from .graph.onnx_import import import_model
from .graph.onnx_read import Source, is_quantized, read_model
from .graph.printer import format_graph
from .graph.remove_dead import remove_dead
from .ir.types import DType
from .kernel_driver import (
    Compiled,
    Dump,
    Imported,
    LoweredNetwork,
    Maker,
    Progress,
    float_graph,
    lower_graph,
    lower_model,
    make_launches,
)
from .runtime.cpu_network import CpuNetwork
from .runtime.network_archive import NetworkCode
from .schedule import Schedule
from .templates.chosen_knobs import ChosenKnobs
from .templates.cpu import winograd_choice
from .templates.cpu.lower import lower_node
from .templates.cpu.lowered import LoweredCpuNode
from .templates.cpu.table import CPU
from .templates.cpu.workload import CpuWorkload
from .templates.registry import Registry
from .templates.space import Values

RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
"""Recurrent layers whose steps are one kernel."""


class SharedKernels:
    """Kernels of one target, shared by several networks; use it in a `with` statement.

    A thread generates their code while the next ones are lowered; running a kernel waits for its code.
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
    told: Progress | None = None,
    kernels: SharedKernels | None = None,
) -> CpuNetwork:
    """Compile an ONNX model (a path, or the bytes of one) for this machine (`target`: a lower level).

    A dynamic first dimension of the inputs becomes `batch`. Without `fusion` every operator is a kernel of its own.
    `dump_passes` is a folder for the graph after every pass and every kernel before and after its schedule.
    Equal programs become one kernel. `knobs` chooses recorded knobs for operators of float networks (None: defaults),
    and collects which records it applied and ignored. `told` is called with the number of finished kernels and of all
    kernels. `kernels` has the kernels of earlier networks for the same target and gets the new ones, whose code may be
    generated later. Raises UserError.
    """
    started = time.perf_counter()
    lowering = CpuLowering(host_target() if target is None else target)
    work = lower_model(lowering, model, batch=batch, fusion=fusion, dump_passes=dump_passes, knobs=knobs)
    return _network(work, started, dump_passes, told, kernels)


def compile_cpu_graph(graph: Graph, target: CpuTarget | None = None) -> CpuNetwork:
    """`compile_cpu` for an integer graph, fused or not, without pools in its convolutions."""
    started = time.perf_counter()
    target = host_target() if target is None else target
    ready = for_processors(graph, target.lanes(DType.INT32))
    imported = Imported(graph=ready, label=None, quantized=converted_inputs(ready))
    return _network(lower_graph(CpuLowering(target), imported), started)


def _network(
    work: LoweredNetwork[CpuTarget],
    started: float,
    dump_passes: Path | None = None,
    told: Progress | None = None,
    kernels: SharedKernels | None = None,
) -> CpuNetwork:
    target = work.lowering.target
    with ExitStack() as stack:
        shared = stack.enter_context(SharedKernels()) if kernels is None else kernels

        def make(node: LoweredCpuNode, schedule: Schedule, number: int, dump: Dump | None) -> Kernel:
            return build(schedule.program, target, shared.worker)

        maker: Maker[CpuTarget, Kernel, Kernel] = Maker(
            make=make,
            parameters=lambda kernel: kernel.program.parameters,
            kernel=lambda kernel, node: kernel,
            settle=lambda kernel: kernel.code,
            placed=Constants().copy,
        )
        launches = make_launches(work, maker, dump_passes=dump_passes, told=told, kernels=shared.made)
        if kernels is None:
            for launch in launches:
                launch.kernel.generated()
    return CpuNetwork(
        graph=work.graph,
        plan=work.plan,
        launches=launches,
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
    told: Progress | None = None,
) -> NetworkCode:
    """Compile an ONNX model for any processor; see `compile_cpu`.

    The result can be saved (`runtime.network_archive`) or become one function (`runtime.network_object`). With
    `library`, for an archive, a static library of that name is built during compilation. Raises UserError.
    """
    work = lower_model(
        CpuLowering(target), model, batch=batch, fusion=fusion, dump_passes=dump_passes, knobs=knobs
    )
    modules: dict[str, Module] = {}
    with ExitStack() as stack:
        growing = None
        if library is not None:
            growing = stack.enter_context(LibraryInProgress(target, name=library))

        def make(node: LoweredCpuNode, schedule: Schedule, number: int, dump: Dump | None) -> Module:
            return lower(schedule.program, target, function=f"vdla_kernel{number}")

        def kept(module: Module, node: str) -> str:
            if module.function not in modules:
                modules[module.function] = module
                if growing is not None:
                    growing.add(module, node)
            return module.function

        maker: Maker[CpuTarget, Module, str] = Maker(
            make=make, parameters=lambda module: module.parameters, kernel=kept, placed=np.reshape
        )
        launches = make_launches(work, maker, dump_passes=dump_passes, told=told)
        code = growing.finish() if growing is not None and modules else None
    return NetworkCode(
        graph=work.graph,
        plan=work.plan,
        launches=launches,
        target=target,
        modules=tuple(modules.values()),
        quantized=work.quantized,
        library=code,
    )


@dataclass(frozen=True, slots=True)
class CpuLowering:
    """Lowering for processors (see `kernel_driver.Lowering`): models quantized throughout are computed in integers."""

    target: CpuTarget

    @property
    def templates(self) -> Registry[CpuTarget, CpuWorkload]:
        """The templates of processors."""
        return CPU

    def graph(self, model: Source, *, batch: int, fusion: bool, dump: Dump | None) -> Imported:
        """The graph of a model: integers if it is quantized throughout, else float32."""
        read = read_model(model)
        quantized, refusal = None, None
        if is_quantized(read):
            try:
                quantized = import_model(read, batch=batch, abilities=PROCESSOR, every=False)
            except InvalidModelError:
                raise
            except ModelError as error:
                # Quantized in parts: computed in float32 then, with both roundings of every QDQ pair.
                read, refusal = read_model(model), error
        if quantized is not None:
            name, rewrite = ("fuse", fuse) if fusion else ("remove-dead", remove_dead)
            rewritten = rewrite(quantized)
            graph = for_processors(rewritten, self.target.lanes(DType.INT32))
            if dump is not None:
                dump("import", format_graph(quantized))
                dump(name, format_graph(rewritten))
                dump("for-processors", format_graph(graph))
        else:
            try:
                lanes = self.target.lanes(DType.FLOAT32)
                graph = float_graph(
                    read,
                    lanes=lanes,
                    batch=batch,
                    fusion=fusion,
                    dump=dump,
                    join=True,
                    recurrent=RECURRENT,
                    tiling=partial(winograd_choice.tiling, self.target),
                )
            except NodeError as error:
                # Integer operators are read by the other importer: its error names the cause.
                theirs = error.op_type.startswith("QLinear") or error.op_type == "DequantizeLinear"
                if theirs and isinstance(refusal, NodeError) and refusal.node == error.node:
                    raise refusal from None
                raise
        return Imported(graph=graph, label=read.label, quantized=converted_inputs(graph))

    def default(self, graph: Graph, node: Node) -> LoweredCpuNode | None:
        """The node lowered with the default knobs of its processor template."""
        return lower_node(self.target, graph, node)

    def methods(self, graph: Graph, node: Node) -> tuple[LoweredCpuNode, ...]:
        """The default lowering alone: processors have one method for each node."""
        lowered = lower_node(self.target, graph, node)
        return () if lowered is None else (lowered,)

    def at_point(self, graph: Graph, lowered: LoweredCpuNode, values: Values) -> LoweredCpuNode:
        """The node's program with the schedule of other knobs."""
        assert lowered.workload is not None
        schedule = partial(CPU.schedule, workload=lowered.workload, program=lowered.program, values=values)
        return replace(lowered, schedule=schedule)

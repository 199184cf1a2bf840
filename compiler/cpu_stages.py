"""Processor-specific parts of the compilation by `pipeline.compile_kernels`: lowering, code generation, and the forms
of compiled networks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .codegen.cpu.ahead_of_time import LibraryInProgress
from .codegen.cpu.kernel import Kernel, build
from .codegen.cpu.machine import CpuTarget, host_target
from .codegen.cpu.machine_code import CodeWorker
from .codegen.cpu.memory import Constants
from .codegen.cpu.module import Module, lower
from .graph.graph import Graph, Node
from .graph.int8_operators import Int8Operator, Quantize
from .graph_rules import GraphRules
from .ir.stmt import Program
from .ir.types import DType
from .kernel_forms import BuiltKernel, Dump, Form, LoweredNetwork, Maker
from .runtime.cpu_network import CpuNetwork
from .runtime.launch import Launch
from .runtime.network_archive import NetworkCode
from .templates.columns import Values
from .templates.cpu import winograd_choice
from .templates.cpu.lower import lower_node
from .templates.cpu.lower_int8 import lower_int8_node
from .templates.cpu.lowered import LoweredCpuNode, tunable
from .templates.cpu.table import CPU
from .templates.cpu.workload import CpuWorkload
from .templates.registry import Registry

RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
"""Recurrent operators of which one kernel computes all steps."""


@dataclass(frozen=True, slots=True)
class CpuLowering:
    """Lowering of graph nodes to kernels for processors: implements the interface `kernel_forms.Lowering`."""

    target: CpuTarget

    @property
    def templates(self) -> Registry[CpuTarget, CpuWorkload]:
        """The templates (schedules with knobs) of processors."""
        return CPU

    @property
    def rules(self) -> GraphRules:
        """The requirements of processors on graphs. Blocks of channels have the width of the target's vectors. Models
        that are quantized throughout are computed in integers.
        """
        return GraphRules(
            lanes=self.target.lanes(DType.FLOAT32),
            channel_block=partial(_channel_block, self.target.lanes(DType.INT32)),
            join=True,
            recurrent=RECURRENT,
            tiling=partial(winograd_choice.tiling, self.target),
        )

    def default(self, graph: Graph, node: Node) -> LoweredCpuNode | None:
        """The node, lowered with the default knobs of its processor template. None for a node without a kernel."""
        if isinstance(node.operator, Int8Operator):
            return lower_int8_node(graph, node, node.operator)
        return lower_node(self.target, graph, node)

    def methods(self, graph: Graph, node: Node) -> tuple[LoweredCpuNode, ...]:
        """All ways to lower a node. On processors this is only the default way; empty if the node needs no kernel."""
        lowered = self.default(graph, node)
        return () if lowered is None else (tunable(lowered),)

    def at_point(self, graph: Graph, lowered: LoweredCpuNode, values: Values) -> LoweredCpuNode:
        """Lowers the node of `lowered` again, with the knob values `values`."""
        assert lowered.workload is not None
        schedule = partial(CPU.schedule, workload=lowered.workload, program=lowered.program, values=values)
        return replace(lowered, schedule=schedule)


def _channel_block(lanes: int, channels: int) -> int:
    # Float models need no integer graphs, nor the file that makes them.
    from .rewrites.int8_for_processors import block_of

    return block_of(channels, lanes)


class SharedKernels:
    """Compiled kernels of one target, shared by several networks; use it in a `with` statement.

    A background thread generates the code of a kernel while the next kernels are lowered. The first run of a kernel
    waits for the kernel's code.
    """

    def __init__(self) -> None:
        self.worker = CodeWorker()
        self.built: dict[str, BuiltKernel[CpuTarget, Kernel]] = {}

    def __enter__(self) -> SharedKernels:
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.end()


def cpu_now(
    target: CpuTarget | None = None, kernels: SharedKernels | None = None
) -> Form[CpuTarget, CpuNetwork]:
    """The form of compilation (target and way of code generation) for networks that run in this process on this
    machine.

    `target`: the level of this machine's instruction set to use (None: the highest). `kernels`: a cache with the
    kernels of earlier networks for the same target. New kernels are added; their code may be generated later.
    """
    target = host_target() if target is None else target

    @contextmanager
    def making() -> Iterator[Maker[CpuTarget, Kernel, Kernel, CpuNetwork]]:
        with ExitStack() as stack:
            shared = stack.enter_context(SharedKernels()) if kernels is None else kernels

            def make(program: Program, name: str, dump: Dump | None) -> Kernel:
                return build(program, target, shared.worker)

            def link(network: LoweredNetwork, launches: tuple[Launch[Kernel], ...]) -> CpuNetwork:
                if kernels is None:
                    for launch in launches:
                        launch.kernel.generated()
                return cpu_network(network, launches, target)

            yield Maker(
                make=make,
                parameters=lambda kernel: kernel.program.parameters,
                kernel=lambda kernel, node: kernel,
                wait=lambda kernel: kernel.code,
                placed=Constants().copy,
                built=shared.built,
                link=link,
            )

    return Form(lowering=CpuLowering(target), making=making)


def cpu_ahead(target: CpuTarget, *, library: str | None = None) -> Form[CpuTarget, NetworkCode]:
    """Ahead-of-time compilation for the processor `target`, which need not be this computer's. The resulting code can
    be saved as an archive (`runtime.network_archive`) or as one function of an object file (`runtime.network_object`).

    `library`: name of a static library with the kernels, which is part of an archive. With None no library is built.
    """

    @contextmanager
    def making() -> Iterator[Maker[CpuTarget, Module, str, NetworkCode]]:
        with ExitStack() as stack:
            growing = None
            if library is not None:
                growing = stack.enter_context(LibraryInProgress(target, name=library))
            modules: dict[str, Module] = {}

            def make(program: Program, name: str, dump: Dump | None) -> Module:
                return lower(program, target, function=function_name(modules))

            def kept(module: Module, node: str) -> str:
                if module.function not in modules:
                    modules[module.function] = module
                    if growing is not None:
                        growing.add(module, node)
                return module.function

            def link(network: LoweredNetwork, launches: tuple[Launch[str], ...]) -> NetworkCode:
                code = network_code(network, launches, target, modules)
                return replace(code, library=growing.finish()) if growing is not None and modules else code

            yield Maker(
                make=make,
                parameters=lambda module: module.parameters,
                kernel=kept,
                placed=np.reshape,
                link=link,
            )

    return Form(lowering=CpuLowering(target), making=making)


def function_name(modules: dict[str, Module]) -> str:
    """An unused name for the function of the next kernel, in code that is written into files. `modules`: the modules of
    earlier kernels, by function name.
    """
    return f"vdla_kernel{len(modules)}"


def network_code(
    network: LoweredNetwork, launches: tuple[Launch[str], ...], target: CpuTarget, modules: dict[str, Module]
) -> NetworkCode:
    """Code of a network for the processor `target`: the lowered network, its launches, and the kernels' modules."""
    return NetworkCode(
        graph=network.graph,
        plan=network.plan,
        launches=launches,
        target=target,
        modules=tuple(modules.values()),
        quantized=quantized_inputs(network.graph),
    )


def quantized_inputs(graph: Graph) -> frozenset[str]:
    """Names of the float32 inputs of a graph that are quantized to integers before they are used."""
    if not any(isinstance(node.operator, Quantize) for node in graph.nodes):
        return frozenset()
    from .rewrites.int8_for_processors import converted_inputs

    return converted_inputs(graph)


def cpu_network(
    network: LoweredNetwork, launches: tuple[Launch[Kernel], ...], target: CpuTarget
) -> CpuNetwork:
    """A network that runs on this machine, from a lowered network and the launches of its compiled kernels."""
    return CpuNetwork(
        graph=network.graph,
        plan=network.plan,
        launches=launches,
        target=target,
        compile_seconds=time.perf_counter() - network.started,
        quantized=quantized_inputs(network.graph),
    )

"""The GPU-specific stages that `pipeline.compile_kernels` calls: they lower graph nodes to kernels and generate code.
One form of compilation yields code for a GPU; another emulates the GPU on a processor.

A model whose tensors are all quantized is computed in integers, as on processors, if the kernel language has exact
integer arithmetic (`Dialect.exact_integers`). Every other model is computed in float32, and rounded at each pair of
QuantizeLinear and DequantizeLinear. Models of 16-bit floats are computed in float32, too; their products on tensor
cores are exact.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from .codegen.cpu.kernel import Kernel, build
from .codegen.cpu.machine import CpuTarget, host_target
from .codegen.cpu.module import Module
from .codegen.cpu.module import lower as lower_for_cpu
from .codegen.cuda.background import background
from .codegen.cuda.cubin_cache import cached_cubin
from .codegen.cuda.emulate import emulate
from .codegen.cuda.errors import LoweringError
from .codegen.cuda.machine import GpuTarget
from .codegen.cuda.module import CudaModule, lower
from .codegen.cuda.prepare import prepare
from .cpu_stages import cpu_network, function_name, network_code, quantized_inputs
from .graph.errors import ModelError
from .graph.graph import Graph, Node
from .graph_rules import GraphRules
from .ir.printer import format_node
from .ir.stmt import Program
from .ir.types import HALVES
from .kernel_forms import BuiltKernel, Dump, Form, LoweredNetwork, Maker
from .runtime.cpu_network import CpuNetwork
from .runtime.cuda_code import CompiledModule, CudaNetworkCode
from .runtime.gpu_text import network_text
from .runtime.gpus import kind_of
from .runtime.launch import Launch
from .runtime.network_archive import NetworkCode
from .templates.columns import Values
from .templates.gpu.lower import lower_cuda_node, lower_methods, lower_recorded
from .templates.gpu.lowered import LoweredCudaNode
from .templates.gpu.table import GPU
from .templates.gpu.workload import CudaWorkload
from .templates.registry import Registry

if TYPE_CHECKING:
    from .te.ops.attention_sizes import Attention


@dataclass(frozen=True, slots=True)
class GpuLowering:
    """Lowering of graph nodes to kernels for GPUs, whatever the kernels' language: implements the interface
    `kernel_forms.Lowering`.
    """

    target: GpuTarget

    @property
    def templates(self) -> Registry[GpuTarget, CudaWorkload]:
        """The templates (schedules with knobs) of GPUs."""
        return GPU

    @property
    def rules(self) -> GraphRules:
        """The requirements on graphs. Float tensors keep ONNX's layout (NCHW), so that neighbouring threads read
        neighbouring elements along the width. Integer tensors are `channels_last`. If the target's tensor cores
        multiply 16-bit floats, kernels read and store 16-bit floats.
        """
        block = channels_last if self.target.dialect.exact_integers else None
        return GraphRules(
            lanes=1,
            channel_block=block,
            attention=self._attention,
            # Products on tensor cores take weights that are packed ahead.
            tied=not self.target.tensor_float,
            halves=self.target.has("mma"),
            check=_check,
        )

    def _attention(self, sizes: Attention) -> bool:
        if sizes.dtype in HALVES:
            from .templates.gpu import attention_mma

            return attention_mma.fits(self.target, sizes)
        from .templates.gpu import attention

        return attention.fits(self.target, sizes)

    def default(self, graph: Graph, node: Node) -> LoweredCudaNode | None:
        """Lowers the node with the default knobs of its GPU template. Returns None for a node that needs no kernel."""
        return lower_cuda_node(self.target, graph, node)

    def methods(self, graph: Graph, node: Node) -> tuple[LoweredCudaNode, ...]:
        """All lowerings of a node: convolutions, for example, have several."""
        return lower_methods(self.target, graph, node)

    def at_point(self, graph: Graph, lowered: LoweredCudaNode, values: Values) -> LoweredCudaNode:
        """Lowers the node of `lowered` with the knob values `values` of a tuning record. For some operators on rows,
        knobs change the program, so these operators are lowered again. For others only the schedule changes.
        """
        return lower_recorded(self.target, graph, lowered, values)


def channels_last(channels: int) -> int:
    """Number of channels in a block of an int8 tensor for GPUs. The block contains all channels; their number is
    rounded up to 4 or to a multiple of 8, so that threads can move 4 or 8 bytes at a time.

    With one block, the channels of a position are adjacent. So neighbouring threads store neighbouring channels.
    Products sum along contiguous bytes, as `dp4a` and `ldmatrix` require. Groups of channels need no blocks of their
    own.
    """
    least = 4 if channels <= 4 else 8
    return -(-channels // least) * least


def _check(label: str, graph: Graph) -> None:
    for tensor in graph.tensors.values():
        if tensor.dtype.is_code:
            raise ModelError(
                f"{label}: tensor '{tensor.name}' is {tensor.dtype}, a type that is not supported on GPUs; run the "
                "model on a processor"
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Compiling:
    """A kernel whose module is being compiled to a cubin (GPU machine code) in the background."""

    name: str
    module: CudaModule
    cubin: Future[bytes]


def gpu_ahead(target: GpuTarget) -> Form[GpuTarget, CudaNetworkCode]:
    """The form of compilation (target and way of code generation) that yields code for a GPU. This computer needs no
    GPU: `runtime.cuda_network.CudaNetwork` runs the code, `runtime.cuda_archive` saves it.

    Dumps of passes also contain each kernel with its barriers, and its source text. Raises UserError if NVRTC is needed
    and the extra `cuda` is not installed.
    """
    assemble = _assembler(target)
    language = target.described["kind"]

    @contextmanager
    def making() -> Iterator[Maker[GpuTarget, _Compiling, str, CudaNetworkCode]]:
        modules: dict[str, _Compiling] = {}
        with background() as pool:

            def make(program: Program, name: str, dump: Dump | None) -> _Compiling:
                module = lower(prepare(program, target, dump=dump), target, name=name)
                return _Compiling(name=name, module=module, cubin=pool.submit(assemble, module.source))

            def refused(label: str, node: str, error: Exception) -> Exception:
                if not isinstance(error, LoweringError):
                    return error
                # The kernel uses functions or types that only processors have.
                return ModelError(
                    f"{label}: node '{node}' cannot be compiled to {language}: {error}; run the model on a processor"
                )

            def link(network: LoweredNetwork, launches: tuple[Launch[str], ...]) -> CudaNetworkCode:
                for launch in launches:
                    for array in launch.constants.values():
                        if (reason := target.unsuitable(array)) is not None:
                            raise ModelError(
                                f"{network.graph.name}: a constant of node '{launch.name}' {reason}"
                            )
                done = [
                    CompiledModule(name=kernel.name, module=kernel.module, cubin=kernel.cubin.result())
                    for kernel in modules.values()
                ]
                return CudaNetworkCode(
                    graph=network.graph,
                    plan=network.plan,
                    launches=launches,
                    target=target,
                    modules=tuple(done),
                    quantized=quantized_inputs(network.graph),
                    compile_seconds=time.perf_counter() - network.started,
                )

            yield Maker(
                make=make,
                refused=refused,
                parameters=lambda kernel: kernel.module.parameters,
                kernel=lambda kernel, node: modules.setdefault(kernel.name, kernel).name,
                wait=lambda kernel: kernel.cubin.result(),
                dumped=lambda kernel, dump: dump(language, kernel.module.source),
                method=_methods(target),
                link=link,
            )

    return Form(lowering=GpuLowering(target), making=making)


def _methods(target: GpuTarget) -> Callable[[BuiltKernel[GpuTarget, Any]], str]:
    """A function that describes how a kernel computes its node. The description is the template with the values of the
    knobs or, for a kernel without knobs, the name of the schedule.
    """
    known: dict[str, str] = {}

    def method(kernel: BuiltKernel[GpuTarget, Any]) -> str:
        key, workload = kernel.lowered.key, kernel.lowered.workload
        if key not in known:
            if workload is None:
                known[key] = key.rpartition(" ")[0]
            else:
                template = GPU.named(workload.template)
                values = kernel.values or template.default(target, workload)
                known[key] = ", ".join(
                    [f"template {template.name}", *(f"{name} {value}" for name, value in values.items())]
                )
        return known[key]

    return method


def _assembler(target: GpuTarget) -> Callable[[str], bytes]:
    """A function that turns a module's source text into code. For CUDA C++ this is NVRTC. Other languages, such as
    OpenCL C, are compiled by the device's driver; their code is the encoded text.
    """
    kind = kind_of(target)
    if kind.compile is None:
        return str.encode
    # Raises if there is no compiler, and loads it before several threads use it.
    kind.check()
    return lambda source: cached_cubin(source, target.compiled_for(source))


def gpu_emulated(target: GpuTarget) -> Form[GpuTarget, CpuNetwork]:
    """The form of compilation that runs the kernels of `gpu_ahead` on this processor: the same loops, with blocks and
    threads executed one after the other.

    Results equal the GPU's, except that sums are added in another order; times say nothing about a GPU. The dumps end
    with the emulated loops.
    """
    host = host_target()
    language = target.described["kind"]

    @contextmanager
    def making() -> Iterator[Maker[GpuTarget, Kernel, Kernel, CpuNetwork]]:
        prepared: dict[int, tuple[str, Program]] = {}

        def make(program: Program, name: str, dump: Dump | None) -> Kernel:
            kernel_form = prepare(program, target, dump=dump)
            # Without `sum_in_blocks`: sums keep the GPU kernel's order, and so its rounding errors.
            kernel = build(emulate(kernel_form), host, blocks=False)
            prepared[id(kernel)] = name, kernel_form
            return kernel

        def link(network: LoweredNetwork, launches: tuple[Launch[Kernel], ...]) -> CpuNetwork:
            def text() -> str:
                """The source text of the kernels, in the language of the emulated GPU."""
                modules = [(name, lower(p, target, name=name)) for name, p in prepared.values()]
                named: list[Launch[str]] = [
                    replace(cast("Any", launch), kernel=prepared[id(launch.kernel)][0]) for launch in launches
                ]
                return network_text(language, network.graph, modules, named)

            made = cpu_network(network, launches, host)
            made.of_gpu = {language: text}
            return made

        yield Maker(
            make=make,
            parameters=lambda kernel: kernel.program.parameters,
            kernel=lambda kernel, node: kernel,
            method=_methods(target),
            dumped=lambda kernel, dump: dump("emulated", format_node(kernel.program) + "\n"),
            link=link,
        )

    return Form(lowering=GpuLowering(target), making=making)


def gpu_emulated_ahead(target: GpuTarget, host: CpuTarget) -> Form[GpuTarget, NetworkCode]:
    """The form of compilation that translates a GPU's kernels, as `gpu_emulated` does, to machine code for the
    processor `host`. The code is not run, but returned in a form that can be saved to a file.
    """

    @contextmanager
    def making() -> Iterator[Maker[GpuTarget, Module, str, NetworkCode]]:
        modules: dict[str, Module] = {}

        def make(program: Program, name: str, dump: Dump | None) -> Module:
            emulated = emulate(prepare(program, target, dump=dump))
            return lower_for_cpu(emulated, host, function=function_name(modules), blocks=False)

        yield Maker(
            make=make,
            parameters=lambda module: module.parameters,
            kernel=lambda module, node: modules.setdefault(module.function, module).function,
            link=lambda network, launches: network_code(network, launches, host, modules),
        )

    return Form(lowering=GpuLowering(target), making=making)

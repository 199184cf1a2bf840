"""compile_cuda: an ONNX model in, a network of kernels for an NVIDIA GPU out, or the same kernels for this processor.

All arithmetic is float32: quantized models (QDQ) too compute in float32, with the roundings of their pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

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
from .gpu_lowering import GpuLowering
from .graph.errors import ModelError
from .graph.onnx_read import Source, model_label
from .ir.printer import format_node
from .ir.stmt import Program
from .kernel_driver import Dump, Maker, Progress, lower_model, make_launches
from .runtime.cpu_network import CpuNetwork
from .runtime.cuda_alone import network_alone
from .runtime.cuda_code import CompiledModule, CudaNetworkCode
from .runtime.gpus import kind_of
from .runtime.kernel_alone import kernel_alone
from .runtime.network_archive import NetworkCode
from .runtime.readable import Texts, joined
from .schedule import Schedule
from .templates.chosen_knobs import ChosenKnobs
from .templates.gpu.lowered import LoweredCudaNode
from .templates.gpu.workload import CudaWorkload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Compiling:
    """A kernel's module, with the future of its cubin."""

    name: str
    module: CudaModule
    cubin: Future[bytes]


def compile_cuda(
    model: Source,
    target: GpuTarget,
    *,
    batch: int = 1,
    fusion: bool = True,
    dump_passes: Path | None = None,
    knobs: ChosenKnobs[CudaWorkload] | None = None,
    told: Progress | None = None,
) -> CudaNetworkCode:
    """Compile an ONNX model (a path, or the bytes of one) for a GPU, which this machine need not have.

    `runtime.cuda_network.CudaNetwork` runs the result, `runtime.cuda_archive` saves it. A dynamic first dimension of
    the inputs becomes `batch`. Without `fusion` every operator is a kernel of its own. `dump_passes` is a folder for
    the graph after every pass, and every kernel before and after its schedule, with its barriers, and in the target's
    language. Equal programs become one kernel. `knobs`: recorded knobs (None: defaults). `told` as of `kernel_driver`.
    Raises UserError, also where the extra `cuda` is not installed and NVRTC is needed.
    """
    started = time.perf_counter()
    assemble = _assembler(target)
    work = lower_model(
        GpuLowering(target), model, batch=batch, fusion=fusion, dump_passes=dump_passes, knobs=knobs
    )
    modules: dict[str, _Compiling] = {}
    with background() as pool:

        def make(node: LoweredCudaNode, schedule: Schedule, number: int, dump: Dump | None) -> _Compiling:
            name = f"{node.node.kind.lower()}{number}"
            module = lower(prepare(schedule.program, target, dump=dump), target, name=name)
            cubin = pool.submit(assemble, module.source)
            return _Compiling(name=name, module=module, cubin=cubin)

        def refused(node: LoweredCudaNode, error: Exception) -> Exception:
            if not isinstance(error, LoweringError):
                return error
            # The kernel uses functions or types that only processors have.
            return ModelError(
                f"{model_label(model)}: node '{node.node.name}' has no code for {target.described['kind']}: "
                f"{error}; run it on a processor"
            )

        maker: Maker[GpuTarget, _Compiling, str] = Maker(
            make=make,
            refused=refused,
            parameters=lambda made: made.module.parameters,
            kernel=lambda made, node: modules.setdefault(made.name, made).name,
            settle=lambda made: made.cubin.result(),
            dumped=lambda made, dump: dump(target.described["kind"], made.module.source),
        )
        launches = make_launches(work, maker, dump_passes=dump_passes, told=told)
        done = [
            CompiledModule(name=made.name, module=made.module, cubin=made.cubin.result())
            for made in modules.values()
        ]
    return CudaNetworkCode(
        graph=work.graph,
        plan=work.plan,
        launches=launches,
        target=target,
        modules=tuple(done),
        compile_seconds=time.perf_counter() - started,
    )


def _assembler(target: GpuTarget) -> Callable[[str], bytes]:
    """The function that compiles a module's text to code: NVRTC, or plain encoding for kinds that load text."""
    kind = kind_of(target)
    if kind.compile is None:
        return str.encode
    # Raises if there is no compiler, and loads it before several threads use it.
    kind.check()
    return lambda source: cached_cubin(source, target.arch)


def compile_cuda_emulated(
    model: Source,
    target: GpuTarget,
    *,
    batch: int = 1,
    fusion: bool = True,
    dump_passes: Path | None = None,
    knobs: ChosenKnobs[CudaWorkload] | None = None,
    told: Progress | None = None,
) -> CpuNetwork:
    """The kernels of `compile_cuda` as this processor's code: the same loops, blocks and threads one after the other.

    Results equal the GPU's except for the order of sums; times say nothing about a GPU. The dumps end with the emulated
    loops. Raises UserError.
    """
    started = time.perf_counter()
    host = host_target()
    work = lower_model(
        GpuLowering(target), model, batch=batch, fusion=fusion, dump_passes=dump_passes, knobs=knobs
    )

    prepared: list[tuple[str, Program]] = []

    def make(node: LoweredCudaNode, schedule: Schedule, number: int, dump: Dump | None) -> Kernel:
        program = prepare(schedule.program, target, dump=dump)
        prepared.append((f"{node.node.kind.lower()}{number}", program))
        # Without `sum_in_blocks`: sums keep the GPU kernel's order, and so its rounding errors.
        return build(emulate(program), host, blocks=False)

    maker: Maker[GpuTarget, Kernel, Kernel] = Maker(
        make=make,
        parameters=lambda kernel: kernel.program.parameters,
        kernel=lambda kernel, node: kernel,
        dumped=lambda kernel, dump: dump("emulated", format_node(kernel.program) + "\n"),
    )
    launches = make_launches(work, maker, dump_passes=dump_passes, told=told)
    network = CpuNetwork(
        graph=work.graph,
        plan=work.plan,
        launches=launches,
        target=host,
        compile_seconds=time.perf_counter() - started,
    )
    network.of_gpu = _texts(prepared, target)
    return network


def _texts(prepared: Sequence[tuple[str, Program]], target: GpuTarget) -> Texts:
    """The text of emulated kernels in the language of their GPU, made on demand."""
    kind = target.described["kind"]

    def text() -> str:
        return joined(kind, [(name, lower(program, target, name=name).source) for name, program in prepared])

    return {kind: text}


def compile_cuda_emulated_ahead(
    model: Source,
    target: GpuTarget,
    host: CpuTarget,
    *,
    batch: int = 1,
    knobs: ChosenKnobs[CudaWorkload] | None = None,
    told: Progress | None = None,
) -> NetworkCode:
    """`compile_cuda_emulated` as code for the processor `host`, to be saved. Raises UserError."""
    work = lower_model(GpuLowering(target), model, batch=batch, knobs=knobs)
    modules: dict[str, Module] = {}

    def make(node: LoweredCudaNode, schedule: Schedule, number: int, dump: Dump | None) -> Module:
        program = emulate(prepare(schedule.program, target))
        return lower_for_cpu(program, host, function=f"vdla_kernel{number}", blocks=False)

    maker: Maker[GpuTarget, Module, str] = Maker(
        make=make,
        parameters=lambda module: module.parameters,
        kernel=lambda module, node: modules.setdefault(module.function, module).function,
    )
    launches = make_launches(work, maker, told=told)
    return NetworkCode(
        graph=work.graph,
        plan=work.plan,
        launches=launches,
        target=host,
        modules=tuple(modules.values()),
    )


def compile_cuda_schedule(
    schedule: Schedule, target: GpuTarget, *, operator: str, operations: int
) -> CudaNetworkCode:
    """A scheduled program alone as a network: its parameters are inputs and outputs. Raises UserError."""
    started = time.perf_counter()
    module = lower(prepare(schedule.program, target), target, name=operator.lower())
    return network_alone(
        module,
        _assembler(target)(module.source),
        target,
        operator=operator,
        operations=operations,
        compile_seconds=time.perf_counter() - started,
    )


def emulate_cuda_schedule(
    schedule: Schedule, target: GpuTarget, *, operator: str, operations: int
) -> CpuNetwork:
    """A scheduled program alone as a network, emulated on this processor."""
    started = time.perf_counter()
    program = prepare(schedule.program, target)
    network = kernel_alone(
        build(emulate(program)),
        operator=operator,
        operations=operations,
        compile_seconds=time.perf_counter() - started,
    )
    network.of_gpu = _texts([(operator.lower(), program)], target)
    return network

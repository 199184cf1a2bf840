"""compile_cuda: an ONNX model in, a network of kernels for an NVIDIA GPU out, or the same kernels for this processor.

All that is computed is float32: quantized models (QDQ) compute in float32 too, with the roundings of their pairs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from .graph.errors import ModelError, NodeError
from .graph.graph import Graph
from .graph.onnx_read import Source, model_label
from .graph.storage_plan import StoragePlan, check_plan, format_plan, plan_storage
from .ir.printer import format_node
from .kernel_steps import Dump, compiled, float_graph, step_of, work_of
from .passes.pipeline import dump_to
from .runtime.cpu_network import CpuNetwork
from .runtime.cuda_alone import network_alone
from .runtime.cuda_code import CompiledModule, CudaNetworkCode
from .runtime.kernel_alone import kernel_alone
from .runtime.launch import Launch
from .runtime.network_archive import NetworkCode
from .schedule import Schedule
from .target.cpu.kernel import Kernel, build
from .target.cpu.machine import CpuTarget, host_target
from .target.cpu.module import Module
from .target.cpu.module import lower as lower_for_cpu
from .target.cuda.background import background
from .target.cuda.cubin_cache import cached_cubin
from .target.cuda.emulate import emulate
from .target.cuda.machine import CudaTarget
from .target.cuda.module import CudaModule, lower
from .target.cuda.nvrtc import nvrtc_version
from .target.cuda.prepare import prepare
from .templates.chosen_knobs import ChosenKnobs
from .templates.gpu.lower import lower_cuda_node, lower_methods, lower_recorded
from .templates.gpu.lowered import LoweredCudaNode
from .templates.gpu.tasks import GPU
from .templates.gpu.workload import CudaWorkload
from .templates.lowered_node import LoweredStep, Recorded
from .templates.space import Values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Compiling:
    """A kernel's module, whose cubin is on its way."""

    name: str
    module: CudaModule
    cubin: Future[bytes]


def compile_cuda(
    model: Source,
    target: CudaTarget,
    *,
    batch: int = 1,
    fusion: bool = True,
    dump_passes: Path | None = None,
    knobs: ChosenKnobs[CudaWorkload] | None = None,
) -> CudaNetworkCode:
    """Compile an ONNX model (a path, or the bytes of one) for a GPU, which this machine need not have.

    `runtime.cuda_network.CudaNetwork` runs what comes of it, `runtime.cuda_archive` keeps it. A dynamic first dimension
    of the inputs becomes `batch`. Without `fusion` every operator is a kernel of its own. `dump_passes` names a folder
    that gets the graph after every pass, and every kernel before and after its schedule, with its barriers, and as CUDA
    C++. Equal programs become one kernel. `knobs` are those of records (None: defaults). Raises UserError, also
    where the extra `cuda` is not installed.
    """
    started = time.perf_counter()
    # Says at once whether there is a compiler, and loads it before several threads ask for it.
    nvrtc_version()
    work = _lowered(model, target, batch, fusion, dump_passes, knobs)
    modules: dict[str, _Compiling] = {}
    launches: list[Launch[str]] = []
    with background() as pool:

        def make(
            step: LoweredStep[CudaTarget], schedule: Schedule, number: int, dump: Dump | None
        ) -> _Compiling:
            name = f"{step.operator.lower()}{number}"
            module = lower(prepare(schedule.program, target, dump=dump), target, name=name)
            cubin = pool.submit(cached_cubin, module.source, target.arch)
            return _Compiling(name=name, module=module, cubin=cubin)

        for kernel in compiled(work.steps, target, dump_passes, make, lambda made: made.cubin.result()):
            made = modules.setdefault(kernel.made.name, kernel.made)
            if kernel.dump is not None:
                kernel.dump("cuda", made.module.source)
            launches.append(Launch(**work_of(kernel, made.module.parameters), kernel=made.name))
        done = [
            CompiledModule(name=made.name, module=made.module, cubin=made.cubin.result())
            for made in modules.values()
        ]
    return CudaNetworkCode(
        graph=work.graph,
        plan=work.plan,
        launches=tuple(launches),
        target=target,
        modules=tuple(done),
        compile_seconds=time.perf_counter() - started,
    )


def network_workloads(model: Source, target: CudaTarget) -> list[tuple[str, CudaWorkload]]:
    """Every node of a network that can be tuned, by name, with its workload, in order. Raises UserError.

    A node that can be computed in several ways comes once for each, first as it is without records.
    """
    graph = _graph_of(model, batch=1, fusion=True, dump=None)
    found = ((node, lower_methods(target, graph, node)) for node in graph.nodes)
    return [(n.name, step.workload) for n, steps in found for step in steps if step.workload is not None]


def compile_cuda_emulated(
    model: Source,
    target: CudaTarget,
    *,
    batch: int = 1,
    fusion: bool = True,
    dump_passes: Path | None = None,
    knobs: ChosenKnobs[CudaWorkload] | None = None,
) -> CpuNetwork:
    """The kernels of `compile_cuda` as this processor's code: the same loops, blocks and threads one after the other.

    Their numbers are those of the GPU's kernels but for the order of sums; their times say nothing of a GPU. The dumps
    end with the emulated loops. Raises UserError.
    """
    started = time.perf_counter()
    host = host_target()
    work = _lowered(model, target, batch, fusion, dump_passes, knobs)
    launches: list[Launch[Kernel]] = []

    def make(step: LoweredStep[CudaTarget], schedule: Schedule, number: int, dump: Dump | None) -> Kernel:
        # In the order of the GPU's sums, so that their errors are seen here.
        return build(emulate(prepare(schedule.program, target, dump=dump)), host, blocks=False)

    for kernel in compiled(work.steps, target, dump_passes, make):
        program = kernel.made.program
        if kernel.dump is not None:
            kernel.dump("emulated", format_node(program) + "\n")
        launches.append(Launch(**work_of(kernel, program.parameters), kernel=kernel.made))
    return CpuNetwork(
        graph=work.graph,
        plan=work.plan,
        launches=tuple(launches),
        target=host,
        compile_seconds=time.perf_counter() - started,
    )


def compile_cuda_emulated_ahead(
    model: Source,
    target: CudaTarget,
    host: CpuTarget,
    *,
    batch: int = 1,
    knobs: ChosenKnobs[CudaWorkload] | None = None,
) -> NetworkCode:
    """`compile_cuda_emulated` as code for the processor `host`, to be kept. Raises UserError."""
    work = _lowered(model, target, batch, True, None, knobs)
    modules: dict[str, Module] = {}
    launches: list[Launch[str]] = []

    def make(step: LoweredStep[CudaTarget], schedule: Schedule, number: int, dump: Dump | None) -> Module:
        program = emulate(prepare(schedule.program, target))
        return lower_for_cpu(program, host, function=f"vdla_kernel{number}", blocks=False)

    for kernel in compiled(work.steps, target, None, make):
        module = modules.setdefault(kernel.made.function, kernel.made)
        launches.append(Launch(**work_of(kernel, module.parameters), kernel=module.function))
    return NetworkCode(
        graph=work.graph,
        plan=work.plan,
        launches=tuple(launches),
        target=host,
        modules=tuple(modules.values()),
    )


def compile_cuda_schedule(
    schedule: Schedule, target: CudaTarget, *, operator: str, operations: int
) -> CudaNetworkCode:
    """A scheduled program alone as a network: its parameters are inputs and outputs. Raises UserError."""
    started = time.perf_counter()
    module = lower(prepare(schedule.program, target), target, name=operator.lower())
    return network_alone(
        module,
        cached_cubin(module.source, target.arch),
        target,
        operator=operator,
        operations=operations,
        compile_seconds=time.perf_counter() - started,
    )


def emulate_cuda_schedule(
    schedule: Schedule, target: CudaTarget, *, operator: str, operations: int
) -> CpuNetwork:
    """The same emulated on this processor."""
    started = time.perf_counter()
    kernel = build(emulate(prepare(schedule.program, target)))
    return kernel_alone(
        kernel,
        operator=operator,
        operations=operations,
        compile_seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Lowered:
    """A network's tensors and where they lie, and its kernels to be."""

    graph: Graph
    plan: StoragePlan
    steps: tuple[LoweredStep[CudaTarget], ...]


def _graph_of(model: Source, *, batch: int, fusion: bool, dump: Dump | None) -> Graph:
    """A model's graph as GPUs compute it: tensors lie as ONNX has them, since threads read along the width."""
    try:
        return float_graph(model, lanes=1, batch=batch, fusion=fusion, dump=dump)
    except NodeError as error:
        if error.op_type.startswith(("QLinear", "MatMulInteger", "ConvInteger")):
            raise ModelError(
                f"{error}; on GPUs quantized models compute in float32, so give the form with QuantizeLinear and "
                "DequantizeLinear (QDQ)"
            ) from None
        raise


def _lowered(
    model: Source,
    target: CudaTarget,
    batch: int,
    fusion: bool,
    dump_passes: Path | None,
    knobs: ChosenKnobs[CudaWorkload] | None,
) -> _Lowered:
    dump = None if dump_passes is None else dump_to(dump_passes)
    graph = _graph_of(model, batch=batch, fusion=fusion, dump=dump)
    plan = plan_storage(graph)
    check_plan(model_label(model), graph, plan)
    if dump is not None:
        dump("memory-plan", format_plan(graph, plan))
    return _Lowered(graph=graph, plan=plan, steps=tuple(_steps(graph, target, knobs)))


def _steps(
    graph: Graph, target: CudaTarget, knobs: ChosenKnobs[CudaWorkload] | None
) -> Iterator[LoweredStep[CudaTarget]]:
    """The nodes that need a kernel."""
    for node in graph.nodes:
        if knobs is None:
            lowered = lower_cuda_node(target, graph, node)
            if lowered is not None:
                yield step_of(graph, lowered)
        elif methods := lower_methods(target, graph, node):
            yield _recorded_step(graph, target, methods, knobs)


def _recorded_step(
    graph: Graph,
    target: CudaTarget,
    methods: Sequence[LoweredCudaNode],
    knobs: ChosenKnobs[CudaWorkload],
) -> LoweredStep[CudaTarget]:
    """A node in the way that records say, if any do; if its knobs come to nothing, as it is without records."""
    known = [(method, method.workload) for method in methods if method.workload is not None]
    if not known:
        return step_of(graph, methods[0])
    method, workload = known[knobs.compare([workload for _, workload in known])]
    if not knobs.choose(workload):
        return step_of(graph, method)

    def with_knobs(values: Values) -> LoweredStep[CudaTarget]:
        return step_of(graph, lower_recorded(target, graph, method, values))

    recorded = Recorded(knobs=knobs, workload=workload, space=partial(GPU.space, target), step=with_knobs)
    return replace(step_of(graph, methods[0]), recorded=recorded)

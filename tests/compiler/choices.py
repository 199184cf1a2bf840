"""The compiler's choices for some small networks, as golden texts.

    PYTHONPATH=tests/helpers python -m tests.compiler.choices      # from the clone: writes the texts anew

Outputs do not depend on these choices, so that only the texts show that a choice has changed. They list the operators
of a graph including changes of layout, the template and knobs of each kernel, how often its schedule uses each
primitive, and the results of the template's cost model for some points of its space. After an intended change, write
the texts anew and read the difference.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from float_networks import FloatNetwork
from kept_texts import KeptTexts, number
from mixed_networks import MixedNetwork

from vdla.codesign.workload_names import accelerator_workload, cpu_workload
from vdla.compiler.codegen.cpu.machine import CpuTarget
from vdla.compiler.codegen.cpu.module import lower as lower_cpu
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.codegen.cuda.architectures import ARCHITECTURES
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import lower as lower_gpu
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.opencl.machine import opencl_target
from vdla.compiler.cpu_stages import CpuLowering
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.gpu_stages import GpuLowering
from vdla.compiler.graph.graph import Graph
from vdla.compiler.ir.hash import structural_hash
from vdla.compiler.ir.stmt import Program
from vdla.compiler.pipeline import compile_program, import_graph
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.templates.columns import Values
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.registry import Registry
from vdla.compiler.templates.space import Space
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.compiler.templates.vdla.lower import choose_points, network_kernels
from vdla.compiler.templates.vdla.settings import settings_of
from vdla.compiler.templates.vdla.template import space_of, template_of
from vdla.compiler.templates.vdla.workload import Workload
from vdla.isa.config import Config, load_config
from vdla.isa.decoding import format_names
from vdla.sim import simulate

from .templates import test_attention_on_chip as attention
from .templates import test_chains as chains
from .templates import test_normed as normed
from .templates import test_tables as tables

POINTS = 64
"""Number of random points of a schedule space for which cost models are evaluated."""


# --- networks -------------------------------------------------------------------------------------------


def images() -> FloatNetwork:
    """A network of convolutions of each kind, pools and a dense layer, like a small ResNet and MobileNet."""
    net = FloatNetwork(1, 3, 36, 36)
    net.convolution(24, (5, 5), strides=[2, 2], pads=[2, 2, 2, 2])
    net.add("Relu")
    net.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    net.shape = (1, 24, 9, 9)
    entry = net.last
    net.convolution(24, (3, 3), pads=[1, 1, 1, 1])
    net.batch_normalization(24)
    net.add("Relu")
    net.convolution(24, (3, 3), pads=[1, 1, 1, 1])
    net.add("Add", entry)
    net.convolution(72, (1, 1))
    net.add("HardSwish")
    net.convolution(72, (3, 3), group=72, pads=[1, 1, 1, 1], strides=[2, 2])
    net.add("Relu")
    gated = net.last
    net.add("GlobalAveragePool")
    net.shape = (1, 72, 1, 1)
    net.convolution(72, (1, 1))
    net.add("Sigmoid")
    net.add("Mul", gated)
    net.shape = (1, 72, 5, 5)
    net.convolution(48, (1, 3), group=4, pads=[0, 1, 0, 1], dilations=[1, 1])
    net.add("AveragePool", kernel_shape=[2, 2])
    net.add("Flatten")
    net.add("Gemm", net.weights(48 * 16, 40, deviation=0.05), net.weights(40))
    net.add("Softmax", axis=1)
    net.shape = (1, 40)
    return net


def pictures() -> FloatNetwork:
    """A network that encodes and decodes images: concatenations, upsampling, data movement, and statistics of
    planes.
    """
    net = FloatNetwork(2, 20, 13, 12)
    net.convolution(40, (3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
    net.add("InstanceNormalization", net.weights(40), net.weights(40))
    net.add("LeakyRelu", alpha=0.1)
    low = net.last
    net.add("ConvTranspose", net.weights(40, 24, 2, 2, deviation=0.1), kernel_shape=[2, 2], strides=[2, 2])
    high = net.last
    scales = net.constant(np.float32([1, 1, 2, 2]))
    net.add("Resize", "", scales, inputs=[low, "", scales], mode="linear")
    net.add("Concat", inputs=[high, net.last], axis=1)
    net.shape = (2, 64, 14, 12)
    net.convolution(33, (3, 3), pads=[2, 2, 2, 2], dilations=[2, 2])
    net.add("Tanh")
    net.add("Pad", net.constant(np.int64([0, 0, 1, 0, 0, 0, 0, 2])), mode="reflect")
    net.add("Transpose", perm=[0, 2, 3, 1])
    net.add("ReduceMean", axes=[1], keepdims=0)
    net.shape = (2, 14, 33)
    return net


def rows() -> FloatNetwork:
    """A transformer encoder's layer: products of two activations, softmax, normalizations, GELU, a gather."""
    net = FloatNetwork(1, 24, 64)
    heads = []
    for transposed in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        net.add(
            "MatMul",
            net.weights(64, 64, deviation=0.1),
            inputs=None
            if not heads
            else ["x", net.constant(net.rng.standard_normal((64, 64)).astype(np.float32) / 8)],
        )
        net.add("Reshape", net.constant(np.int64([1, 24, 4, 16])))
        heads.append(net.add("Transpose", perm=transposed))
    net.add("MatMul", inputs=heads[:2])
    net.add("Div", net.constant(np.float32(4)))
    net.add("Softmax", axis=-1)
    net.add("MatMul", heads[2])
    net.add("Transpose", perm=[0, 2, 1, 3])
    net.add("Reshape", net.constant(np.int64([1, 24, 64])))
    net.add("Add", "x")
    net.add("LayerNormalization", net.weights(64), net.weights(64), axis=-1)
    net.add("MatMul", net.weights(64, 160, deviation=0.1))
    scaled = net.last
    net.add("Mul", net.constant(np.float32(0.5**0.5)))
    net.add("Erf")
    net.add("Add", net.constant(np.float32(1)))
    net.add("Mul", scaled)
    net.add("Mul", net.constant(np.float32(0.5)))
    net.add("MatMul", net.weights(160, 64, deviation=0.1))
    net.add("Gather", net.constant(np.int64([3, 1])), axis=1)
    net.shape = (1, 2, 64)
    return net


def steps() -> FloatNetwork:
    """A network of recurrent layers."""
    net = FloatNetwork(6, 2, 20)
    net.add(
        "LSTM",
        net.weights(1, 4 * 24, 20, deviation=0.2),
        net.weights(1, 4 * 24, 24, deviation=0.2),
        hidden_size=24,
    )
    net.add("Squeeze", net.constant(np.int64([1])))
    net.add(
        "GRU",
        net.weights(1, 3 * 12, 24, deviation=0.2),
        net.weights(1, 3 * 12, 12, deviation=0.2),
        hidden_size=12,
    )
    net.shape = (6, 1, 2, 12)
    return net


def blocks() -> FloatNetwork:
    """A network with element-wise operands in channel blocks of two sizes, in blocks of another shape, and without
    blocks.
    """
    net = FloatNetwork(1, 48, 6, 7)
    wide = net.convolution(48, (1, 1))
    net.add("Sigmoid", inputs=[wide])
    narrow = net.convolution(48, (3, 3), group=12, pads=[1, 1, 1, 1])
    net.add("Mul", inputs=[wide, narrow])
    both = net.add("Exp")
    means = net.add("GlobalAveragePool", inputs=[narrow])
    net.add("Max", inputs=[means, "x"])
    net.add("Min", inputs=[net.last, both])
    return net


def products() -> FloatNetwork:
    """A network with matrix products large enough for tensor cores, and a product of one row."""
    net = FloatNetwork(2, 32, 14, 14)
    net.convolution(96, (3, 3), pads=[1, 1, 1, 1])
    net.add("Relu")
    net.add("Reshape", net.constant(np.int64([192, 196])))
    data = net.add("MatMul", net.weights(196, 160))
    net.add("Transpose", perm=[1, 0])
    net.add("MatMul", data)
    net.add("ReduceMean", axes=[0], keepdims=1)
    net.add("Gemm", net.weights(160, 1000), net.weights(1000))
    net.shape = (1, 1000)
    return net


def integers() -> MixedNetwork:
    """A fully quantized network: convolutions of each kind, an addition, concatenated channels, pools."""
    net = MixedNetwork(1, 3, 38, 38)
    net.pair()
    net.quantized_convolution(24, 7, strides=[2, 2])
    net.other("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    entry = net.pair()
    net.quantized_convolution(24)
    net.add("Add", entry)
    both = net.pair()
    net.quantized_convolution(24, group=24)
    net.other("Concat", both, axis=1)
    net.pair()
    net.other("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    net.pair()
    net.quantized_convolution(40, 1)
    net.other("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    net.pair()
    net.other("GlobalAveragePool")
    net.pair()
    net.quantized_convolution(10, 1)
    return net


FLOAT_NETWORKS: Mapping[str, Callable[[], FloatNetwork]] = {
    "images": images,
    "pictures": pictures,
    "blocks": blocks,
    "rows": rows,
    "steps": steps,
    "integers": integers,
}
PROCESSORS = {
    "x86-64-v4": parse_target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4"),
    "aarch64": parse_target("llvm -mtriple=aarch64-linux-gnu"),
}
GPUS = {"sm_90": cuda_target("sm_90"), "opencl": opencl_target()}
TENSOR_CORES = {row.name: cuda_target(row.name, tensor_float=True) for row in ARCHITECTURES}
CODED = ("sm_80", "sm_90a")
"""GPU architectures with tensor cores whose generated code is described in the texts."""
VTA = load_config("vta")
MACHINES = {
    "vta": VTA,
    "tiny": load_config("tiny"),
    "8x32": replace(
        VTA, name="8x32", block_in=8, block_out=32, inp_buffer_bytes=8192, extensions=("post", "patch")
    ),
}
GRAPHS: Mapping[str, tuple[Callable[[], Graph], Config]] = {
    "attention": (lambda: attention.attention(attention.Sizes(rows=24, keys=40)), attention.MACHINE),
    "attention-masked": (lambda: attention.attention(attention.Sizes(masked=True)), attention.MACHINE),
    "normed": (lambda: normed.network(normed.Sizes(positions=40, turned=True)), normed.MACHINE),
    "normed-vta": (lambda: normed.network(normed.Sizes(positions=90, filters=48, operand=True)), normed.VTA),
    "chains-vta": (lambda: fuse(chains.chained_network(0)), chains.MACHINES["vta"]),
    "chains-tiny": (lambda: fuse(chains.chained_network(1)), chains.MACHINES["tiny"]),
    "chains-32x8": (lambda: fuse(chains.chained_network(3)), chains.MACHINES["32x8"]),
    "tables": (lambda: fuse(tables.network()), tables.MACHINES["8x32, chained"]),
}
WORKLOADS = (
    "conv2d:23,3,40,5,2",
    "conv2d:13,48,60,3,1",
    "conv2d:C8",
    "conv2d:7,40,90,1,1",
    "depthwise:14,72,3,1",
    "depthwise:D6",
    "dense:1,512,100",
    "dense:30,64,100",
    "matmul:2,30,24,40",
    "conv_transpose:7,32,24,4,2",
    "softmax:40,100",
    "normalization:9,300",
    "reduction:6,50,40",
    "elementwise:sigmoid,64x14x14",
    "elementwise:add,64x30x30,64x1x1",
)
"""Names of processor workloads (syntax: `workload_names.FORMS`)."""
LAYERS = (
    "conv2d:C2",
    "conv2d:C5",
    "conv2d:C8",
    "conv2d:23,3,40,5,2",
    "conv2d:13,48,60,3,1",
    "depthwise:14,72,3,1",
    "depthwise:D5",
    "dense:1,512,100",
    "elementwise:add,64x14x14,64x14x14",
    "elementwise:relu,40x9x9",
)
"""Names of layers for the accelerator (syntax: `workload_names.FORMS`)."""


# --- texts ----------------------------------------------------------------------------------------------


def pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def in_words(config: Config, workload: Workload, values: Values) -> str:
    """The knobs `values` of `workload` on `config` as text; if they contain a loop order, loops are named in words."""
    return pairs(settings_of(config, workload, values) if "order" in values else values)


def account_lines(space: Space) -> Iterator[str]:
    """Lines of text on a space: its axes, and the sums of its cost model's results over POINTS random points."""
    points = space.draw(np.random.default_rng(0), POINTS)
    estimates = space.cost(space.columns(points))
    axes = {axis.name: f"{axis.values[0]}..{axis.values[-1]} ({len(axis.values)})" for axis in space.axes}
    yield f"    axes {pairs(axes)}; floor {number(space.floor)}, slack {number(space.slack)}"
    kept = {**estimates.limits, **estimates.search_limits}
    yield f"    of {POINTS} points keep to: {pairs({name: int(mask.sum()) for name, mask in kept.items()})}"
    sums = {"bound": estimates.bound, **estimates.quantities}
    yield f"    sums: {pairs({name: number(float(column.sum())) for name, column in sums.items()})}"
    effective = {name: int(estimates.effective[name].sum()) for name in (axis.name for axis in space.axes)}
    yield f"    sums of what has an effect: {pairs(effective)}"


def schedule_line(schedule: Any) -> str:
    """The number of uses of each primitive in a schedule, and a digest of the scheduled program."""
    counts = Counter(step.primitive for step in schedule.trace)
    return f"    schedule {structural_hash(schedule.program, alpha=True)[:6]}: {pairs(counts)}"


def code_line(program: Program, target: Any) -> str:
    """A line of text on a kernel's generated code: number of lines, counts of some operations, and a digest."""
    if isinstance(target, CpuTarget):
        code = lower_cpu(program, target).text
    else:
        code = lower_gpu(prepare(program, target), target).source
    words = Counter(
        re.findall(r"\b(?:f?mul|f?add|fma|load|store|select|for|if|__syncthreads|barrier)\b", code)
    )
    digest = hashlib.sha256(code.encode()).hexdigest()[:6]
    return f"    code {digest}: {len(code.splitlines())} lines, {pairs(dict(sorted(words.items())))}"


def workload_lines(
    templates: Registry[Any, Any], target: Any, workload: Any, scheduled: int
) -> Iterator[str]:
    """Lines of text on a workload: default point, cost model, and schedules at `scheduled` random legal points."""
    space = templates.space(target, workload)
    yield f"  {workload.template}: {pairs(templates.default(target, workload))}"
    yield from account_lines(space)
    for point in space.sample(np.random.default_rng(1), scheduled) if scheduled else ():
        values = space.values(point)
        yield f"    at {', '.join(map(str, values.values()))}:"
        yield schedule_line(templates.schedule(target, workload, values))


def processor_text(target: CpuTarget) -> Iterator[str]:
    """Lines of text on each of WORKLOADS for a processor: cost model and schedules."""
    for name in WORKLOADS:
        yield name
        workload = cpu_workload(name, target)
        yield from workload_lines(CPU, target, workload, 2)
        yield schedule_line(CPU.schedule(target, workload))


def kernel_text(lowering: Any, model: bytes, scheduled: int = 1, coded: bool = True) -> Iterator[str]:
    """Lines of text on a network (bytes of an ONNX `model`) for the processor or GPU of `lowering`: the operators of
    its graph, and each node's kernels, with schedules at `scheduled` random points of each new workload and, if
    `coded`, a line on each kernel's generated code.
    """
    graph = import_graph(lowering.rules, model)
    yield f"operators: {pairs(Counter(node.kind for node in graph.nodes))}"
    known: set[Any] = set()
    for node in graph.nodes:
        default = lowering.default(graph, node)
        if default is None:
            continue
        yield f"{node.name}: {node.kind} {'x'.join(map(str, graph.tensors[node.output].shape))}"
        for way in lowering.methods(graph, node):
            text = repr(way.workload)
            if way.workload is not None and text not in known:
                known.add(text)
                yield from workload_lines(lowering.templates, lowering.target, way.workload, scheduled)
            schedule = way.schedule(lowering.target)
            yield schedule_line(schedule)
            if coded:
                yield code_line(schedule.program, lowering.target)


def layer_text(config: Config) -> Iterator[str]:
    """Yields, for each convolution of LAYERS on a machine, its name and lines of text: the default schedule, and the
    cost model's results for this and for other schedules.
    """
    for name in LAYERS:
        workload = accelerator_workload(name, config)
        yield name
        yield from point_lines(config, workload)


def point_lines(config: Config, workload: Workload) -> Iterator[str]:
    template = template_of(workload)
    for threads in (1, 2):
        values = template.default_for(config, workload, threads)
        yield f"  {workload.template}, {threads} copies at most: {in_words(config, workload, values)}"
    yield from account_lines(space_of(config, workload))


def network_text(graph: Graph, config: Config) -> Iterator[str]:
    """Lines of text on a network compiled for a machine: kernels, instructions and cycles."""
    compiled = compile_program(graph, config)
    program = compiled.program
    cycles = simulate(config, program.instructions, program.image, data=False).cycles
    yield f"operators: {pairs(Counter(node.kind for node in compiled.graph.nodes))}"
    yield f"in chain memory: {', '.join(sorted(compiled.chained)) or 'nothing'}"
    yield f"{len(program.instructions)} instructions, {program.image.nbytes} bytes, {cycles} cycles"
    yield f"instructions: {pairs(Counter(sorted(format_names(program.instructions))))}"
    legalized = legalize(graph, config)
    kernels, _ = network_kernels(config, legalized)
    points = choose_points(config, kernels, {}, 2)
    known: set[Workload] = set()
    for name, several in kernels.items():
        for kernel, values in zip(several, points[name], strict=True):
            yield f"{name}: {kernel.workload}"
            yield f"  {in_words(config, kernel.workload, values)}"
            if kernel.workload not in known:
                known.add(kernel.workload)
                yield from account_lines(space_of(config, kernel.workload))


def texts() -> Iterator[tuple[str, Callable[[], Iterable[str]]]]:
    """All golden texts: yields (name of the text, function that makes its lines)."""
    for network, make in FLOAT_NETWORKS.items():
        for name, target in PROCESSORS.items():
            yield (
                f"{network}-{name}",
                lambda make=make, target=target: kernel_text(CpuLowering(target), make().model()),
            )
        for name in {"images": ("sm_90", "opencl"), "rows": ("sm_90", "opencl"), "blocks": ()}.get(
            network, ("sm_90",)
        ):
            target = GPUS[name]
            yield (
                f"{network}-{name}",
                lambda make=make, target=target: kernel_text(GpuLowering(target), make().model()),
            )
    for name, target in PROCESSORS.items():
        yield f"workloads-{name}", lambda target=target: processor_text(target)
    for name, target in TENSOR_CORES.items():
        yield (
            f"products-{name}",
            lambda name=name, target=target: kernel_text(
                GpuLowering(target), products().model(), 0, name in CODED
            ),
        )
    for name, config in MACHINES.items():
        yield f"layers-{name}", lambda config=config: layer_text(config)
        yield (
            f"integers-{name}",
            lambda config=config: network_text(fuse(import_model(integers().model())), config),
        )
    for name, (make_graph, config) in GRAPHS.items():
        yield name, lambda make=make_graph, config=config: network_text(make(), config)


TEXTS = KeptTexts(Path(__file__).parent / "golden", dict(texts()))

if __name__ == "__main__":
    TEXTS.write()

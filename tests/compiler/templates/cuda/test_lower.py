"""GPU kernels of every operator of the float graph, emulated and compared with ONNX's reference implementation."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from campaign import representatives, some
from cuda_networks import Arrays, emulated, gpu_graph, interpreted, run_nodes
from cuda_on_host.modules import run_programs
from float_networks import FloatNetwork, inferred_shape, reference, relative

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.graph.graph import Graph, Node, Tensor
from vdla.compiler.graph.operators import Permute, Reshape, Softmax
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.regions import write_regions
from vdla.compiler.ir.stmt import Program
from vdla.compiler.templates.gpu import elementwise, movement, pool, rows
from vdla.compiler.templates.gpu.lower import lower_cuda_node
from vdla.compiler.templates.gpu.lowered import LoweredCudaNode

TARGET = cuda_target()
SHAPE = (2, 6, 8, 9)
"""Shape of the input image of most networks here, (N, C, H, W)."""
Build = Callable[[FloatNetwork], object]


def pads(net: FloatNetwork, mode: str) -> None:
    net.add("Pad", net.constant(np.array([0, 1, 2, 0, 0, 0, 1, 3], np.int64)), mode=mode)


def sliced(net: FloatNetwork) -> None:
    starts, ends, axes, steps = ([1, -1], [99, -99], [1, 3], [2, -3])
    net.add("Slice", *(net.constant(np.array(v, np.int64)) for v in (starts, ends, axes, steps)))


def concatenated(net: FloatNetwork, count: int) -> None:
    parts = [
        net.last,
        *(net.add("Mul", net.constant(np.float32(n)), inputs=None) for n in range(2, count + 1)),
    ]
    net.add("Concat", inputs=parts, axis=1)


def resized(net: FloatNetwork, mode: str) -> None:
    scales = net.constant(np.array([1, 1, 1.5, 2], np.float32))
    net.add("Resize", "", scales, mode=mode, coordinate_transformation_mode="asymmetric")


def reduced(net: FloatNetwork, operator: str, axes: list[int], keepdims: int = 1) -> None:
    net.add(operator, axes=axes, keepdims=keepdims)


def lstm(net: FloatNetwork) -> None:
    sizes = [(2, 20, 9), (2, 20, 5), (2, 40)]
    net.add(
        "LSTM",
        *(net.weights(*size, deviation=0.5) for size in sizes),
        hidden_size=5,
        direction="bidirectional",
    )


def channel(net: FloatNetwork) -> str:
    return net.weights(6, 1, 1)


def fused_reduction(net: FloatNetwork) -> None:
    """Adds a reduction with element-wise functions before and after it, each with a factor for each channel."""
    net.add("Sub", channel(net))
    net.add("Exp")
    reduced(net, "ReduceMean", [0, 2])
    net.add("Mul", channel(net))
    net.add("Relu")


def fused_softmax(net: FloatNetwork) -> None:
    net.add("Mul", net.constant(np.float32(0.3)))
    net.add("Softmax", axis=3)
    net.add("Add", net.weights(9))


def fused_move(net: FloatNetwork, move: Build) -> None:
    net.add("Mul", net.constant(np.float32(0.3)))
    move(net)
    net.add("Tanh")


NETWORKS: dict[str, Build] = {
    "Abs": lambda net: net.add("Abs"),
    "Add, a row": lambda net: net.add("Add", net.weights(9)),
    "Add, a channel": lambda net: net.add("Add", channel(net)),
    "Add, both broadcast": lambda net: [net.add("GlobalMaxPool"), net.add("Add", net.weights(1, 6, 4, 1))],
    "MaxPool": lambda net: net.add("MaxPool", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1]),
    "AveragePool": lambda net: net.add(
        "AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "GlobalAveragePool": lambda net: net.add("GlobalAveragePool"),
    "MaxPool behind a function": lambda net: [
        net.add("Mul", channel(net)),
        net.add("MaxPool", kernel_shape=[2, 3], strides=[2, 3]),
        net.add("Add", channel(net)),
    ],
    "ReduceSum": lambda net: net.add("ReduceSum", net.constant(np.array([0, 2], np.int64))),
    "ReduceMax": lambda net: reduced(net, "ReduceMax", [1], 0),
    "ReduceL2": lambda net: reduced(net, "ReduceL2", [0, 1, 2, 3]),
    "fused reduction": fused_reduction,
    "Softmax": lambda net: net.add("Softmax", axis=3),
    "Softmax, columns": lambda net: net.add("Softmax", axis=1),
    "LogSoftmax": lambda net: net.add("LogSoftmax", axis=2),
    "fused Softmax": fused_softmax,
    "LayerNormalization": lambda net: net.add(
        "LayerNormalization", net.weights(8, 9), net.weights(8, 9), axis=2
    ),
    "InstanceNormalization": lambda net: net.add("InstanceNormalization", net.weights(6), net.weights(6)),
    "Transpose": lambda net: net.add("Transpose", perm=[0, 3, 2, 1]),
    "Transpose, last axis stays": lambda net: net.add("Transpose", perm=[1, 0, 2, 3]),
    "fused Transpose": lambda net: fused_move(net, lambda n: n.add("Transpose", perm=[0, 2, 3, 1])),
    "Concat": lambda net: concatenated(net, 3),
    "Concat of many": lambda net: concatenated(net, 9),
    "fused Concat": lambda net: [concatenated(net, 2), net.add("Sigmoid")],
    "Pad": lambda net: pads(net, "constant"),
    "Pad, reflect": lambda net: pads(net, "reflect"),
    "fused Pad": lambda net: fused_move(net, lambda n: pads(n, "edge")),
    "Slice": sliced,
    "fused Slice": lambda net: fused_move(net, sliced),
    "Gather": lambda net: net.add("Gather", net.constant(np.array([[5, -1], [0, 3]], np.int64)), axis=1),
    "fused Gather": lambda net: fused_move(
        net, lambda n: n.add("Gather", n.constant(np.array([2, 2, 0], np.int64)), axis=3)
    ),
    "Resize, nearest": lambda net: resized(net, "nearest"),
    "Resize, linear": lambda net: [resized(net, "linear"), net.add("Relu")],
    "Gemm": lambda net: [
        net.add("Flatten"),
        net.add("Gemm", net.weights(432, 7), net.weights(7)),
        net.add("Relu"),
    ],
    "MatMul": lambda net: [
        net.add("Transpose", perm=[0, 1, 3, 2]),
        net.add("MatMul", inputs=["x", net.last]),
        net.add("Add", net.weights(8)),
    ],
    "Conv": lambda net: net.convolution(7, (3, 2), strides=[2, 1], pads=[1, 1, 0, 1]),
    "Conv, groups": lambda net: [net.convolution(4, (3, 3), group=2, bias=False), net.add("Relu")],
    "Conv, depthwise": lambda net: net.convolution(6, (3, 3), group=6, pads=[1, 1, 1, 1]),
    "ConvTranspose": lambda net: net.add(
        "ConvTranspose", net.weights(6, 4, 3, 3, deviation=0.2), strides=[2, 2], pads=[1, 1, 1, 1]
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_operators(name) -> None:
    agree(FloatNetwork(*SHAPE), NETWORKS[name])


def test_lstm() -> None:
    agree(FloatNetwork(3, 2, 9), lstm)


def agree(net: FloatNetwork, build: Build) -> None:
    model, x = made(net, build)
    found = run_nodes(gpu_graph(model), {"x": x}, emulated)[net.last]
    assert relative(found, reference(model, {"x": x})[net.last]) <= 1e-5


def made(net: FloatNetwork, build: Build) -> tuple[bytes, np.ndarray]:
    """The bytes of the model that `build` makes of the network, and a random input."""
    build(net)
    net.shape = inferred_shape(net)
    return net.model(), np.random.default_rng(0).standard_normal(net.input_shape, dtype=np.float32)


PRODUCTS = ("Conv", "Gemm", "MatMul")
"""Prefixes of the names of convolutions and matrix products, whose templates have tests of their own."""


def test_the_code_of_all_other_operators_runs_on_the_host() -> None:
    """For operators other than products of matrices, the generated CUDA C++ gives the interpreter's results. It runs on
    the CPU, with threads in random order.
    """
    programs: list[tuple[Program, Arrays]] = []
    expected: list[Arrays] = []

    def record(program: Program, arrays: Arrays) -> Arrays:
        programs.append((program, arrays))
        found = interpreted(program, arrays)
        expected.append({b.name: found[b.name] for b in write_regions(program.body)})
        return found

    # Above, each runs in the interpreter; its text is compiled as C++, which takes longer.
    others = some([build for name, build in NETWORKS.items() if not name.startswith(PRODUCTS)], 14)
    for build in others:
        model, x = made(FloatNetwork(*SHAPE), build)
        run_nodes(gpu_graph(model), {"x": x}, record)
    model, x = made(FloatNetwork(3, 1, 9), lstm)
    run_nodes(gpu_graph(model), {"x": x}, record)
    compared = 0
    for found, wanted in zip(run_programs(programs, TARGET), expected, strict=True):
        for name in found.keys() & wanted.keys():
            assert relative(found[name].reshape(wanted[name].shape), wanted[name]) <= 1e-5
            compared += 1
    assert compared >= len(programs) >= len(others)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 1, 1, 7), (3, 1, 5, 1), (1, 2, 1, 1)])
@pytest.mark.parametrize(
    "name", ["Softmax", "Softmax, columns", "GlobalAveragePool", "ReduceL2", "Transpose", "Abs", "Concat"]
)
def test_tensors_of_few_elements(name, shape) -> None:
    agree(FloatNetwork(*shape), NETWORKS[name])


def test_fused_functions_leave_no_kernel_of_their_own() -> None:
    for name in (
        "fused reduction",
        "fused Softmax",
        "fused Transpose",
        "fused Slice",
        "fused Gather",
        "fused Concat",
    ):
        net = FloatNetwork(*SHAPE)
        NETWORKS[name](net)
        net.shape = inferred_shape(net)
        *before, node = gpu_graph(net.model()).nodes
        assert name == "fused Concat" or not before
        assert node.result is not None and (name == "fused Concat" or node.data is not None)


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (NETWORKS["Add, a row"], (70_001, 1, 1, 9)),
        (NETWORKS["Softmax"], (70_001, 1, 3, 5)),
        (NETWORKS["Softmax, columns"], (70_001, 4, 1, 9)),
        (NETWORKS["InstanceNormalization"], (70_001, 6, 2, 2)),
        (NETWORKS["GlobalAveragePool"], (70_001, 2, 3, 5)),
        (NETWORKS["ReduceL2"], (7, 3, 521, 1031)),
        (NETWORKS["Transpose"], (70_001, 33, 1, 40)),
        (NETWORKS["Transpose"], (8, 130, 250, 70)),
        (NETWORKS["MaxPool"], (70_001, 1, 8, 9)),
        (NETWORKS["Gather"], (70_001, 6, 1, 2)),
        (NETWORKS["fused reduction"], (1, 6, 512, 512)),
    ],
)
def test_large_tensors_fit_into_grids(build, shape) -> None:
    """Some tensors are so large that their kernels need more blocks than the grid axes y and z have. Such kernels must
    keep to the limits of the grid and have no races. Their code is generated, but not run.
    """
    net = FloatNetwork(*shape)
    build(net)
    net.shape = inferred_shape(net)
    graph = gpu_graph(net.model())
    for node in graph.nodes:
        lowered = lower_cuda_node(TARGET, graph, node)
        assert lowered is not None
        assert lower(prepare(lowered.schedule(TARGET).program, TARGET), TARGET).launches


def test_nodes_of_equal_programs_have_one_kernel() -> None:
    def node(operator, *shape: int) -> tuple[Graph, Node]:
        made = Node(name="n", members=("n",), operator=operator, inputs=("x",), output="y")
        tensors = {"x": Tensor(name="x", shape=shape), "y": Tensor(name="y", shape=shape)}
        graph = Graph(name="g", inputs=("x",), outputs=(), nodes=(made,), tensors=tensors)
        return graph, made

    def key(operator, *shape: int) -> str:
        graph, made = node(operator, *shape)
        lowered = lower_cuda_node(TARGET, graph, made)
        assert lowered is not None
        return lowered.key

    assert key(Softmax(axis=1), 6, 35) == key(Softmax(axis=2), 2, 3, 35)
    assert key(Softmax(axis=1), 6, 35) != key(Softmax(axis=1), 6, 36)
    assert key(Permute(axes=(1, 0)), 40, 50) == key(Permute(axes=(2, 0, 1)), 10, 4, 50)


def _last(name: str) -> tuple[Graph, LoweredCudaNode]:
    """The graph of one of `NETWORKS`, and its last node lowered with default knobs."""
    net = FloatNetwork(*SHAPE[:3], 10)
    NETWORKS[name](net)
    net.shape = inferred_shape(net)
    graph = gpu_graph(net.model())
    lowered = lower_cuda_node(TARGET, graph, graph.nodes[-1])
    assert lowered is not None
    return graph, lowered


@pytest.mark.parametrize(
    ("name", "template", "knobs", "shows"),
    [
        ("Abs", elementwise, elementwise.Knobs(threads=32, width=2), "vectorize(2)"),
        ("MaxPool", pool, pool.Knobs(threads=32, columns=4), "float32[1, 1, 4, 1] @ register"),
    ],
)
def test_templates_take_knobs(name, template, knobs, shows) -> None:
    _, lowered = _last(name)
    assert shows in format_node(template.schedule(TARGET, lowered.program, knobs).program)


def test_rows_are_lowered_with_knobs() -> None:
    graph, _ = _last("Softmax")
    lowered = lower_cuda_node(TARGET, graph, graph.nodes[-1], rows.Knobs(group=2, lanes=4))
    assert lowered is not None and "thread.x(4)" in format_node(lowered.schedule(TARGET).program)


@pytest.mark.parametrize(("height", "shows"), [(4, "thread.y(4)"), (None, "block.x(8)")])
def test_permutations_with_and_without_tiles(monkeypatch, height, shows) -> None:
    monkeypatch.setattr(movement, "tile_rows", lambda *_: height)
    _, lowered = _last("Transpose")
    assert shows in format_node(lowered.schedule(TARGET).program)


CUBINS = (
    "Add, a channel",
    "MaxPool",
    "LogSoftmax",
    "fused reduction",
    "Transpose",
    "Concat",
    "Pad, reflect",
)
ARCHITECTURES = ("sm_80", "sm_90a")


@pytest.mark.parametrize(
    ("name", "arch"),
    representatives(
        itertools.product(CUBINS, ARCHITECTURES),
        0,
        always=[(name, ARCHITECTURES[i % 2]) for i, name in enumerate(CUBINS)],
    ),
)
def test_cubins(name, arch) -> None:
    net = FloatNetwork(*SHAPE)
    NETWORKS[name](net)
    cubins(net, arch)


def test_cubins_of_an_lstm() -> None:
    net = FloatNetwork(3, 2, 9)
    lstm(net)
    cubins(net, "sm_90")


def cubins(net: FloatNetwork, arch: str) -> None:
    """Compiles all kernels of the network to machine code for `arch`."""
    net.shape = inferred_shape(net)
    graph, target = gpu_graph(net.model()), cuda_target(arch)
    for node in graph.nodes:
        lowered = lower_cuda_node(target, graph, node)
        if lowered is None:
            assert isinstance(node.operator, Reshape)
            continue
        module = lower(prepare(lowered.schedule(target).program, target), target)
        cubin = compile_cubin(module.source, arch)
        assert cubin.startswith(b"\x7fELF")
        assert all(launch.function.encode() in cubin for launch in module.launches)

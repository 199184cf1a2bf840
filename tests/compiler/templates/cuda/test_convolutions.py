"""Emulated GPU convolutions of every kind, and whole nodes with their fused epilogues, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from campaign import examples
from cuda_networks import gpu_graph, run_nodes
from float_networks import FloatNetwork, convolution_step, inferred_shape, relative, runtime
from gpu_kernels import emulated
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.cuda.machine import GpuTarget, cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.graph.operators import Convolution
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Program
from vdla.compiler.schedule import replay, trace_from_lists, trace_to_lists
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import blocked_depthwise
from vdla.compiler.te.ops.convolution import Convolution as Shape
from vdla.compiler.te.ops.gemm_convolution import gemm_convolution
from vdla.compiler.templates.columns import ESTIMATE
from vdla.compiler.templates.gpu import conv2d, conv_transpose, depthwise
from vdla.compiler.templates.gpu.lower_convolutions import (
    lower_conv2d,
    lower_conv_transpose,
    lower_convolution,
    lower_depthwise,
)
from vdla.compiler.templates.gpu.lowered import LoweredCudaNode
from vdla.compiler.templates.gpu.tile import Tile
from vdla.compiler.templates.gpu.workload import CudaWorkload

TARGET = cuda_target()

TILES = st.sampled_from(
    [
        Tile(rows=16, columns=16, depth=4, thread_rows=4, thread_columns=4),
        Tile(rows=8, columns=32, depth=8, thread_rows=2, thread_columns=4, stages=3, splits=2),
        Tile(rows=32, columns=32, depth=4, thread_rows=8, thread_columns=8, row_groups=2, column_groups=2),
        Tile(rows=4, columns=32, depth=8, thread_rows=1, thread_columns=1, stages=1, splits=3),
    ]
)


def execute(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a program after a run on the emulated GPU; the program passes all checks before code generation."""
    prepared = prepare(program, TARGET)
    written = {p.name: np.zeros(p.shape, np.float32) for p in program.parameters if p.name not in arrays}
    return emulated(prepared, {**arrays, **written})


class Integers(FloatNetwork):
    """A float network whose weights are small integers, so that sums are exact in any order."""

    def weights(self, *shape: int, deviation: float = 1.0) -> str:
        return self.constant(self.rng.integers(-4, 5, shape).astype(np.float32))


def lowered_alone(net: FloatNetwork, knobs: object = None, target: GpuTarget = TARGET) -> LoweredCudaNode:
    """The only node of a network (a convolution), lowered for the GPU, and scheduled with knobs if there are some."""
    graph = gpu_graph(net.model())
    (node,) = graph.nodes
    operator = node.operator
    assert isinstance(operator, Convolution)
    match knobs:
        case None:
            return lower_convolution(target, graph, node, operator)
        case depthwise.Knobs():
            lowered = lower_depthwise(graph, node, operator)
            made = depthwise.schedule(target, lowered.program, operator.window, knobs)
        case conv_transpose.Knobs():
            lowered = lower_conv_transpose(graph, node, operator)
            made = conv_transpose.schedule(target, lowered.program, knobs)
        case _:
            assert isinstance(knobs, Tile)
            lowered = lower_conv2d(target, graph, node, operator)
            made = conv2d.schedule(target, lowered.program, knobs)
    return replace(lowered, schedule=lambda _: made)


def check_alone(net: FloatNetwork, knobs: object, *, again: bool = True) -> None:
    """Asserts that the only node of a network, lowered with these knobs, gives exactly ONNX Runtime's result. `again`:
    also replays the schedule's trace.
    """
    model = net.model()
    x = np.random.default_rng(1).integers(-4, 5, net.input_shape).astype(np.float32)
    lowered = lowered_alone(net, knobs)
    schedule = lowered.schedule(TARGET)
    if again:
        replayed = replay(lowered.program, trace_from_lists(trace_to_lists(schedule.trace)))
        assert replayed.program == schedule.program
    (data,) = [p for p, name in lowered.tensors.items() if p != "Y"]
    shapes = {p.name: p.shape for p in lowered.program.parameters}
    arrays = {data: x.reshape(shapes[data]), **pack_arrays(schedule.trace, lowered.constants)}
    found = execute(schedule.program, arrays)["Y"]
    (expected,) = runtime(model, {"x": x}).values()
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@settings(max_examples=examples(7), deadline=None)
@given(
    data=st.data(),
    batch=st.integers(1, 2),
    channels=st.sampled_from([1, 3, 8, 12]),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    tile=TILES,
)
def test_tiled_products(data, batch, channels, size, tile) -> None:
    net = Integers(batch, channels, *size)
    step: dict[str, Any] = data.draw(convolution_step(channels, *size))
    if step["group"] == channels == step["filters"] and channels > 1:
        step["group"] = 1
    net.convolution(step.pop("filters"), step.pop("kernel"), **step)
    check_alone(net, tile)


@settings(max_examples=examples(8), deadline=None)
@given(
    data=st.data(),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    knobs=st.builds(
        depthwise.Knobs,
        rows=st.integers(1, 4),
        columns=st.integers(1, 3),
        threads=st.sampled_from([32, 128]),
    ),
)
def test_depthwise(data, size, knobs) -> None:
    net = Integers(2, 3, *size)
    net.convolution(**{**data.draw(convolution_step(3, *size)), "filters": 3, "group": 3})
    check_alone(net, knobs)


def transposed(
    net: FloatNetwork, filters: int, kernel: tuple[int, int], group: int = 1, **attributes
) -> None:
    weight = net.weights(net.shape[1], filters // group, *kernel, deviation=0.2)
    net.add("ConvTranspose", weight, net.weights(filters), kernel_shape=kernel, group=group, **attributes)
    net.shape = inferred_shape(net)


@pytest.mark.parametrize(
    ("tile", "channels", "attributes"),
    [
        # All phases alike: one product.
        (1, 8, {"kernel": (4, 4), "strides": (2, 2), "pads": (1, 1, 1, 1), "group": 2}),
        # Phases with different taps.
        (0, 3, {"kernel": (5, 3), "strides": (2, 2), "pads": (2, 1, 2, 0), "output_padding": (1, 1)}),
        # Phases without taps.
        (1, 2, {"kernel": (2, 3), "strides": (3, 2), "pads": (0, 1, 0, 0), "dilations": (2, 1)}),
        (0, 1, {"kernel": (1, 2), "strides": (3, 3)}),
    ],
)
def test_transposed(tile, channels, attributes) -> None:
    net = Integers(1 + tile, channels, 3, 4)
    transposed(net, 4, **attributes)
    tiles = [
        Tile(rows=16, columns=16, depth=4, thread_rows=4, thread_columns=4),
        Tile(rows=8, columns=32, depth=8, thread_rows=2, thread_columns=4, stages=3, splits=2),
    ]
    program = lowered_alone(net).program
    chosen = conv_transpose.choose_knobs(TARGET, program)
    # Phases are scheduled alike.
    check_alone(
        net, conv_transpose.Knobs(tiles=dict.fromkeys(chosen.tiles, tiles[tile])), again=channels in (1, 8)
    )


def test_what_follows_is_fused() -> None:
    net = FloatNetwork(2, 6, 7, 9)
    net.convolution(6, (3, 3), pads=[1, 1, 1, 1], bias=False)
    first = net.add("Relu")
    net.convolution(6, (3, 3), pads=[1, 1, 1, 1], group=6)
    net.batch_normalization(6)
    net.add("Clip", net.constant(np.float32(0)), net.constant(np.float32(6)))
    net.convolution(6, (1, 1))
    net.add("Add", first)
    net.add("HardSwish")
    transposed(net, 3, (4, 4), strides=(2, 2), pads=(1, 1, 1, 1))
    net.add("Sigmoid")
    model = net.model()
    graph = gpu_graph(model)
    assert sum(isinstance(node.operator, Convolution) for node in graph.nodes) == 4 == len(graph.nodes)
    feeds = {"x": np.random.default_rng(0).standard_normal(net.input_shape).astype(np.float32)}
    expected = runtime(model, feeds)
    for name, found in run_nodes(graph, feeds, execute).items():
        assert relative(found, expected[name]) < 1e-5


PAPER = {
    "C1": (224, 3, 64, 7, 2),
    "C6": (28, 128, 128, 3, 1),
    "C10": (14, 256, 512, 3, 2),
    "C11": (14, 256, 512, 1, 2),
    "C12": (7, 512, 512, 3, 1),
}


@pytest.mark.parametrize("name", PAPER)
def test_defaults_fill_a_gpu(name) -> None:
    size, channels, filters, kernel, stride = PAPER[name]
    window = Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(kernel // 2,) * 4)
    program = gemm_convolution(
        Shape(batch=1, channels=channels, height=size, width=size, filters=filters, window=window),
        block=conv2d.channel_block(channels),
    )
    tile = conv2d.choose_knobs(TARGET, program)
    problem = conv2d.problem_of(program)
    blocks = -(-problem.rows // tile.rows) * -(-problem.columns // tile.columns) * tile.splits
    assert blocks >= 0.9 * TARGET.multiprocessors
    prepare(conv2d.schedule(TARGET, program, tile).program, TARGET)


def test_gathering_divides_by_nothing_that_threads_differ_in() -> None:
    window = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    program = gemm_convolution(
        Shape(batch=1, channels=64, height=16, width=16, filters=64, window=window),
        block=conv2d.channel_block(64),
    )
    tile = Tile(rows=64, columns=64, depth=8, thread_rows=4, thread_columns=4)
    text = format_node(conv2d.schedule(TARGET, program, tile).program)
    (gather,) = [line for line in text.splitlines() if line.strip().startswith("b: copy")]
    # Channel, row and column of the tap follow from the step alone.
    for digit in ("// 36 * 32", "// 12 % 3", "// 4 % 3"):
        assert f"(gemm.k.0 + gemm.k.0.next + 1) {digit}" in gather


@pytest.mark.parametrize(
    "attributes",
    [
        {"filters": 32, "kernel": (3, 3), "pads": [1, 1, 1, 1]},
        {"filters": 16, "kernel": (3, 3), "pads": [1, 1, 1, 1], "group": 16},
    ],
)
def test_compiles_for_every_architecture(attributes) -> None:
    net = FloatNetwork(1, 16, 14, 14)
    net.convolution(**attributes)
    for arch in ("sm_80", "sm_90"):
        target = cuda_target(arch)
        lowered = lowered_alone(net, target=target)
        module = lower(prepare(lowered.schedule(target).program, target), target, name="convolution")
        assert compile_cubin(module.source, arch)


@pytest.mark.parametrize(
    ("size", "channels", "stride"), [(112, 32, 1), (112, 64, 2), (14, 512, 1), (7, 1024, 1)]
)
def test_depthwise_defaults(size, channels, stride) -> None:
    window = Window(kernel=(3, 3), strides=(stride, stride), pads=(1, 1, 1, 1))
    program = blocked_depthwise(
        Shape(
            batch=1,
            channels=channels,
            height=size,
            width=size,
            filters=channels,
            window=window,
            groups=channels,
        ),
        block=1,
    )
    knobs = depthwise.choose_knobs(TARGET, program, window)
    rows = size // stride
    assert rows % knobs.rows == 0
    # Eight warps or more on a multiprocessor, of which each has its loads on the way at once.
    assert channels * rows * rows // knobs.rows >= TARGET.multiprocessors * 8 * 32
    prepare(depthwise.schedule(TARGET, program, window, knobs).program, TARGET)


def test_points_of_the_space_of_tiled_products() -> None:
    net = Integers(1, 8, 9, 8)
    net.convolution(20, (3, 3), pads=[1, 1, 1, 1], strides=[2, 1])
    tile = Tile(rows=16, columns=16, depth=4, thread_rows=4, thread_columns=4)
    program = lowered_alone(net, tile).program
    workload = CudaWorkload(template="conv2d_cuda", expression=program)
    space, default = conv2d.TUNED.space(TARGET, workload), conv2d.TUNED.default(TARGET, workload)
    assert conv2d.TUNED.knobs_at(workload, default) == conv2d.choose_knobs(TARGET, program)
    assert space.legal(space.point(default)[None]).all()
    for point in space.sample(np.random.default_rng(0), 2):
        check_alone(net, conv2d.TUNED.knobs_at(workload, space.values(point)))


def test_points_of_the_space_of_depthwise_convolutions() -> None:
    net = Integers(1, 3, 9, 8)
    window = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    net.convolution(3, (3, 3), pads=[1, 1, 1, 1], group=3)
    program = lowered_alone(net).program
    workload = CudaWorkload(template="depthwise_cuda", expression=program, window=window)
    space, default = depthwise.TUNED.space(TARGET, workload), depthwise.TUNED.default(TARGET, workload)
    assert depthwise.TUNED.knobs_at(workload, default) == depthwise.choose_knobs(TARGET, program, window)
    points = np.concatenate([space.point(default)[None], space.sample(np.random.default_rng(0), 3)])
    found = space.cost(space.columns(points))
    assert space.allowed(found).all() and (found.quantities[ESTIMATE] >= found.bound).all()
    for point in points:
        check_alone(net, depthwise.TUNED.knobs_at(workload, space.values(point)))

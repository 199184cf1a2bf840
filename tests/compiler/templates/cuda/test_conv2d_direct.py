"""Direct convolutions on a GPU: emulated results equal ONNX Runtime's, kernels compile to cubins, and the compiler
chooses this method for the layers for which it is faster than a matrix product would be.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from campaign import examples
from cuda_networks import gpu_graph, run_nodes
from cuda_on_host.agreement import Case, agree
from float_networks import FloatNetwork, convolution_step, relative, runtime
from gpu_kernels import emulated
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduled_gpu import run_scheduled

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.graph.operators import Convolution
from vdla.compiler.ir.stmt import Program
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.convolution import Convolution as Shape
from vdla.compiler.te.ops.direct_conv2d import direct_conv2d
from vdla.compiler.te.ops.gemm_convolution import gemm_convolution
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.columns import ESTIMATE
from vdla.compiler.templates.gpu import conv2d_direct
from vdla.compiler.templates.gpu.direct_cost import Knobs
from vdla.compiler.templates.gpu.lower_convolutions import lower_convolution, lower_direct_conv2d
from vdla.compiler.templates.gpu.lowered import LoweredCudaNode
from vdla.compiler.templates.gpu.workload import CudaWorkload

TARGET = cuda_target()

KNOBS = st.builds(
    Knobs,
    threads_z=st.sampled_from([1, 2, 3]),
    threads_y=st.sampled_from([1, 2, 3]),
    threads_x=st.sampled_from([4, 5, 8]),
    filters=st.sampled_from([1, 2, 3, 4]),
    rows=st.sampled_from([1, 2]),
    columns=st.sampled_from([1, 2, 3]),
    channels=st.sampled_from([1, 2, 3, 8]),
    stages=st.sampled_from([1, 2, 3]),
)


def lowered_alone(net: FloatNetwork, knobs: Knobs | None = None) -> LoweredCudaNode:
    graph = gpu_graph(net.model())
    (node,) = graph.nodes
    assert isinstance(node.operator, Convolution)
    if knobs is None:
        return lower_convolution(TARGET, graph, node, node.operator)
    lowered = lower_direct_conv2d(graph, node, node.operator)
    return replace(lowered, schedule=lambda t: conv2d_direct.schedule(t, lowered.program, knobs))


def integers(program: Program) -> dict[str, np.ndarray]:
    """Random input arrays of small integers, so that sums are exact in any order."""
    rng = np.random.default_rng(1)
    return {p.name: rng.integers(-4, 5, p.shape).astype(np.float32) for p in program.parameters[:-1]}


@settings(max_examples=examples(8), deadline=None)
@given(
    data=st.data(),
    batch=st.integers(1, 2),
    channels=st.sampled_from([1, 3, 8]),
    size=st.tuples(st.integers(1, 11), st.integers(1, 11)),
    knobs=KNOBS,
)
def test_any_window(data, batch, channels, size, knobs) -> None:
    net = FloatNetwork(batch, channels, *size)
    step: dict[str, Any] = data.draw(convolution_step(channels, *size))
    net.convolution(step.pop("filters"), step.pop("kernel"), **{**step, "group": 1})
    lowered = lowered_alone(net, knobs)
    x = np.random.default_rng(0).standard_normal(net.input_shape).astype(np.float32)
    (data_name,) = [p for p, name in lowered.tensors.items() if p != "Y"]
    s = lowered.schedule(TARGET)
    found = run_scheduled(lowered.program, s, {data_name: x, **lowered.constants}, native=True)
    (expected,) = runtime(net.model(), {"x": x}).values()
    assert relative(found.reshape(expected.shape), expected) < 1e-5


def test_epilogues_agree_with_the_expression() -> None:
    program = direct_conv2d(
        Shape(
            batch=2,
            channels=3,
            height=9,
            width=10,
            filters=5,
            window=Window(kernel=(3, 2), strides=(2, 1), pads=(1, 0, 2, 1), dilations=(1, 2)),
        ),
        epilogue=Epilogue(bias=True, operand=True, activation="clip", high=40.0),
    )
    arrays = integers(program)
    knobs = Knobs(threads_z=2, threads_y=2, threads_x=8, filters=2, rows=1, columns=2, channels=2, stages=2)
    s = conv2d_direct.schedule(TARGET, program, knobs)
    # Interpreted, with undefined memory poisoned.
    found = run_scheduled(program, s, arrays)
    x = np.pad(arrays["X"], ((0, 0), (0, 0), (1, 2), (0, 1))).astype(np.float64)
    oh, ow = program.parameters[-1].shape[2:]
    total = np.zeros(program.parameters[-1].shape)
    for kh in range(3):
        for kw in range(2):
            part = x[:, :, kh : kh + 2 * oh - 1 : 2, 2 * kw : 2 * kw + ow]
            total += np.einsum("nchw,cf->nfhw", part, arrays["W"][:, kh * 2 + kw].astype(np.float64))
    total = np.clip(total + arrays["B"][None, :, None, None] + arrays["R"], 0, 40)
    np.testing.assert_array_equal(found, total)


def layer(
    size: int,
    channels: int,
    filters: int,
    kernel: int,
    stride: int,
    pad: int,
    epilogue: Epilogue | None = None,
) -> Program:
    window = Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(pad, pad, pad, pad))
    shape = Shape(batch=1, channels=channels, height=size, width=size, filters=filters, window=window)
    return direct_conv2d(shape, epilogue=epilogue)


def test_its_text_runs_on_the_host() -> None:
    program = layer(18, 3, 6, 5, 2, 2, epilogue=Epilogue(bias=True, activation="relu"))
    knobs = Knobs(threads_z=2, threads_y=2, threads_x=8, filters=4, rows=2, columns=1, channels=1, stages=2)
    s = conv2d_direct.schedule(TARGET, program, knobs)
    agree([Case(name="direct", program=program, schedule=s)], TARGET, orders=2)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_compiles_with_its_defaults(arch) -> None:
    target = cuda_target(arch)
    program = layer(28, 4, 32, 8, 4, 0, epilogue=Epilogue(bias=True, activation="relu"))
    module = lower(prepare(conv2d_direct.schedule(target, program).program, target), target, name="conv")
    assert compile_cubin(module.source, arch)


SIZES = {
    "C1": (224, 3, 64, 7, 2, 3),
    "DQN 1": (84, 4, 32, 8, 4, 0),
    "generator": (128, 64, 3, 7, 1, 3),
}
OTHERS = {"C2": (56, 64, 64, 3, 1, 1), "C6": (28, 128, 128, 3, 1, 1), "C12": (7, 512, 512, 3, 1, 1)}


@pytest.mark.parametrize("name", SIZES | OTHERS)
def test_direct_convolution_is_chosen_where_it_is_faster(name) -> None:
    sizes = (SIZES | OTHERS)[name]
    program = layer(*sizes)
    assert conv2d_direct.is_faster(TARGET, program) == (name in SIZES)
    assert not conv2d_direct.is_faster(cuda_target(tensor_float=True), program)
    knobs = conv2d_direct.choose_knobs(TARGET, program)
    prepare(conv2d_direct.schedule(TARGET, program, knobs).program, TARGET)


def test_networks_get_it_by_default() -> None:
    net = FloatNetwork(1, 3, 64, 64)
    net.convolution(8, (7, 7), strides=[2, 2], pads=[3, 3, 3, 3])
    net.add("HardSwish")
    model = net.model()
    graph = gpu_graph(model)
    (node,) = graph.nodes
    assert isinstance(node.operator, Convolution)
    assert lower_convolution(TARGET, graph, node, node.operator).program.name == "direct_conv2d"
    feeds = {"x": np.random.default_rng(0).standard_normal(net.input_shape).astype(np.float32)}
    expected = runtime(model, feeds)

    def execute(program, arrays):
        written = {p.name: np.zeros(p.shape, np.float32) for p in program.parameters if p.name not in arrays}
        return emulated(prepare(program, TARGET), {**arrays, **written})

    for name, found in run_nodes(graph, feeds, execute).items():
        assert relative(found, expected[name]) < 1e-5


def test_unfit_convolutions_and_knobs_are_refused() -> None:
    knobs = Knobs(threads_z=1, threads_y=1, threads_x=32, filters=1, rows=1, columns=1, channels=1)
    net = FloatNetwork(1, 4, 5, 5)
    net.convolution(4, (3, 3), group=2)
    with pytest.raises(ValueError, match="one group, not 2"):
        lowered_alone(net, knobs)
    product = gemm_convolution(
        Shape(batch=1, channels=2, height=5, width=5, filters=2, window=Window(kernel=(3, 3)))
    )
    with pytest.raises(ValueError, match="not a direct convolution"):
        conv2d_direct.schedule(TARGET, product, knobs)


def test_points_of_the_space() -> None:
    program = layer(12, 3, 10, 3, 1, 1)
    tuned, workload = conv2d_direct.TUNED, CudaWorkload(template="conv2d_direct_cuda", expression=program)
    space, default = tuned.space(TARGET, workload), tuned.default(TARGET, workload)
    assert tuned.knobs_at(workload, default) == conv2d_direct.choose_knobs(TARGET, program)
    points = np.concatenate([space.point(default)[None], space.sample(np.random.default_rng(0), 3)])
    found = space.cost(space.columns(points))
    assert space.allowed(found).all() and (found.quantities[ESTIMATE] >= found.bound).all()
    arrays = integers(program)
    results = []
    for i, point in enumerate(points):
        knobs = tuned.knobs_at(workload, space.values(point))
        s = conv2d_direct.schedule(TARGET, program, knobs)
        results.append(run_scheduled(program, s, arrays, native=True))
        np.testing.assert_array_equal(results[i], results[0])

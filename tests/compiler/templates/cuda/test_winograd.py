"""Winograd convolutions on a GPU: exact transform matrices, emulated kernels against exact sums, fused epilogues, and
when they are chosen.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from campaign import representatives
from cuda_networks import emulated, gpu_graph, run_nodes
from cuda_on_host.agreement import Case, agree
from float_networks import FloatNetwork, relative, runtime

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.cuda.tolerances import tolerance, winograd_amplification
from vdla.compiler.graph.operators import Convolution
from vdla.compiler.ir.expr import Const
from vdla.compiler.ir.named_nodes import find_loop
from vdla.compiler.schedule import replay, trace_from_lists, trace_to_lists
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops import winograd as winograd_operator
from vdla.compiler.te.ops.convolution import Convolution as Shape
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.te.ops.winograd import toom_cook, transformed_weights, transforms, winograd_conv2d
from vdla.compiler.templates.gpu import conv2d, winograd
from vdla.compiler.templates.gpu.lower_convolutions import lower_conv2d, lower_convolution, lower_winograd
from vdla.compiler.templates.gpu.tile import Tile
from vdla.compiler.templates.gpu.workload import CudaWorkload

TARGET = cuda_target()
SMALL = Tile(rows=16, columns=16, depth=4, thread_rows=4, thread_columns=4)
SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))


@pytest.mark.parametrize(
    ("m", "taps", "points"), [(2, 3, (0, 1, -1)), (4, 3, (0, 1, -1, 2, -2)), (3, 2, (0, Fraction(1, 3), -5))]
)
def test_matrices_are_exact(m, taps, points) -> None:
    found = toom_cook(m, taps, [Fraction(point) for point in points])
    n = m + taps - 1
    for i in range(m):
        for tap in range(taps):
            for place in range(n):
                terms = [
                    found.outputs[i][j] * found.weights[j][tap] * found.inputs[j][place] for j in range(n)
                ]
                assert sum(terms) == (place == i + tap)


def test_points_are_different_and_enough() -> None:
    for points in ((0, 1), (0, 1, 1)):
        with pytest.raises(ValueError, match="3 different interpolation points"):
            toom_cook(2, 3, [Fraction(point) for point in points])
    with pytest.raises(ValueError, match="have 2 or 4 outputs, not 3"):
        transforms(3)


@pytest.mark.parametrize("m", [2, 4])
def test_factors_of_transforms_are_exact_in_float32(m) -> None:
    found = transforms(m)
    for row in (*found.outputs, *found.inputs):
        for value in row:
            assert Fraction(float(np.float32(float(value)))) == value


@pytest.mark.parametrize("m", [2, 4])
def test_weights_are_transformed_in_parts(m, monkeypatch) -> None:
    weights = np.random.default_rng(m).standard_normal((5, 7, 3, 3)).astype(np.float32)
    g = np.array([[float(value) for value in row] for row in transforms(m).weights])
    expected = np.einsum("ik,fckl,jl->ijcf", g, weights.astype(np.float64), g).reshape(-1, 7, 5)
    whole = transformed_weights(weights, m)
    assert np.abs(whole - expected).max() <= np.abs(expected).max() * np.finfo(np.float32).eps
    monkeypatch.setattr(winograd_operator, "PART", 10)
    assert np.array_equal(transformed_weights(weights, m), whole)


def convolved(x: np.ndarray, w: np.ndarray, window: Window) -> np.ndarray:
    """The exact 3x3 convolution of x [N, C, H, W] with w [F, C, 3, 3], in float64."""
    top, left, bottom, right = window.pads
    oh, ow = window.outputs(*x.shape[2:])
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    total = np.zeros((len(x), len(w), oh, ow))
    for y in range(3):
        for column in range(3):
            part = padded[:, :, y : y + oh, column : column + ow]
            total += np.einsum("nchw,fc->nfhw", part, w[:, :, y, column].astype(np.float64))
    return total


@pytest.mark.parametrize(
    ("m", "batch", "channels", "size", "filters", "pads", "tile"),
    [
        (2, 2, 5, (7, 9), 6, (1, 1, 1, 1), SMALL),
        (2, 1, 8, (6, 8), 3, (1, 1, 1, 1), None),
        (
            4,
            1,
            16,
            (9, 7),
            20,
            (0, 2, 1, 0),
            Tile(rows=8, columns=32, depth=8, thread_rows=2, thread_columns=4, splits=2),
        ),
        (4, 3, 1, (3, 3), 1, (0, 0, 0, 0), SMALL),
        (4, 2, 6, (8, 12), 17, (1, 1, 1, 1), None),
    ],
)
def test_kernels(m, batch, channels, size, filters, pads, tile) -> None:
    window = Window(kernel=(3, 3), pads=pads)
    program = winograd_conv2d(
        Shape(batch=batch, channels=channels, height=size[0], width=size[1], filters=filters, window=window),
        m,
    )
    schedule = winograd.schedule(TARGET, program, winograd.Knobs(m=m, tile=tile))
    assert replay(program, trace_from_lists(trace_to_lists(schedule.trace))).program == schedule.program
    rng = np.random.default_rng(m)
    x = rng.standard_normal((batch, channels, *size)).astype(np.float32)
    w = rng.standard_normal((filters, channels, 3, 3)).astype(np.float32)
    arrays = pack_arrays(schedule.trace, {"W": transformed_weights(w, m)})
    found = emulated(schedule.program, {"X": x, **arrays})["Y"].astype(np.float64)
    expected = convolved(x, w, window)
    assert relative(found, expected) < winograd.rounding(channels, m)


def network() -> FloatNetwork:
    net = FloatNetwork(2, 6, 7, 9)
    net.convolution(6, (3, 3), pads=[1, 1, 1, 1])
    first = net.add("Relu")
    net.convolution(6, (3, 3), pads=[1, 1, 1, 1], bias=False)
    net.batch_normalization(6)
    net.add("Add", first)
    net.add("HardSwish")
    net.convolution(5, (3, 3))
    net.add("Clip", net.constant(np.float32(0)), net.constant(np.float32(6)))
    return net


# Above, kernels of either size run; what is fused is the same.
@pytest.mark.parametrize("m", representatives([2, 4], 0, always=[4]))
def test_what_follows_is_fused(m, monkeypatch) -> None:
    monkeypatch.setattr(winograd, "choose", lambda *sizes: winograd.Knobs(m=m))
    model = network().model()
    graph = gpu_graph(model)
    assert sum(isinstance(node.operator, Convolution) for node in graph.nodes) == 3 == len(graph.nodes)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 6, 7, 9)).astype(np.float32)}
    expected = runtime(model, feeds)
    for name, found in run_nodes(graph, feeds, emulated).items():
        assert relative(found, expected[name]) < 1e-5


def alone(
    window: dict, knobs: winograd.Knobs | None = None, channels: int = 16, size: int = 14, target=TARGET
):
    net = FloatNetwork(1, channels, size, size)
    net.convolution(**window)
    graph = gpu_graph(net.model())
    (node,) = graph.nodes
    assert isinstance(node.operator, Convolution)
    if knobs is not None:
        return lower_winograd(graph, node, node.operator, knobs)
    return lower_convolution(target, graph, node, node.operator)


@pytest.mark.parametrize(
    "window",
    [
        {"filters": 16, "kernel": (3, 3), "strides": [2, 2]},
        {"filters": 16, "kernel": (5, 5)},
        {"filters": 16, "kernel": (3, 3), "dilations": [2, 2]},
        {"filters": 16, "kernel": (3, 3), "group": 4},
    ],
)
def test_other_windows_are_refused(window) -> None:
    with pytest.raises(TypeError, match="needs 3 x 3 taps and stride 1"):
        alone(window, winograd.Knobs(m=2))


def test_compiles_for_every_architecture() -> None:
    for arch, m in (("sm_80", 2), ("sm_90", 4)):
        target = cuda_target(arch)
        lowered = alone(
            {"filters": 32, "kernel": (3, 3), "pads": [1, 1, 1, 1]}, winograd.Knobs(m=m), target=target
        )
        module = lower(prepare(lowered.schedule(target).program, target), target, name="convolution")
        assert len(module.launches) == 3
        assert compile_cubin(module.source, arch)


def test_text_on_the_host() -> None:
    epilogue = Epilogue(bias=True, operand=True, activation="relu")
    program = winograd_conv2d(
        Shape(batch=2, channels=5, height=7, width=6, filters=9, window=SAME), 4, epilogue=epilogue
    )
    schedule = winograd.schedule(TARGET, program, winograd.Knobs(m=4, tile=SMALL))
    agree([Case(name="winograd", program=program, schedule=schedule)], TARGET, orders=2)


# The choice


def test_default_is_no_less_exact_than_sums_of_all_taps() -> None:
    large = Shape(batch=16, channels=256, height=56, width=56, filters=256, window=SAME)
    chosen = winograd.choose(TARGET, large)
    # Tiles of four are faster still, and round too much.
    assert chosen is not None and chosen.m == 2
    assert winograd.rounding(256, 2) < tolerance("float32", 9 * 256) < winograd.rounding(256, 4)
    assert winograd.seconds_of(TARGET, large, 4)[0] < winograd.seconds_of(TARGET, large, 2)[0]
    assert winograd.choose(TARGET, large, [1e-6]) is None


def test_is_what_a_node_gets_without_knobs() -> None:
    lowered = alone({"filters": 256, "kernel": (3, 3), "pads": [1] * 4}, channels=256, size=56)
    assert lowered.program.name == "winograd"
    strided = {"filters": 256, "kernel": (3, 3), "pads": [1] * 4, "strides": [2, 1]}
    assert alone(strided, channels=256, size=56).program.name != "winograd"


def test_account_takes_what_conv2d_gathers() -> None:
    sizes = Shape(batch=1, channels=6, height=9, width=8, filters=20, window=SAME)
    net = FloatNetwork(1, 6, 9, 8)
    net.convolution(20, (3, 3), pads=[1] * 4)
    graph = gpu_graph(net.model())
    (node,) = graph.nodes
    assert isinstance(node.operator, Convolution)
    program = lower_conv2d(TARGET, graph, node, node.operator).program
    assert conv2d.problem_of(program) == winograd.gathered(sizes)


def test_is_not_chosen_where_transforms_cost_too_much() -> None:
    for sizes in (
        Shape(batch=1, channels=3, height=224, width=224, filters=64, window=SAME),
        Shape(batch=1, channels=96, height=9, width=9, filters=96, window=SAME),
        # Gigabytes between its kernels.
        Shape(batch=64, channels=256, height=56, width=56, filters=256, window=SAME),
    ):
        assert winograd.choose(TARGET, sizes) is None
    tensor_cores = cuda_target(tensor_float=True)
    large = Shape(batch=16, channels=256, height=56, width=56, filters=256, window=SAME)
    assert winograd.choose(tensor_cores, large) is None


def test_points_amplify_roundings() -> None:
    def factor(*points: float) -> float:
        found = toom_cook(len(points) - 1, 3, [Fraction(point) for point in points])
        return winograd_amplification(found.outputs, found.weights, found.inputs)

    assert factor(0, 1, -1) == pytest.approx(5 / 3)
    assert factor(0, 1, -1, 2, -2) == pytest.approx(283 / 9)
    assert factor(0, 1, -1, 0.5, -2) == pytest.approx(94 / 9)


def test_rows_are_vectors_where_tiles_are_whole() -> None:
    for width, kind in ((8, "vectorize"), (9, "unroll")):
        program = winograd_conv2d(
            Shape(batch=1, channels=4, height=8, width=width, filters=4, window=SAME), 4
        )
        loop = find_loop(winograd.schedule(TARGET, program, winograd.Knobs(m=4, tile=SMALL)).program, "x")
        assert loop.kind == kind and (loop.extent == Const(4)) == (width == 8)


@pytest.mark.parametrize("m", [2, 4])
def test_points_of_the_space(m: int) -> None:
    sizes = Shape(batch=1, channels=8, height=9, width=8, filters=20, window=SAME)
    program = winograd_conv2d(sizes, m)
    tuned, workload = winograd.TUNED, CudaWorkload(template="winograd_cuda", expression=program)
    space, default = tuned.space(TARGET, workload), tuned.default(TARGET, workload)
    seconds, tile = winograd.seconds_of(TARGET, sizes, m)
    assert tuned.knobs_at(workload, default) == tile
    point = space.point(default)[None]
    found = space.cost(space.columns(point))
    assert space.allowed(found).all()
    transformed = winograd.transform_seconds(TARGET, sizes, m)
    assert found.quantities["estimate"][0] == pytest.approx(seconds - transformed)
    for point in space.sample(np.random.default_rng(0), 2):
        knobs = winograd.Knobs(m=m, tile=tuned.knobs_at(workload, space.values(point)))
        prepare(winograd.schedule(TARGET, program, knobs).program, TARGET)

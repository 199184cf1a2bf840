"""Fusion in float graphs: the nodes that remain after each rule, and equal results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from campaign import examples
from float_networks import FloatNetwork, inferred_shape, reference, relative, runtime
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.printer import format_graph
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.rewrites.floating.pipeline import graph_passes, run_graph_passes

LANES = 16


def fused(net: FloatNetwork) -> Graph:
    net.shape = inferred_shape(net)
    return run_graph_passes(import_float_model(net.model()), graph_passes(LANES))


def kernels(graph: Graph) -> list[tuple[str, str]]:
    """The nodes that compute: (operator, names of its fused ONNX nodes) of all nodes except changes of shape and
    layout.
    """
    named = [(type(node.operator).__name__, " ".join(node.members)) for node in graph.nodes]
    return [pair for pair in named if pair[0] not in ("Reshape", "Relayout")]


def agree(net: FloatNetwork, x: np.ndarray | None = None, peers=(runtime, reference), **options) -> None:
    net.shape = inferred_shape(net)
    if x is None:
        x = np.random.default_rng(0).standard_normal(net.input_shape, dtype=np.float32)
    got = compile_kernels(net.model(), cpu_now(), **options).run({"x": x})[net.last]
    for peer in peers:
        with np.errstate(all="ignore"):
            expected = peer(net.model(), {"x": x})[net.last]
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(got[~finite], expected[~finite])
        assert relative(np.where(finite, got, 0), np.where(finite, expected, 0)) <= 1e-5


def axes_of(net: FloatNetwork, *axes: int) -> str:
    return net.constant(np.array(axes, np.int64))


def number(net: FloatNetwork, value: float) -> str:
    return net.constant(np.float32(value))


def residual_with_channels() -> FloatNetwork:
    """A network of a convolution, into whose epilogue all following nodes are fused: a residual, a factor for each
    channel, a difference for each pixel, a function.
    """
    net = FloatNetwork(2, 19, 5, 6)
    net.convolution(19, (3, 3), pads=[1] * 4)
    net.add("Relu")
    net.add("Add", "x")
    net.add("Mul", net.weights(19, 1, 1))
    net.add("Sub", net.weights(5, 6))
    net.add("Tanh")
    return net


def depthwise_and_transposed() -> FloatNetwork:
    net = FloatNetwork(1, 8, 4, 5)
    net.convolution(8, (3, 3), group=8, pads=[1] * 4)
    net.add("Clip", number(net, 0.0), number(net, 0.5))
    net.add("ConvTranspose", net.weights(8, 19, 2, 2, deviation=0.3), strides=[2, 2])
    net.add("LeakyRelu", alpha=0.2)
    net.add("Add", net.weights(1, 19, 1, 1))
    return net


def attention() -> FloatNetwork:
    net = FloatNetwork(2, 3, 7, 16)
    transposed = net.add("Transpose", perm=[0, 1, 3, 2])
    net.add("MatMul", inputs=["x", transposed])
    net.add("Mul", number(net, 0.25))
    net.add("Add", net.weights(2, 1, 7, 7))
    net.add("Softmax", axis=-1)
    net.add("Mul", net.weights(7))
    net.add("MatMul", "x")
    net.add("Relu")
    return net


def bias_and_gelu_behind_rows() -> FloatNetwork:
    """A network of a matrix product of a three-dimensional tensor, a bias, and a GELU that is written as five separate
    operators (Div, Erf, Add, Mul, Mul). Two of these operators read the sum of product and bias.
    """
    net = FloatNetwork(2, 5, 12)
    net.add("MatMul", net.weights(12, 21, deviation=0.3))
    x = net.add("Add", net.weights(21))
    net.add("Div", number(net, 2**0.5))
    net.add("Erf")
    net.add("Add", number(net, 1.0))
    net.add("Mul", x)
    net.add("Mul", number(net, 0.5))
    return net


def layer_normalization() -> FloatNetwork:
    net = FloatNetwork(3, 5, 37)
    mean = net.add("ReduceMean", axes=[-1])
    distance = net.add("Sub", inputs=["x", mean])
    net.add("Pow", number(net, 2.0))
    net.add("ReduceMean", axes=[-1])
    net.add("Add", number(net, 1e-5))
    deviation = net.add("Sqrt")
    net.add("Div", inputs=[distance, deviation])
    net.add("Mul", net.weights(37))
    net.add("Add", net.weights(37))
    return net


def reductions() -> FloatNetwork:
    net = FloatNetwork(3, 5, 4, 7)
    net.add("Sigmoid")
    net.add("Mul", net.weights(5, 1, 1))
    net.add("ReduceSum", axes_of(net, 0, 2), keepdims=0)
    net.add("Mul", net.weights(5, 1))
    net.add("ReduceMax", axes=[1])
    net.add("Exp")
    return net


def pools() -> FloatNetwork:
    net = FloatNetwork(1, 19, 6, 8)
    net.convolution(19, (1, 1))
    net.add("MaxPool", kernel_shape=[3, 3], pads=[1] * 4)
    pooled = net.add("Sigmoid")
    net.add("GlobalAveragePool")
    net.add("Mul", net.weights(19, 1, 1))
    net.add("HardSigmoid")
    net.add("Mul", inputs=[pooled, net.last])
    net.add("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    return net


def moves() -> FloatNetwork:
    net = FloatNetwork(2, 5, 6, 7)
    net.add("Sigmoid")
    net.add("Pad", axes_of(net, 0, 0, 1, 1, 0, 0, 1, 1))
    net.add("Neg")
    before = net.last
    net.add("Concat", before, axis=1)
    net.add("Exp")
    net.add("Transpose", perm=[0, 2, 3, 1])
    net.add("Mul", number(net, 0.5))
    net.add("Relu")
    net.add("Gather", axes_of(net, 2, 0, 3), axis=1)
    net.add("Tanh")
    return net


def gates() -> FloatNetwork:
    """A network of the gates of an LSTM cell, computed from slices of one row. The slices are views, so that everything
    is fused into one kernel.
    """
    net = FloatNetwork(1, 64)
    parts = []
    for start, function in zip(range(0, 64, 16), ("Sigmoid", "Sigmoid", "Tanh", "Sigmoid"), strict=True):
        bounds = [axes_of(net, start), axes_of(net, start + 16), axes_of(net, 1)]
        sliced = net.add("Slice", inputs=["x", *bounds])
        parts.append(net.add(function, inputs=[sliced]))
    net.add("Mul", inputs=[parts[0], parts[2]])
    net.add("Mul", parts[1])
    net.add("Tanh")
    net.add("Mul", parts[3])
    return net


CASES: list[tuple[Callable[[], FloatNetwork], list[tuple[str, str]]]] = [
    (residual_with_channels, [("Convolution", "n0 n1 n2 n3 n4 n5")]),
    (depthwise_and_transposed, [("Convolution", "n0 n1"), ("Convolution", "n2 n3 n4")]),
    (
        attention,
        [
            ("Permute", "n0"),
            ("MatrixProduct", "n1 n2 n3"),
            ("Softmax", "n4 n5"),
            ("MatrixProduct", "n6 n7"),
        ],
    ),
    (bias_and_gelu_behind_rows, [("Dense", "n0 n1 n2 n3 n4 n5 n6")]),
    (
        layer_normalization,
        [("Reduction", "n0"), ("Reduction", "n1 n2 n3 n4 n5"), ("Elementwise", "n1 n6 n7 n8")],
    ),
    (reductions, [("Reduction", "n0 n1 n2 n3"), ("Reduction", "n4 n5")]),
    (
        pools,
        [
            ("Convolution", "n0"),
            ("MaxPool", "n1 n2"),
            ("AveragePool", "n3 n4 n5"),
            ("AveragePool", "n6 n7"),
        ],
    ),
    (
        moves,
        [
            ("Remap", "n0 n1 n2"),
            ("Concatenate", "n3 n4"),
            ("Permute", "n5 n6 n7"),
            ("Gather", "n8 n9"),
        ],
    ),
    (gates, [("Elementwise", "n7 n3 n1 n5 n8 n9 n10 n11")]),
]


@pytest.mark.parametrize(("build", "left"), CASES, ids=[build.__name__ for build, _ in CASES])
def test_what_is_left_and_what_it_computes(build, left) -> None:
    net = build()
    assert kernels(fused(net)) == left
    agree(net)


def test_without_fusion_every_operator_is_a_kernel() -> None:
    net = FloatNetwork(1, 16, 4, 4)
    net.convolution(16, (1, 1))
    net.batch_normalization(16)
    net.add("Relu")
    net.add("Add", number(net, 1.0))
    network = compile_kernels(net.model(), cpu_now(), fusion=False)
    assert [launch.members for launch in network.launches if launch.members] == [
        ("n0",),
        ("n1",),
        ("n2",),
        ("n3",),
    ]
    agree(net, fusion=False)


def test_a_second_reader_of_what_costs_something_keeps_it() -> None:
    net = FloatNetwork(4, 40)
    values = net.add("Exp")
    net.add("ReduceSum", axes_of(net, -1))
    net.add("Div", inputs=[values, net.last])
    assert [members for _, members in kernels(fused(net))] == ["n0", "n1", "n2"]


def test_indices_are_read_under_decisions_of_lanes() -> None:
    net = FloatNetwork(2, 3, 9)
    net.add("LeakyRelu")
    net.add("Gather", net.constant(np.array([2, 0, -1, 2])), axis=1)
    agree(net)


def test_an_operand_that_a_kernel_cannot_broadcast_stays_outside() -> None:
    """An operand that differs by row but not by column is not fused into a convolution: the convolution's epilogue has
    one loop over all positions.
    """
    net = FloatNetwork(1, 8, 4, 4)
    net.convolution(8, (1, 1))
    net.add("Mul", net.weights(4, 1))
    net.add("Relu")
    assert kernels(fused(net)) == [("Convolution", "n0"), ("Elementwise", "n1 n2")]
    agree(net)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("views", [1, 2])
def test_two_shapes_draw_an_operator_to_one_side(views, swapped) -> None:
    """The sum could be fused with either of the two operators before it, which have different shapes: each argument of
    the sum can be viewed in the shape of the other. The rewrite must not alternate between the two shapes for ever.
    `views`: how many of the arguments are views; `swapped`: the arguments are exchanged.
    """
    net = FloatNetwork(1, 4, 6, 6)

    def view(name: str, *shape: int) -> str:
        return net.add("Reshape", inputs=[name, axes_of(net, *shape)])

    first = net.add("Softmax", axis=1)
    second = net.add("Softmax", inputs=[view("x", 1, 12, 12)], axis=1)
    if views == 1:
        arguments = [view(first, 1, 12, 12), second]
    else:
        arguments = [view(first, 1, 36, 4), view(second, 1, 36, 4)]
    net.add("Add", inputs=arguments[::-1] if swapped else arguments)
    net.add("Sigmoid")
    assert [operator for operator, _ in kernels(fused(net))] == ["Softmax", "Softmax"]
    agree(net)


@pytest.mark.parametrize("steps", [["Mul"], ["Div", "Add"], ["Sub", "Mul"], ["Mul", "BN", "Add"]])
@pytest.mark.parametrize("behind", ["convolution", "product"])
def test_constants_of_channels_go_into_the_weights_before_them(steps, behind) -> None:
    net = FloatNetwork(2, 6, 4, 4) if behind == "convolution" else FloatNetwork(2, 6)
    if behind == "convolution":
        net.convolution(10, (3, 3), group=2)
    else:
        net.add("Gemm", net.weights(6, 10), net.weights(10))
    channels = (10, 1, 1) if behind == "convolution" else (10,)
    for step in steps:
        if step == "BN":
            net.batch_normalization(10)
        else:
            net.add(step, net.weights(*channels))
    graph = fused(net)
    (node,) = (node for node in graph.nodes if node.members)
    assert node.result is None and len(node.members) == 1 + len(steps)
    agree(net)


def test_constants_before_a_sum_go_into_its_weights_unless_they_shift() -> None:
    net = FloatNetwork(1, 6, 4, 4)
    net.add("Mul", net.weights(6, 1, 1))
    net.convolution(4, (3, 3), group=2, pads=[1] * 4)
    assert kernels(fused(net)) == [("Convolution", "n0 n1")]
    agree(net)
    net = FloatNetwork(1, 6, 4, 4)
    net.add("Add", net.weights(6, 1, 1))
    net.convolution(4, (3, 3), pads=[1] * 4)
    assert kernels(fused(net)) == [("Elementwise", "n0"), ("Convolution", "n1")]


def test_constants_that_would_leave_no_finite_weights_stay() -> None:
    net = FloatNetwork(1, 3, 4, 4)
    net.convolution(2, (1, 1))
    net.add("Div", net.constant(np.array([0.0, 2.0], np.float32).reshape(2, 1, 1)))
    (node,) = (node for node in fused(net).nodes if node.members)
    assert node.result is not None
    agree(net)


@pytest.mark.parametrize("build", [residual_with_channels, attention, reductions, moves])
def test_infinities_and_nan_pass_through(build) -> None:
    net = build()
    x = np.random.default_rng(1).standard_normal(net.input_shape, dtype=np.float32)
    x.reshape(-1)[[3, 40, 71]] = np.nan, np.inf, -np.inf
    # ONNX Runtime's ReduceMax loses NaN, depending on where it stands.
    agree(net, x, peers=(reference,))


def test_dumps_show_what_is_fused() -> None:
    text = format_graph(fused(reductions()))
    assert "with data [" in text and "with result [" in text


@st.composite
def chains(draw) -> FloatNetwork:
    """A random network of element-wise functions between all kinds of operators with which they may be fused; operands
    broadcast in all ways.
    """
    rank = draw(st.sampled_from([2, 3, 4]))
    net = FloatNetwork(*[draw(st.integers(1, 6)) for _ in range(rank)], seed=draw(st.integers(0, 99)))
    earlier = [("x", net.shape)]
    for _ in range(draw(st.integers(2, 9))):
        shape = net.shape
        kinds = ["function", "function", "operand", "operand", "earlier", "reduce", "transpose", "reshape"]
        kinds += ["pad", "slice", "concat", "softmax", "product"]
        kinds += ["convolution", "pool", "global"] if len(shape) == 4 else []
        match draw(st.sampled_from(kinds)):
            case "function":
                net.add(draw(st.sampled_from(["Relu", "Sigmoid", "Tanh", "Neg"])))
            case "operand":
                sizes = [draw(st.sampled_from([1, size])) for size in shape]
                cut = draw(st.integers(0, len(shape)))
                net.add(draw(st.sampled_from(["Add", "Mul", "Sub", "Max"])), net.weights(*sizes[cut:]))
            case "earlier":
                net.add("Add", draw(st.sampled_from([name for name, size in earlier if size == shape])))
            case "reduce":
                axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape) - 1))
                kind = draw(st.sampled_from(["ReduceMean", "ReduceMax"]))
                net.add(kind, axes=sorted(axes), keepdims=draw(st.integers(int(len(shape) < 4), 1)))
            case "transpose":
                net.add("Transpose", perm=draw(st.permutations(range(len(shape)))))
            case "reshape":
                at = draw(st.integers(0, len(shape) - 2))
                merged = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
                net.add("Reshape", axes_of(net, *(merged if len(merged) > 1 else (1, *merged))))
            case "pad":
                net.add("Pad", axes_of(net, *[draw(st.integers(0, 1)) for _ in range(2 * len(shape))]))
            case "slice":
                axis = draw(st.integers(0, len(shape) - 1))
                start = draw(st.integers(0, shape[axis] - 1))
                net.add("Slice", axes_of(net, start), axes_of(net, shape[axis]), axes_of(net, axis))
            case "concat":
                net.add("Concat", net.last, axis=draw(st.integers(0, len(shape) - 1)))
            case "softmax":
                net.add("Softmax", axis=draw(st.integers(0, len(shape) - 1)))
            case "product":
                batches = draw(st.sampled_from([(), shape[:-2]]))
                net.add("MatMul", net.weights(*batches, shape[-1], draw(st.integers(1, 20)), deviation=0.5))
            case "convolution":
                net.convolution(draw(st.integers(1, 20)), (1, 1), group=1)
            case "pool":
                net.add("MaxPool", kernel_shape=[1, 1], strides=[1, 1])
            case "global":
                net.add("GlobalAveragePool")
        net.shape = inferred_shape(net)
        if len(net.shape) < 2:
            net.add("Reshape", axes_of(net, 1, -1))
            net.shape = inferred_shape(net)
        earlier.append((net.last, net.shape))
    return net


@settings(max_examples=examples(12), deadline=None)
@given(net=chains())
def test_random_chains_match_the_runtime(net) -> None:
    agree(net)

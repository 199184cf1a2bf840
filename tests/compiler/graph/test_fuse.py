"""Fusion of integer graphs: which nodes are fused, which must not be, and bit-equal results."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.graph import Graph, GraphInput, GraphOutput, Node, quantized_tensor
from vdla.compiler.graph.int8_convolution import Int8Convolution, Quantization
from vdla.compiler.graph.int8_operators import Int8AveragePool, Int8Elementwise, Int8MaxPool, Int8Operator
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.ir.types import DType
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.rewrites.fuse_pairs import fuse_pool
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.post import Post


def shape_of(graph):
    return [(node.kind, node.members) for node in graph.nodes]


def rescaled_convolution(b):
    """Adds a convolution whose output is quantized, then a ReLU that is quantized with another scale; returns the name
    of the ReLU's dequantized output.
    """
    data = b.pair("x", 0.02, np.int8(3))
    b.node("Conv", [data, b.weight("w", 4, 3, 3, 3)], "c")
    b.node("Relu", [b.pair("c", 0.05, np.int8(-7))], "r")
    return b.pair("r", 0.03, np.int8(-100))


def test_convolution_takes_kept_relu_as_stage_b(builder, feed_of, fusion_exact, layers_against_runtime):
    b = builder(1, 3, 8, 8)
    output = rescaled_convolution(b)
    data = b.model(output).SerializeToString()
    graph = import_model(data)
    assert [type(node.operator) for node in graph.nodes] == [Int8Convolution, Int8Elementwise]
    (node,) = fuse(graph).nodes
    assert isinstance(node.operator, Int8Convolution) and node.members == ("node_c", "node_r")
    assert (
        node.operator.post.combination is not None
        and node.operator.post.combination.kind == "rescale"
        and node.operator.post.combination.low == -100
    )
    assert node.operator.post.zero_point == node.operator.post.combination.zero_point_self == -7
    assert max(layers_against_runtime(data, feed_of(data), False).values()) == 0
    fusion_exact(graph, feed_of(data))


def test_relu_with_the_same_scale_is_a_bound(graph_of_convolution):
    graph = graph_of_convolution(node_of("y", Int8Elementwise(combination=clamp(low=5)), "c"))
    (node,) = fuse(graph).nodes
    assert isinstance(node.operator, Int8Convolution) and node.operator.post.combination is None
    assert (node.operator.post.low, node.operator.post.high, node.output) == (5, 127, "y")
    assert_same(graph, fuse(graph))


def test_clamp_of_a_clamp_keeps_the_inner_bounds(graph_of_convolution):
    graph = graph_of_convolution(
        node_of("m", Int8Elementwise(combination=clamp(low=-20, high=30)), "c"),
        node_of("y", Int8Elementwise(combination=clamp(low=40, high=50)), "m"),
    )
    (node,) = fuse(graph).nodes
    assert isinstance(node.operator, Int8Convolution) and (
        node.operator.post.low,
        node.operator.post.high,
    ) == (40, 40)
    assert_same(graph, fuse(graph))


def clamp(low: int = -128, high: int = 127) -> Combination:
    return Combination(kind="rescale", ratio_self=1.0, low=low, high=high)


def node_of(output: str, operator: Int8Operator, *inputs: str) -> Node:
    return Node(name=output, members=(output,), operator=operator, inputs=inputs, output=output)


@pytest.fixture
def graph_of_convolution():
    """A function that makes a graph: a 1x1 convolution from `x` to `c`, followed by the given element-wise nodes; the
    last one makes the output.
    """

    def make(*rest) -> Graph:
        quantization = Quantization(scale=np.float32(1), zero_point=0, dtype="int8")
        rng = np.random.default_rng(1)
        convolution = Int8Convolution(
            weight=rng.integers(-128, 128, (4, 3, 1, 1)).astype(np.int8),
            bias=np.zeros(4, np.int32),
            scale=np.full(4, 0.01, np.float32),
            window=Window(kernel=(1, 1)),
            pad_value=0,
            post=Post(),
        )
        names = ["c", *(node.output for node in rest)]
        tensors = {name: quantized_tensor(name, (1, 4, 5, 5), quantization) for name in names}
        tensors["x"] = quantized_tensor("x", (1, 3, 5, 5), quantization)
        return Graph(
            name="g",
            inputs=(GraphInput(name="x", tensor="x", shape=(1, 3, 5, 5), dtype=DType.INT8),),
            outputs=(
                GraphOutput(
                    name="y",
                    tensor=names[-1],
                    shape=(1, 4, 5, 5),
                    dtype=DType.INT8,
                    quantization=quantization,
                ),
            ),
            nodes=(node_of("c", convolution, "x"), *rest),
            tensors=tensors,
        )

    return make


def assert_same(graph: Graph, other: Graph) -> None:
    feed = {"x": np.random.default_rng(7).integers(-128, 128, (1, 3, 5, 5)).astype(np.int8)}
    got, expected = interpret(other, feed), interpret(graph, feed)
    assert got.keys() == expected.keys()
    for name in got:
        np.testing.assert_array_equal(got[name], expected[name])


def residual(builder, first: str, second: str):
    """A model that adds a 3x3 branch `big` and a 1x1 branch `small`, in the order `first`, `second`, followed by a
    Relu.
    """
    b = builder(1, 4, 9, 9)
    b.conv("x", "big", 6, 4, 3, 3, pads=[1, 1, 1, 1])
    b.conv("x", "small", 6, 4, 1, 1)
    b.node("Add", [first, second], "s")
    b.node("Relu", ["s"], "y")
    return b.model("y")


@pytest.mark.parametrize(("first", "second"), [("big", "small"), ("small", "big")])
@pytest.mark.parametrize("form", ["qdq-u8-channel", "qdq-s8-symmetric", "qop-u8-channel"])
def test_sum_goes_to_the_convolution_with_more_multiplies(
    first, second, form, builder, quantized, feed_of, fusion_exact
):
    data = quantized(residual(builder, first, second), form)
    fused = fuse(import_model(data))
    taken = [
        node
        for node in fused.nodes
        if isinstance(node.operator, Int8Convolution) and node.operator.post.combination is not None
    ]
    assert len(taken) == 1 and taken[0].members[0].startswith("node_big")
    assert taken[0].operator.post.combination is not None and taken[0].operator.post.combination.kind == "add"
    assert taken[0].operator.post.combination.swap == (second == "big")
    for seed in range(3):
        fusion_exact(import_model(data), feed_of(data, seed))


def test_convolution_read_twice_keeps_its_tensor(builder, quantized, feed_of, fusion_exact):
    b = builder(1, 4, 6, 6)
    b.conv("x", "c1", 4, 4, 1, 1)
    b.node("Add", ["c1", "c1"], "s")
    b.conv("s", "y", 2, 4, 1, 1)
    data = quantized(b.model("y", "c1"), "qdq-u8-channel")
    fused = fuse(import_model(data))
    assert [type(node.operator) for node in fused.nodes] == [
        Int8Convolution,
        Int8Elementwise,
        Int8Convolution,
    ]
    fusion_exact(import_model(data), feed_of(data))


def test_max_pool_moves_before_rounding(builder, quantized, feed_of, fusion_exact):
    b = builder(1, 3, 11, 12)
    b.conv("x", "c", 5, 3, 3, 3)
    b.node("Relu", ["c"], "r")
    b.node("MaxPool", ["r"], "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    data = quantized(b.model("y"), "qdq-u8-channel")
    graph = import_model(data)
    assert [type(node.operator) for node in fuse(graph).nodes] == [Int8Convolution, Int8MaxPool]
    (node,) = fuse_pool(fuse(graph)).nodes
    assert (
        isinstance(node.operator, Int8Convolution)
        and node.operator.pool is not None
        and node.operator.pool.pads == (1, 1, 1, 1)
    )
    fusion_exact(graph, feed_of(data))


def test_max_pool_stays_after_stage_b(builder):
    b = builder(1, 3, 8, 8)
    b.node("MaxPool", [rescaled_convolution(b)], "y", kernel_shape=[2, 2], strides=[2, 2])
    graph = fuse(import_model(b.model("y").SerializeToString()))
    assert shape_of(fuse_pool(graph)) == shape_of(graph)
    assert [type(node.operator) for node in graph.nodes] == [Int8Convolution, Int8MaxPool]


def test_dead_nodes_vanish(builder, quantized):
    b = builder(1, 3, 8, 8)
    b.conv("x", "y", 4, 3, 3, 3)
    b.conv("x", "unused", 4, 3, 3, 3)
    b.node("Relu", ["unused"], "also_unused")
    data = quantized(b.model("y", "also_unused"), "qdq-s8-symmetric")
    model = onnx.load_from_string(data)
    del model.graph.output[1]
    graph = import_model(model.SerializeToString())
    fused = fuse(graph)
    assert len(graph.nodes) == 3 and len(fused.nodes) == 1
    assert set(fused.tensors) == {fused.inputs[0].tensor, fused.outputs[0].tensor}


def test_dense_on_the_model_input_is_flattened(builder, quantized, feed_of, fusion_exact):
    b = builder(2, 1, 4, 5)
    b.node("Flatten", ["x"], "f")
    b.node("Gemm", ["f", b.random("w", 7, 20), b.random("v", 7)], "y", transB=1)
    data = quantized(b.model("y"), "qdq-u8-channel")
    graph = import_model(data)
    node = fuse(graph).nodes[0]
    assert isinstance(node.operator, Int8Convolution) and node.operator.weight.shape == (7, 20, 1, 1)
    assert fuse(graph).inputs[0].shape == (2, 1, 4, 5)
    fusion_exact(graph, feed_of(data))


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_chains_of_stage_b_are_exact(seed):
    """Fusion does not change the results of random chains of element-wise nodes. The nodes have random kinds and
    constants, and follow or lie between convolutions. They are fused into stage B, the second half of the store
    pipeline.
    """
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    for rewritten in (fuse(graph), fuse_pool(fuse(graph))):
        assert_same(graph, rewritten)


def random_graph(rng: np.random.Generator) -> Graph:
    quantization = Quantization(scale=np.float32(1), zero_point=0, dtype="int8")
    nodes, live = [], ["x"]
    for index in range(int(rng.integers(2, 9))):
        output, data = f"t{index}", str(rng.choice(live))
        zero = int(rng.integers(-20, 20))
        low = int(rng.integers(-128, 0))
        if rng.random() < 0.5:
            operator: Int8Operator = Int8Convolution(
                weight=rng.integers(-128, 128, (3, 3, 1, 1)).astype(np.int8),
                bias=rng.integers(-999, 999, 3).astype(np.int32),
                scale=rng.uniform(0.001, 0.02, 3).astype(np.float32),
                window=Window(kernel=(1, 1)),
                pad_value=0,
                post=Post(zero_point=zero, low=low),
            )
            nodes.append(node_of(output, operator, data))
        else:
            kind = str(rng.choice(["add", "multiply", "rescale", "clamp"]))
            inputs = (data, str(rng.choice(live))) if kind in ("add", "multiply") else (data,)
            drawn = (rng.uniform(0.005, 1.5), rng.uniform(0.1, 1.5), rng.normal())
            ratio, other, offset = (float(np.float32(number)) for number in drawn)
            combination = Combination(
                kind="rescale" if kind == "clamp" else kind,  # type: ignore[arg-type]
                ratio_self=1.0 if kind == "clamp" else ratio,
                ratio_operand=other,
                offset=offset,
                zero_point_self=0 if kind == "clamp" else zero,
                zero_point_operand=int(rng.integers(-9, 9)),
                unsigned=bool(rng.integers(2)),
                low=low,
            )
            nodes.append(node_of(output, Int8Elementwise(combination=combination), *inputs))
        live.append(output)
    chosen = {live[-1], str(rng.choice(live[1:]))}
    tensors = {name: quantized_tensor(name, (1, 3, 5, 5), quantization) for name in live}
    return Graph(
        name="random",
        inputs=(GraphInput(name="x", tensor="x", shape=(1, 3, 5, 5), dtype=DType.INT8),),
        outputs=tuple(
            GraphOutput(
                name=name, tensor=name, shape=(1, 3, 5, 5), dtype=DType.INT8, quantization=quantization
            )
            for name in sorted(chosen)
        ),
        nodes=tuple(nodes),
        tensors=tensors,
    )


def test_average_pool_takes_a_clamp(builder, quantized, feed_of, fusion_exact):
    b = builder(1, 3, 8, 8)
    b.conv("x", "c", 4, 3, 1, 1)
    b.node("AveragePool", ["c"], "a", kernel_shape=[3, 3])
    b.node("Relu", ["a"], "y")
    data = quantized(b.model("y"), "qdq-u8-channel")
    fused = fuse(import_model(data))
    assert [type(node.operator) for node in fused.nodes] == [Int8Convolution, Int8AveragePool]
    fusion_exact(import_model(data), feed_of(data))

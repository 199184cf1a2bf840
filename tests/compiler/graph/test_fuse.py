"""Fusion: what is joined, what must not be, and that no bit changes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from vdla.compiler.graph.fuse import fuse, fuse_pool
from vdla.compiler.graph.graph import (
    AveragePool,
    Combine,
    Convolution,
    Elementwise,
    Graph,
    GraphInput,
    GraphOutput,
    MaxPool,
    Quantization,
    Requantize,
    Tensor,
)
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.onnx_import import import_model


def shape_of(graph):
    return [(type(node).__name__, node.members) for node in graph.nodes]


def rescaled_convolution(b):
    """A convolution with a quantization of its own, then a ReLU with another; returns the ReLU's float name."""
    data = b.pair("x", 0.02, np.int8(3))
    b.node("Conv", [data, b.weight("w", 4, 3, 3, 3)], "c")
    b.node("Relu", [b.pair("c", 0.05, np.int8(-7))], "r")
    return b.pair("r", 0.03, np.int8(-100))


def test_convolution_takes_kept_relu_as_stage_b(builder, feed_of, fusion_exact, layers_against_runtime):
    b = builder(1, 3, 8, 8)
    output = rescaled_convolution(b)
    data = b.model(output).SerializeToString()
    graph = import_model(data)
    assert [type(node) for node in graph.nodes] == [Convolution, Elementwise]
    (node,) = fuse(graph).nodes
    assert isinstance(node, Convolution) and node.members == ("node_c", "node_r")
    assert node.combine is not None and node.combine.kind == "rescale" and node.combine.low == -100
    assert node.requantize.zero_point == node.combine.zero_point_self == -7
    assert max(layers_against_runtime(data, feed_of(data), False).values()) == 0
    fusion_exact(graph, feed_of(data))


def test_relu_with_the_same_scale_is_a_bound(graph_of_convolution):
    graph = graph_of_convolution(
        Elementwise(name="relu", members=("relu",), a="c", b=None, output="y", combine=clamp(low=5))
    )
    (node,) = fuse(graph).nodes
    assert isinstance(node, Convolution) and node.combine is None
    assert (node.requantize.low, node.requantize.high, node.output) == (5, 127, "y")
    assert_same(graph, fuse(graph))


def test_clamp_of_a_clamp_keeps_the_inner_bounds(graph_of_convolution):
    graph = graph_of_convolution(
        Elementwise(name="a", members=("a",), a="c", b=None, output="m", combine=clamp(low=-20, high=30)),
        Elementwise(name="b", members=("b",), a="m", b=None, output="y", combine=clamp(low=40, high=50)),
    )
    (node,) = fuse(graph).nodes
    assert isinstance(node, Convolution) and (node.requantize.low, node.requantize.high) == (40, 40)
    assert_same(graph, fuse(graph))


def clamp(low: int = -128, high: int = 127) -> Combine:
    return Combine(kind="rescale", operand=None, ratio_self=np.float32(1), low=low, high=high)


@pytest.fixture
def graph_of_convolution():
    """A 1x1 convolution from `x` to `c` and given element-wise nodes after it; the last gives the output."""

    def make(*rest) -> Graph:
        quantization = Quantization(scale=np.float32(1), zero_point=0, dtype="int8")
        rng = np.random.default_rng(1)
        convolution = Convolution(
            name="conv",
            members=("conv",),
            data="x",
            output="c",
            weight=rng.integers(-128, 128, (4, 3, 1, 1)).astype(np.int8),
            bias=np.zeros(4, np.int32),
            strides=(1, 1),
            pads=(0, 0, 0, 0),
            dilations=(1, 1),
            groups=1,
            pad_value=0,
            requantize=Requantize(scale=np.full(4, 0.01, np.float32), zero_point=0),
        )
        names = ["c", *(node.output for node in rest)]
        tensors = {name: Tensor(name=name, shape=(1, 4, 5, 5), quantization=quantization) for name in names}
        tensors["x"] = Tensor(name="x", shape=(1, 3, 5, 5), quantization=quantization)
        return Graph(
            name="g",
            inputs=(GraphInput(name="x", tensor="x", shape=(1, 3, 5, 5), dtype="int8"),),
            outputs=(
                GraphOutput(
                    name="y", tensor=names[-1], shape=(1, 4, 5, 5), dtype="int8", quantization=quantization
                ),
            ),
            nodes=(convolution, *rest),
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
    """A sum of a 3x3 branch `big` and a 1x1 branch `small`, given in either order."""
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
    taken = [node for node in fused.nodes if isinstance(node, Convolution) and node.combine is not None]
    assert len(taken) == 1 and taken[0].members[0].startswith("node_big")
    assert taken[0].combine is not None and taken[0].combine.kind == "add"
    assert taken[0].combine.swap == (second == "big")
    for seed in range(3):
        fusion_exact(import_model(data), feed_of(data, seed))


def test_convolution_read_twice_keeps_its_tensor(builder, quantized, feed_of, fusion_exact):
    b = builder(1, 4, 6, 6)
    b.conv("x", "c1", 4, 4, 1, 1)
    b.node("Add", ["c1", "c1"], "s")
    b.conv("s", "y", 2, 4, 1, 1)
    data = quantized(b.model("y", "c1"), "qdq-u8-channel")
    fused = fuse(import_model(data))
    assert [type(node) for node in fused.nodes] == [Convolution, Elementwise, Convolution]
    fusion_exact(import_model(data), feed_of(data))


def test_max_pool_moves_before_rounding(builder, quantized, feed_of, fusion_exact):
    b = builder(1, 3, 11, 12)
    b.conv("x", "c", 5, 3, 3, 3)
    b.node("Relu", ["c"], "r")
    b.node("MaxPool", ["r"], "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    data = quantized(b.model("y"), "qdq-u8-channel")
    graph = import_model(data)
    assert [type(node) for node in fuse(graph).nodes] == [Convolution, MaxPool]
    (node,) = fuse_pool(fuse(graph)).nodes
    assert isinstance(node, Convolution) and node.pool is not None and node.pool.pads == (1, 1, 1, 1)
    fusion_exact(graph, feed_of(data))


def test_max_pool_stays_after_stage_b(builder):
    b = builder(1, 3, 8, 8)
    b.node("MaxPool", [rescaled_convolution(b)], "y", kernel_shape=[2, 2], strides=[2, 2])
    graph = fuse(import_model(b.model("y").SerializeToString()))
    assert shape_of(fuse_pool(graph)) == shape_of(graph)
    assert [type(node) for node in graph.nodes] == [Convolution, MaxPool]


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
    assert isinstance(node, Convolution) and node.weight.shape == (7, 20, 1, 1)
    assert fuse(graph).inputs[0].shape == (2, 1, 4, 5)
    fusion_exact(graph, feed_of(data))


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_chains_of_stage_b_are_exact(seed):
    """Element-wise nodes of random kinds, constants and order after and between convolutions."""
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
            nodes.append(
                Convolution(
                    name=output,
                    members=(output,),
                    data=data,
                    output=output,
                    weight=rng.integers(-128, 128, (3, 3, 1, 1)).astype(np.int8),
                    bias=rng.integers(-999, 999, 3).astype(np.int32),
                    strides=(1, 1),
                    pads=(0, 0, 0, 0),
                    dilations=(1, 1),
                    groups=1,
                    pad_value=0,
                    requantize=Requantize(
                        scale=rng.uniform(0.001, 0.02, 3).astype(np.float32), zero_point=zero, low=low
                    ),
                )
            )
        else:
            kind = str(rng.choice(["add", "multiply", "rescale", "clamp"]))
            operand = str(rng.choice(live)) if kind in ("add", "multiply") else None
            nodes.append(
                Elementwise(
                    name=output,
                    members=(output,),
                    a=data,
                    b=operand,
                    output=output,
                    combine=Combine(
                        kind="rescale" if kind == "clamp" else kind,  # type: ignore[arg-type]
                        operand=operand,
                        ratio_self=np.float32(1) if kind == "clamp" else np.float32(rng.uniform(0.005, 1.5)),
                        ratio_operand=np.float32(rng.uniform(0.1, 1.5)),
                        offset=np.float32(rng.normal()),
                        zero_point_self=0 if kind == "clamp" else zero,
                        zero_point_operand=int(rng.integers(-9, 9)),
                        unsigned=bool(rng.integers(2)),
                        low=low,
                    ),
                )
            )
        live.append(output)
    chosen = {live[-1], str(rng.choice(live[1:]))}
    tensors = {name: Tensor(name=name, shape=(1, 3, 5, 5), quantization=quantization) for name in live}
    return Graph(
        name="random",
        inputs=(GraphInput(name="x", tensor="x", shape=(1, 3, 5, 5), dtype="int8"),),
        outputs=tuple(
            GraphOutput(name=name, tensor=name, shape=(1, 3, 5, 5), dtype="int8", quantization=quantization)
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
    assert [type(node) for node in fused.nodes] == [Convolution, AveragePool]
    fusion_exact(import_model(data), feed_of(data))

"""Models quantized by ONNX Runtime's static quantizer, compared with ONNX Runtime layer by layer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import Int8AveragePool, Int8Elementwise, Int8MaxPool

FORMS = (
    "qdq-u8-channel",
    "qdq-u8-u8-tensor",
    "qdq-s8-symmetric",
    "qdq-s8-asymmetric",
    "qdq-u8-float-weights",
    "qdq-u8-float-bias",
    "qop-u8-channel",
    "qop-u8-u8-tensor",
    "qop-s8",
)


def chain(builder):
    """A network with odd numbers of channels, asymmetric pads, strides, dilation, both kinds of pools and a dense
    layer.
    """
    b = builder(2, 3, 17, 14)
    b.conv("x", "c1", 5, 3, 3, 5, pads=[1, 2, 0, 1], strides=[2, 1])
    b.node("Relu", ["c1"], "r1")
    b.node("MaxPool", ["r1"], "m1", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
    b.conv("m1", "c2", 7, 5, 3, 3, bias=False, dilations=[1, 2], pads=[1, 2, 1, 2])
    b.node(
        "AveragePool",
        ["c2"],
        "a1",
        kernel_shape=[2, 3],
        strides=[1, 2],
        pads=[1, 1, 0, 1],
        count_include_pad=1,
    )
    b.node("Flatten", ["a1"], "f1")
    features = onnx.shape_inference.infer_shapes(b.model("f1")).graph.output[0].type.tensor_type.shape
    b.node("Gemm", ["f1", b.random("gw", 10, features.dim[1].dim_value), b.random("gb", 10)], "y", transB=1)
    return b.model("y")


def residual(builder):
    """A network with two branches, additions with ReLU, a global average pool, and a matrix product with bias."""
    b = builder(1, 6, 9, 9, seed=1)
    b.conv("x", "c1", 8, 6, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    b.node("Relu", ["c1"], "r1")
    b.conv("r1", "c2", 8, 8, 3, 3, pads=[1, 1, 1, 1])
    b.conv("x", "d1", 8, 6, 1, 1, strides=[2, 2])
    b.node("Add", ["c2", "d1"], "s1")
    b.node("Relu", ["s1"], "r2")
    b.conv("r2", "c3", 8, 8, 3, 3, pads=[1, 1, 1, 1])
    b.node("Add", ["r2", "c3"], "s2")
    b.node("GlobalAveragePool", ["s2"], "g1")
    b.node("Reshape", ["g1", b.constant("shape", np.array([0, -1]))], "f1")
    b.node("MatMul", ["f1", b.random("mw", 8, 4)], "m1")
    b.node("Add", ["m1", b.random("mb", 4)], "y")
    return b.model("y")


def depthwise(builder):
    """A network with a depthwise and a grouped convolution, ReLU6, and an element-wise product of two tensors."""
    b = builder(1, 8, 10, 11, seed=2)
    b.conv("x", "c1", 8, 1, 3, 3, group=8, auto_pad="SAME_UPPER", strides=[2, 2])
    b.node("Clip", ["c1", b.constant("zero", np.float32(0)), b.constant("six", np.float32(0.8))], "k1")
    b.conv("k1", "c2", 8, 4, 1, 1, group=2)
    b.node("Mul", ["k1", "c2"], "p1")
    b.conv("p1", "y", 4, 8, 2, 2)
    return b.model("y")


def channels(builder):
    """A network that splits, slices, concatenates and shuffles channels, like ShuffleNet."""
    b = builder(1, 6, 8, 9, seed=3)
    b.conv("x", "c1", 21, 6, 3, 3, pads=[1, 1, 1, 1])
    b.node("Relu", ["c1"], "r1")
    sizes = b.constant("sizes", np.array([9, 12]))
    b.nodes.append(onnx.helper.make_node("Split", ["r1", sizes], ["left", "right"], "halves", axis=1))
    b.conv("left", "c2", 7, 9, 1, 1)
    limits = [b.constant(name, np.array([value])) for name, value in (("from", 1), ("to", 11), ("axis", 1))]
    b.node("Slice", ["right", *limits], "middle")
    b.node("Concat", ["c2", "middle", "left"], "j1", axis=1)
    b.node("Reshape", ["j1", b.constant("groups", np.array([1, 2, 13, 8, 9]))], "g1")
    b.node("Transpose", ["g1"], "t1", perm=[0, 2, 1, 3, 4])
    b.node("Reshape", ["t1", b.constant("flat", np.array([1, 26, 8, 9]))], "s1")
    b.conv("s1", "y", 5, 26, 2, 3)
    return b.model("y")


@pytest.mark.parametrize(
    ("network", "form"),
    [
        *((network, form) for network in (chain, residual, depthwise) for form in FORMS),
        *((channels, form) for form in FORMS if form.startswith("qdq")),
    ],
)
def test_every_layer_is_within_one_step(
    network, form, builder, quantized, feed_of, layers_against_runtime, fusion_exact
):
    data = quantized(network(builder), form)
    feed = feed_of(data)
    # Default optimization joins all layers of uint8 files to integer kernels; of int8 files only some.
    optimized = "-s8" not in form
    differences = layers_against_runtime(data, feed, optimized)
    kinds = {type(node.operator) for node in import_model(data).nodes}
    assert Int8Convolution in kinds and len(differences) >= 4
    assert max(differences.values()) <= 1, differences
    fusion_exact(import_model(data), feed)


@pytest.mark.parametrize("network", [chain, residual, depthwise])
def test_uint8_models_are_bit_equal_but_for_average_pools(
    network, builder, quantized, feed_of, layers_against_runtime
):
    data = quantized(network(builder), "qdq-u8-channel")
    for seed in range(4):
        differences = layers_against_runtime(data, feed_of(data, seed), True)
        assert {name for name, steps in differences.items() if steps} <= {"node_a1"}, differences


def test_end_to_end_output_equals_runtime(builder, quantized, feed_of, runtime, fusion_exact):
    data = quantized(residual(builder), "qop-u8-channel")
    feed = feed_of(data)
    (expected,) = runtime(data, ["y"], feed, True)
    np.testing.assert_array_equal(fusion_exact(import_model(data), feed)["y"], expected)


def test_all_node_kinds_are_covered(builder, quantized):
    kinds = set()
    for network in (chain, residual, depthwise):
        kinds |= {
            type(node.operator)
            for node in import_model(quantized(network(builder), "qdq-s8-symmetric")).nodes
        }
    assert kinds == {Int8Convolution, Int8MaxPool, Int8AveragePool, Int8Elementwise}

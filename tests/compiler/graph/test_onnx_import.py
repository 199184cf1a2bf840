"""Tests less common cases of the ONNX importer: networks that are written in different ways but must give the same
graph, views, operators on constants, and different opsets.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import Int8Elementwise, Int8MaxPool
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.rewrites.fuse import fuse
from vdla.isa.scales import dequantize, quantize

LATEST = onnx.defs.onnx_opset_version()


def run(data: bytes, feed):
    graph = fuse(import_model(data))
    return load_outputs(graph, interpret(graph, store_inputs(graph, feed)))


def small(b):
    b.conv("x", "c", 5, 3, 3, 3)
    b.node("Relu", ["c"], "r")
    b.node("GlobalAveragePool", ["r"], "g")
    b.node("Flatten", ["g"], "f")
    b.node("Gemm", ["f", b.random("gw", 5, 4), b.random("gb", 4)], "y")
    return b.model("y")


@pytest.mark.parametrize("opset", [13, 14, 17, 19, 21, LATEST])
def test_opsets_give_the_same_graph(builder, quantized, opset):
    data = quantized(small(builder(1, 3, 8, 8, opset=17)), "qdq-u8-channel")
    model = onnx.load_from_string(data)
    next(entry for entry in model.opset_import if not entry.domain).version = opset
    model.ir_version = min(model.ir_version, 10)
    feed = {"x": np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    np.testing.assert_array_equal(run(model.SerializeToString(), feed)["y"], run(data, feed)["y"])


def test_path_and_bytes_give_the_same(builder, quantized, tmp_path):
    data = quantized(small(builder(1, 3, 8, 8)), "qdq-u8-channel")
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    names = [[node.name for node in import_model(source).nodes] for source in (data, path, str(path))]
    assert names[0] == names[1] == names[2] == ["node_c", "node_g", "node_y"]


def test_pairs_vanish_and_names_stay(builder, quantized):
    graph = import_model(quantized(small(builder(1, 3, 8, 8)), "qdq-u8-channel"))
    assert [node.kind for node in graph.nodes] == [
        "Convolution",
        "AveragePool",
        "Convolution",
    ]
    assert graph.inputs[0].tensor == "x_QuantizeLinear_Output"
    assert graph.nodes[-1].output == graph.outputs[0].tensor == "y_QuantizeLinear_Output"


def test_zero_point_algebra(builder):
    b = builder(1, 2, 1, 1)
    real = b.pair("x", 0.5, np.uint8(150))
    integers = b.constant("wq", np.array([[1, 2], [3, -4]], np.int8).reshape(2, 2, 1, 1))
    b.node("DequantizeLinear", [integers, b.constant("ws", np.float32(0.25))], "w")
    bias = b.constant("bias", np.array([0.5, -1.0], np.float32))
    b.node("Conv", [real, "w", bias], "c", pads=[1, 1, 1, 1])
    graph = import_model(b.model(b.pair("c", 1.0, np.uint8(3))).SerializeToString())
    (node,) = graph.nodes
    assert isinstance(node.operator, Int8Convolution)
    # 150 is stored as 22; biases are 0.5 / 0.125 = 4 and -8.
    assert node.operator.pad_value == 22
    assert node.operator.bias.tolist() == [4 - 22 * 3, -8 - 22 * -1]
    assert node.operator.scale.tolist() == [0.125, 0.125] and node.operator.post.zero_point == 3 - 128
    assert graph.tensors[node.output].quantization.offset == 128


@pytest.mark.parametrize("kind", ["int4", "uint4", "int2", "uint2"])
@pytest.mark.parametrize("rounded_here", [False, True])
def test_weights_of_fewer_than_8_bits(builder, kind, rounded_here):
    dtype, rng = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind.upper())), np.random.default_rng(7)
    limits, zero = ml_dtypes.iinfo(dtype), np.array([1, 0, 1, 1]).astype(dtype)
    numbers = rng.integers(limits.min, limits.max, (4, 3, 2, 2), endpoint=True)
    scale = rng.uniform(0.01, 0.1, 4).astype(np.float32)
    true = numbers - zero.astype(np.int64).reshape(4, 1, 1, 1)
    b = builder(1, 3, 5, 5, opset=25)
    scales, zeros = b.constant("ws", scale), b.constant("wz", zero)
    if rounded_here:
        real = b.constant("w", (true * scale.reshape(4, 1, 1, 1)).astype(np.float32))
        b.node("QuantizeLinear", [real, scales, zeros], "wq", axis=0)
    else:
        b.constant("wq", numbers.astype(dtype))
    b.node("DequantizeLinear", ["wq", scales, zeros], "wd", axis=0)
    b.node("Conv", [b.pair("x", 0.02, np.uint8(128)), "wd"], "c")
    graph = import_model(b.model(b.pair("c", 0.03, np.int8(0))).SerializeToString())
    (node,) = graph.nodes
    assert isinstance(node.operator, Int8Convolution)
    np.testing.assert_array_equal(node.operator.weight, true)
    np.testing.assert_allclose(node.operator.scale, scale * np.float32(0.02) / np.float32(0.03), rtol=1e-6)


def test_bias_with_another_scale_is_rounded_to_the_product_of_scales(builder):
    b = builder(1, 1, 2, 2)
    real = b.pair("x", 0.5, np.int8(0))
    b.node(
        "DequantizeLinear",
        [b.constant("bq", np.array([10], np.int32)), b.constant("bs", np.float32(0.26))],
        "b",
    )
    b.node("Conv", [real, b.weight("w", 1, 1, 1, 1, scale=0.5), "b"], "c")
    (node,) = import_model(b.model(b.pair("c", 1.0, np.int8(0))).SerializeToString()).nodes
    assert isinstance(node.operator, Int8Convolution) and node.operator.bias.tolist() == [10]
    # 10 * 0.26 / 0.25 = 10.4


def test_rescaling_equals_the_two_roundings_for_all_values(builder):
    rng = np.random.default_rng(3)
    for _ in range(40):
        first, second = (np.float32(rng.uniform(0.01, 0.2)) for _ in range(2))
        zeros = rng.integers(-128, 128, 2).astype(np.int8)
        b = builder(1, 256, elem_type=TensorProto.INT8)
        scales = [
            [b.constant(f"s{i}", scale), b.constant(f"z{i}", zeros[i])]
            for i, scale in enumerate([first, second])
        ]
        b.node("DequantizeLinear", ["x", *scales[0]], "d")
        b.node("QuantizeLinear", ["d", *scales[1]], "y")
        values = np.arange(-128, 128).astype(np.int8).reshape(1, 256)
        expected = quantize(dequantize(values, first, zeros[0]), second, zeros[1])
        got = run(b.model("y", elem_type=TensorProto.INT8).SerializeToString(), {"x": values})["y"]
        np.testing.assert_array_equal(got, expected)


def test_same_scale_adds_no_node(builder):
    b = builder(1, 3, 4, 4)
    b.node("QuantizeLinear", [b.pair("x", 0.1, np.int8(5)), "x_s", "x_z"], "q")
    b.node("DequantizeLinear", ["q", "x_s", "x_z"], "y")
    graph = import_model(b.model("y").SerializeToString())
    assert graph.nodes == () and graph.outputs[0].tensor == graph.inputs[0].tensor


def test_float_output_of_a_maximum_and_a_relu(builder, runtime):
    b = builder(1, 3, 7, 7)
    b.node("MaxPool", [b.pair("x", 0.02, np.uint8(90))], "m", kernel_shape=[2, 2])
    b.node("Relu", ["m"], "y")
    data = b.model("y", "m").SerializeToString()
    feed = {"x": np.random.default_rng(1).normal(size=(1, 3, 7, 7)).astype(np.float32)}
    got = run(data, feed)
    for name, expected in zip(["y", "m"], runtime(data, ["y", "m"], feed, False), strict=True):
        np.testing.assert_array_equal(got[name], expected)


def test_input_in_another_layout_is_the_hosts_work(builder, quantized, runtime):
    b = builder(1, 8, 9, 3)
    b.node("Transpose", ["x"], "t", perm=[0, 3, 1, 2])
    b.conv("t", "y", 4, 3, 3, 3)
    data = quantized(b.model("y"), "qdq-u8-channel")
    feed = {"x": np.random.default_rng(1).normal(size=(1, 8, 9, 3)).astype(np.float32)}
    graph = import_model(data)
    assert graph.inputs[0].permutation == (0, 3, 1, 2) and len(graph.nodes) == 1
    np.testing.assert_array_equal(run(data, feed)["y"], runtime(data, ["y"], feed, True)[0])


@pytest.mark.parametrize(
    ("declared", "seen"),
    [((2, 1, 6), (1, 2, 6)), ((1, 2, 6), (2, 1, 6)), ((4, 6), (1, 4, 6)), ((2, 3, 6), (1, 6, 6))],
)
def test_an_input_that_is_seen_otherwise_before_it_is_quantized(builder, runtime, declared, seen):
    rng = np.random.default_rng(3)
    b = builder(*declared, opset=17)
    b.node("Reshape", ["x", b.constant("seen", np.array(seen))], "rows")
    weight = b.constant("wq", rng.integers(-9, 9, (6, 5)).astype(np.int8))
    b.node("DequantizeLinear", [weight, b.constant("ws", np.float32(0.1))], "w")
    b.node("MatMul", [b.pair("rows", 0.05, np.int8(3)), "w"], "m")
    name = b.pair("m", 0.1, np.int8(0))
    data = b.model(name).SerializeToString()
    feed = {"x": rng.normal(size=declared).astype(np.float32)}
    (output,) = run(data, feed).values()
    (expected,) = runtime(data, [name], feed, False)
    # Without its fusions it rounds twice: a step of 0.1 is allowed.
    np.testing.assert_allclose(output, expected, rtol=0, atol=0.1001)


def test_shape_arithmetic_folds(builder, quantized, runtime):
    b = builder(2, 3, 4, 4)
    b.conv("x", "c", 6, 3, 3, 3)
    b.node("Shape", ["c"], "shape")
    b.node("Gather", ["shape", b.constant("zero", np.array(0))], "batch", axis=0)
    b.node("Unsqueeze", ["batch", b.constant("axes", np.array([0]))], "batch1")
    b.node("Concat", ["batch1", b.constant("rest", np.array([-1]))], "target", axis=0)
    b.node("Reshape", ["c", "target"], "f")
    b.node("Gemm", ["f", b.random("gw", 24, 4)], "y")
    data = quantized(b.model("y"), "qdq-u8-channel")
    feed = {"x": np.random.default_rng(1).normal(size=(2, 3, 4, 4)).astype(np.float32)}
    graph = import_model(data)
    dense = graph.nodes[1].operator
    assert isinstance(dense, Int8Convolution) and dense.weight.shape == (4, 6, 2, 2)
    np.testing.assert_array_equal(run(data, feed)["y"], runtime(data, ["y"], feed, True)[0])


def test_constant_nodes_and_transposed_weights(builder):
    b = builder(3, 6)
    real = b.pair("x", 0.05, np.int8(4))
    value = numpy_helper.from_array(np.random.default_rng(2).integers(-9, 9, (5, 6)).astype(np.int8))
    b.nodes.append(helper.make_node("Constant", [], ["wq"], value=value))
    scales = b.constant("ws", np.linspace(0.01, 0.05, 5).astype(np.float32))
    b.node("DequantizeLinear", ["wq", scales], "w", axis=0)
    b.node("Transpose", ["w"], "wt", perm=[1, 0])
    b.node("MatMul", [real, "wt"], "m")
    b.node("Add", [b.constant("bias", np.ones((1, 5), np.float32)), "m"], "a")
    graph = import_model(b.model(b.pair("a", 0.1, np.int8(0))).SerializeToString())
    (node,) = graph.nodes
    assert isinstance(node.operator, Int8Convolution) and node.members == ("node_m", "node_a")
    assert node.operator.weight.reshape(5, 6).tolist() == numpy_helper.to_array(value).tolist()
    np.testing.assert_allclose(node.operator.scale, np.linspace(0.01, 0.05, 5) * 0.5, rtol=1e-6)


@pytest.mark.parametrize("kind", ["Add", "Mul"])
@pytest.mark.parametrize("first", [False, True])
def test_constants_are_operands(builder, runtime, kind, first):
    b = builder(2, 3, 4, 5)
    real = b.pair("x", 0.02, np.uint8(120))
    integers = b.constant("kq", np.array([1, 200, 77], np.uint8).reshape(3, 1, 1))
    b.node(
        "DequantizeLinear",
        [integers, b.constant("ks", np.float32(0.013)), b.constant("kz", np.uint8(9))],
        "k",
    )
    b.node(kind, ["k", real] if first else [real, "k"], "s")
    data = b.model(b.pair("s", 0.05, np.uint8(40))).SerializeToString()
    graph = import_model(data)
    assert isinstance(graph.nodes[0].operator, Int8Elementwise) and list(graph.constants) == [
        "node_s.constant"
    ]
    feed = {"x": np.random.default_rng(1).normal(size=(2, 3, 4, 5)).astype(np.float32)}
    np.testing.assert_array_equal(run(data, feed)["s_d"], runtime(data, ["s_d"], feed, True)[0])


def test_several_inputs_and_outputs(builder, runtime):
    b = builder(1, 3, 5, 5)
    b.inputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 3, 5, 5]))
    b.node("Conv", [b.pair("x", 0.02, np.uint8(100)), b.weight("w", 3, 3, 1, 1, scale=0.002)], "c")
    c = b.pair("c", 0.02, np.uint8(90))
    b.node("Add", [c, b.pair("z", 0.02, np.uint8(128))], "s")
    s = b.pair("s", 0.03, np.uint8(120))
    data = b.model(s, c).SerializeToString()
    rng = np.random.default_rng(4)
    feed = {name: rng.normal(size=(1, 3, 5, 5)).astype(np.float32) for name in ("x", "z")}
    got = run(data, feed)
    for name, expected in zip([s, c], runtime(data, [s, c], feed, True), strict=True):
        np.testing.assert_array_equal(got[name], expected)
    # `c` leaves the model, so the sum cannot swallow it.
    assert [type(node.operator) for node in fuse(import_model(data)).nodes] == [
        Int8Convolution,
        Int8Elementwise,
    ]


def test_integer_input_and_output(builder, runtime):
    b = builder(1, 3, 6, 6, elem_type=TensorProto.UINT8)
    q = [b.constant("s", np.float32(0.02)), b.constant("z", np.uint8(30))]
    b.node("MaxPool", ["x"], "m", kernel_shape=[2, 2], strides=[2, 2])
    b.node("DequantizeLinear", ["m", *q], "d")
    b.node("Conv", ["d", b.weight("w", 4, 3, 2, 2, scale=0.003)], "c")
    b.node("QuantizeLinear", ["c", *q], "y")
    data = b.model("y", elem_type=TensorProto.UINT8).SerializeToString()
    feed = {"x": np.random.default_rng(1).integers(0, 256, (1, 3, 6, 6)).astype(np.uint8)}
    graph = import_model(data)
    assert [type(node.operator) for node in graph.nodes] == [Int8MaxPool, Int8Convolution]
    assert (graph.inputs[0].dtype, graph.outputs[0].dtype) == ("uint8", "uint8")
    np.testing.assert_array_equal(run(data, feed)["y"], runtime(data, ["y"], feed, True)[0])


def test_views_dropout_and_identity_vanish(builder, runtime):
    b = builder(2, 3, 4, 4)
    b.node("GlobalAveragePool", [b.pair("x", 0.02, np.uint8(100))], "g")
    b.node("Dropout", [b.pair("g", 0.01, np.uint8(100))], "dr")
    b.node("Squeeze", ["dr", b.constant("axes", np.array([2, 3]))], "sq")
    b.node("Unsqueeze", ["sq", b.constant("axis", np.array([-1]))], "un")
    b.node("Identity", ["un"], "y")
    data = b.model("y").SerializeToString()
    feed = {"x": np.random.default_rng(1).normal(size=(2, 3, 4, 4)).astype(np.float32)}
    graph = import_model(data)
    assert len(graph.nodes) == 1 and graph.outputs[0].shape == (2, 3, 1)
    np.testing.assert_array_equal(run(data, feed)["y"], runtime(data, ["y"], feed, True)[0])


def test_flattened_output_keeps_its_shape(builder, runtime):
    b = builder(2, 3, 4, 4)
    b.node("Conv", [b.pair("x", 0.02, np.uint8(100)), b.weight("w", 5, 3, 3, 3, scale=0.001)], "c")
    b.node("Flatten", [b.pair("c", 0.02, np.uint8(100))], "y")
    data = b.model("y").SerializeToString()
    feed = {"x": np.random.default_rng(1).normal(size=(2, 3, 4, 4)).astype(np.float32)}
    np.testing.assert_array_equal(run(data, feed)["y"], runtime(data, ["y"], feed, True)[0])
    assert run(data, feed)["y"].shape == (2, 20)


def test_relu_before_quantization_is_a_bound(builder):
    b = builder(1, 3, 5, 5)
    b.node("Conv", [b.pair("x", 0.02, np.int8(0)), b.weight("w", 5, 3, 3, 3)], "c")
    b.node("Clip", ["c", b.constant("low", np.float32(0)), b.constant("high", np.float32(6))], "k")
    (node,) = import_model(b.model(b.pair("k", 0.1, np.int8(-50))).SerializeToString()).nodes
    assert isinstance(node.operator, Int8Convolution) and (
        node.operator.post.low,
        node.operator.post.high,
    ) == (-50, 10)
    assert node.members == ("node_c", "node_k")


def test_import_is_deterministic(builder, quantized):
    data = quantized(small(builder(1, 3, 8, 8)), "qop-u8-channel")
    first, second = fuse(import_model(data)), fuse(import_model(data))
    assert [node.name for node in first.nodes] == [node.name for node in second.nodes]
    assert list(first.tensors) == list(second.tensors)

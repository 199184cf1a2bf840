"""Int8 networks as ONNX Runtime saves them after its default optimization: channels last, pools in blocks, fused
operators.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from campaign import representatives
from float_networks import FloatNetwork, inferred_shape, runtime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType
from quantizer import quantized

import vdla
from vdla.compiler.frontends.onnx.attributes import CONTRIBUTED
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.errors import NodeError
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.interpret import interpret

TARGETS = ("llvm", "vdla", "vdla,llvm")


def pools() -> FloatNetwork:
    """A network of convolutions (some with pads), a max-pool, an average pool, a global average pool, an addition, a
    concatenation and a Resize.
    """
    net = FloatNetwork(1, 3, 13, 12)
    net.convolution(16, (3, 3), pads=[1] * 4)
    net.add("Relu")
    net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    net.shape = inferred_shape(net)
    first = net.last
    net.convolution(16, (3, 3), pads=[1] * 4, group=16)
    net.add("Add", first)
    net.add("AveragePool", kernel_shape=[2, 2])
    net.shape = inferred_shape(net)
    left = net.last
    net.convolution(8, (1, 1))
    net.add("Concat", inputs=[left, net.last], axis=1)
    net.shape = inferred_shape(net)
    sizes = net.constant(np.array([1, 24, 10, 10]))
    net.add("Resize", "", "", sizes, mode="nearest", coordinate_transformation_mode="asymmetric")
    net.shape = (1, 24, 10, 10)
    net.convolution(12, (3, 3), strides=[2, 2])
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.shape = (1, 12)
    return net


def line() -> FloatNetwork:
    """A network with one spatial dimension: convolutions, max-pools, and a global average pool."""
    net = FloatNetwork(1, 8, 30)
    for filters in (16, 12):
        net.add("Conv", net.weights(filters, net.shape[1], 3, deviation=0.2))
        net.shape = inferred_shape(net)
        net.add("MaxPool", kernel_shape=[2], strides=[2])
        net.shape = inferred_shape(net)
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.shape = (1, 12)
    return net


def saved(model: bytes, folder: Path) -> bytes:
    """The model as ONNX Runtime saves it after its default optimization."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return (folder / "optimized.onnx").read_bytes()


@pytest.mark.parametrize(
    ("network", "form"),
    representatives(
        [(network, form) for network in (pools, line) for form in QuantFormat],
        0,
        always=[(pools, QuantFormat.QOperator), (pools, QuantFormat.QDQ), (line, QuantFormat.QDQ)],
    ),
)
def test_saved_networks_compute_what_the_originals_do(
    network: Any, form: QuantFormat, tmp_path: Path
) -> None:
    net = network()
    plain = quantized(net, tmp_path, QuantType.QUInt8, form)
    optimized = saved(plain, tmp_path)
    nodes = onnx.load_from_string(optimized).graph.node
    assert any(entry.name == "channels_last" and entry.i for node in nodes for entry in node.attribute)
    feeds = {"x": np.random.default_rng(3).standard_normal(net.input_shape, dtype=np.float32)}
    for target in TARGETS:
        with vdla.compile(plain, target=target) as before, vdla.compile(optimized, target=target) as after:
            (ours,), (expected,) = after.run(feeds).values(), before.run(feeds).values()
        np.testing.assert_array_equal(ours, expected, target)


def channels_last(
    operator: str, *rest: Any, shape: tuple[int, ...] = (1, 7, 9, 8), **attributes: Any
) -> bytes:
    """The bytes of a model of one of ONNX Runtime's operators on uint8 data of `shape` (N, ..., C), between
    QuantizeLinear and DequantizeLinear. `rest`: constant inputs after the data and their scale and zero point.
    """
    grid = {"s": np.float32(0.02), "z": np.uint8(120), "t": np.float32(0.03), "u": np.uint8(100)}
    constants = {**grid, **{f"c{number}": np.asarray(array) for number, array in enumerate(rest)}}
    own = operator != "NhwcMaxPool"
    given = ["q", *(["s", "z"] if own else []), *[f"c{number}" for number in range(len(rest))]]
    # The bias comes last of all.
    given[6 if rest else 3 : 6 if rest else 3] = ["t", "u"] if own else []
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node(operator, given, ["p"], "the node", domain=CONTRIBUTED, **attributes),
        helper.make_node("DequantizeLinear", ["p", *(["t", "u"] if own else ["s", "z"])], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"d{axis}" for axis in range(len(shape))])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIBUTED, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


RNG = np.random.default_rng(5)
WEIGHTS = RNG.integers(-127, 128, (12, 8, 3, 3)).astype(np.int8)
SCALES, ZEROS = np.full(12, 0.002, np.float32), np.zeros(12, np.int8)
BIAS = RNG.integers(-99, 99, 12).astype(np.int32)
CASES = {
    "convolution": channels_last(
        "QLinearConv", WEIGHTS, SCALES, ZEROS, BIAS, pads=[1, 0, 1, 2], strides=[2, 1], channels_last=1
    ),
    "depthwise": channels_last(
        "QLinearConv", WEIGHTS[:8, :1], SCALES[:8], ZEROS[:8], BIAS[:8], group=8, channels_last=1
    ),
    "line": channels_last(
        "QLinearConv", WEIGHTS[..., 0], SCALES, ZEROS, BIAS, shape=(1, 9, 8), channels_last=1
    ),
    "average": channels_last("QLinearAveragePool", kernel_shape=[2, 3], strides=[1, 2], channels_last=1),
    "global average": channels_last("QLinearGlobalAveragePool", channels_last=1),
    "global average of lines": channels_last("QLinearGlobalAveragePool", shape=(2, 9, 8), channels_last=1),
    "maximum": channels_last("NhwcMaxPool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 1]),
}


@pytest.mark.parametrize("name", CASES)
def test_channels_last(name: str) -> None:
    model = CASES[name]
    shape = tuple(d.dim_value for d in onnx.load_from_string(model).graph.input[0].type.tensor_type.shape.dim)
    feeds = {"x": np.random.default_rng(3).standard_normal(shape, dtype=np.float32)}
    (expected,) = runtime(model, feeds).values()
    graph = import_model(model)
    (integers,) = load_outputs(graph, interpret(graph, store_inputs(graph, feeds))).values()
    np.testing.assert_array_equal(integers, expected)
    for target in ("llvm", "vdla,llvm"):
        with vdla.compile(model, target=target) as network:
            (ours,) = network.run(feeds).values()
        np.testing.assert_array_equal(ours, expected, target)


def test_convolutions_in_blocks_are_refused_with_the_reason() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], "the node", domain="com.microsoft.nchwc")
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 2, 2])],
        [numpy_helper.from_array(np.ones((16, 16, 3, 3), np.float32), "w")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft.nchwc", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(NodeError, match=r"'the node' \(Conv\): has weights in ONNX .* ORT_ENABLE_EXTENDED"):
        import_float_model(model.SerializeToString())

"""Quantized networks with operators other than convolutions and pools, on CPUs: computed with integers, as ONNX Runtime
does.
"""

from __future__ import annotations

import numpy as np
import pytest
from float_networks import FloatNetwork, runtime
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.abilities import PROCESSOR
from vdla.compiler.graph.errors import ModelError, NodeError
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_convolution import Interleave
from vdla.compiler.graph.int8_operators import Channels, Table
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.rewrites.fuse import fuse


class Rounded(FloatNetwork):
    """A network whose tensors are quantized to uint8 and dequantized."""

    def rounded(self, scale: float, zero: int = 128) -> str:
        operands = [self.constant(np.float32(scale)), self.constant(np.uint8(zero))]
        self.add("QuantizeLinear", *operands)
        return self.add("DequantizeLinear", *operands)

    def product(self, operator: str, shape: tuple[int, ...], source: str, **attributes) -> str:
        weights = self.constant(self.rng.integers(-127, 128, shape).astype(np.int8))
        scale, zero = self.constant(np.float32(0.005)), self.constant(np.int8(0))
        weight = self.add("DequantizeLinear", inputs=[weights, scale, zero])
        self.add(operator, inputs=[source, weight], **attributes)
        return self.rounded(0.03, 120)


def joined(*filters: int) -> Rounded:
    net = Rounded(1, 4, 5, 6)
    x = net.rounded(0.02)
    parts = [net.product("Conv", (count, 4, 1, 1), x) for count in filters]
    net.add("Concat", inputs=parts, axis=1)
    net.rounded(0.04, 100)
    net.shape = (1, sum(filters), 5, 6)
    return net


def gated() -> Rounded:
    """A network of x * sigmoid(x), multiplied by one value for each channel (squeeze-and-excitation)."""
    net = Rounded(1, 4, 5, 6)
    x = net.product("Conv", (20, 4, 1, 1), net.rounded(0.02))
    net.add("Sigmoid", inputs=[x])
    gate = net.rounded(1 / 255, 0)
    net.add("Mul", inputs=[x, gate])
    x = net.rounded(0.02, 30)
    net.add("GlobalAveragePool", inputs=[x])
    mean = net.rounded(0.01, 30)
    net.add("HardSigmoid", inputs=[mean])
    gate = net.rounded(1 / 255, 0)
    net.add("Mul", inputs=[gate, x])
    net.rounded(0.02, 30)
    net.shape = (1, 20, 5, 6)
    return net


def transposed(filters: int, kernel: int, **attributes) -> Rounded:
    net = Rounded(1, 4, 5, 6)
    net.product("ConvTranspose", (4, filters, kernel, kernel), net.rounded(0.02), **attributes)
    stride, pad = attributes["strides"][0], attributes.get("pads", [0])[0]
    extra = attributes.get("output_padding", [0])[0]
    extent = attributes.get("dilations", [1])[0] * (kernel - 1) + 1
    rows, columns = ((size - 1) * stride + extent - 2 * pad + extra for size in (5, 6))
    net.shape = (1, filters * attributes.get("group", 1), rows, columns)
    return net


def leaky() -> Rounded:
    """A network with a PRelu that has one slope for all channels, as is usual in trained networks."""
    net = Rounded(1, 4, 5, 6)
    net.product("Conv", (7, 4, 1, 1), net.rounded(0.02))
    net.add("PRelu", net.constant(np.full((1, 1, 1), 0.3, np.float32)))
    net.rounded(0.02, 60)
    net.shape = (1, 7, 5, 6)
    return net


def shuffled() -> Rounded:
    """A network that interleaves the two halves of its channels (channel shuffle) and then slices channels."""
    net = Rounded(1, 12, 5, 6)
    net.rounded(0.02)
    net.add("Reshape", net.constant(np.array([1, 2, 6, 5, 6])))
    net.rounded(0.02)
    net.add("Transpose", perm=[0, 2, 1, 3, 4])
    net.rounded(0.02)
    net.add("Reshape", net.constant(np.array([1, 12, 5, 6])))
    net.rounded(0.02)
    one = net.constant(np.array([1]))
    net.add("Slice", net.constant(np.array([3])), net.constant(np.array([10])), one, one)
    net.rounded(0.02)
    net.shape = (1, 7, 5, 6)
    return net


CASES = [
    (lambda: joined(16, 32, 20), {Channels}),
    (lambda: joined(7, 16, 3), {Channels}),
    (gated, {Table}),
    (leaky, {Table}),
    (lambda: transposed(20, 3, strides=[1, 1]), {Interleave}),
    (shuffled, {Channels}),
]


@pytest.mark.parametrize(("build", "kinds"), CASES)
def test_integers_all_the_way(build, kinds) -> None:
    net = build()
    model = net.model()
    x = net.rng.standard_normal(net.input_shape, dtype=np.float32)
    graph = import_model(model, abilities=PROCESSOR)
    assert kinds <= {type(node.operator) for node in graph.nodes}
    (wanted,) = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": x}))).values()
    (peer,) = runtime(model, {"x": x}).values()
    step = float(graph.outputs[0].quantization.scale)
    assert np.abs(wanted - peer).max() <= 1.01 * step
    for target in (host_target(), parse_target("llvm -mcpu=haswell")):
        with compile_kernels(model, cpu_now(target)) as network:
            assert network.quantized
            (got,) = network.run({"x": x}).values()
            np.testing.assert_array_equal(got, wanted)
    if Table not in kinds:
        # So does an accelerator without extensions.
        with vdla.compile(model, config="tiny") as network:
            np.testing.assert_array_equal(network.run({"x": x})[graph.outputs[0].name], wanted)
    else:
        with pytest.raises(ModelError, match="needs the extension 'table'; add it"):
            import_model(model)


def test_a_function_of_a_table_is_a_table() -> None:
    kinds = [node.kind for node in fuse(import_model(gated().model(), abilities=PROCESSOR)).nodes]
    assert kinds == ["Convolution", "Table", "AveragePool", "Table", "Elementwise"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"ws": np.full(3, 0.01, np.float32), "wz": np.zeros(3, np.int8)},
            "its 3 scales and 3 zero points do not match axis 0 of its input",
        ),
        ({"wz": np.zeros(2, np.int8)}, "has 2 zero points for 4 scales"),
        ({"ws": np.float32(0.01)}, "has 4 zero points for one scale"),
        ({"ws": np.zeros(0, np.float32), "wz": np.zeros(0, np.int8)}, "has an empty tensor as its scale"),
    ],
    ids=str,
)
def test_constants_that_fit_no_scale_are_refused_by_name(
    changes: dict[str, np.ndarray], message: str
) -> None:
    arrays = {
        "xs": np.float32(0.02),
        "xz": np.uint8(3),
        "w": np.ones((4, 3, 3, 3), np.int8),
        "ws": np.full(4, 0.01, np.float32),
        "wz": np.zeros(4, np.int8),
    } | changes
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], name="weights", axis=0),
        helper.make_node("Conv", ["xd", "wd"], ["c"], name="conv"),
        helper.make_node("QuantizeLinear", ["c", "xs", "xz"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "xs", "xz"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "counts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 4, 4])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with pytest.raises(NodeError, match=rf"node 'weights' \(DequantizeLinear\): {message}"):
        compile_kernels(model.SerializeToString(), cpu_now())

"""Models in QOperator form from ONNX Runtime's quantizer, with float operators between quantized ones: on
every target.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from campaign import representatives
from float_networks import FloatNetwork
from mixed_networks import unoptimized
from onnxruntime.quantization import QuantType
from quantizer import quantized

import vdla
from vdla.benchmarks.harness.quantized import vta_with
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.divided import compile_divided
from vdla.compiler.frontends.onnx.integer_importer import import_model as import_quantized
from vdla.compiler.frontends.onnx.model.qlinear import write_steps
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.pipeline import compile_kernels, compile_program
from vdla.compiler.runtime.accelerator import run

SHAPE = (1, 3, 8, 8)


def gates(*, between: str | None = None, opset: int = 17) -> FloatNetwork:
    """A network of convolutions, a Sigmoid and a LeakyRelu branch that are concatenated and resized; `between`: an
    operator that stays float in the second branch.
    """
    net = FloatNetwork(*SHAPE, opset=opset)
    net.convolution(12, (3, 3), pads=[1] * 4)
    x = net.add("Sigmoid")
    y = net.add("LeakyRelu", inputs=[net.convolution(12, (1, 1))], alpha=0.1)
    if between is not None:
        y = net.add(between)
    net.add("Concat", inputs=[x, y], axis=1)
    sizes = net.constant(np.array([1, 24, 16, 16]))
    net.add("Resize", "", "", sizes, mode="nearest", coordinate_transformation_mode="asymmetric")
    net.shape = (1, 24, 16, 16)
    net.convolution(5, (1, 1))
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.shape = (1, 5)
    net.add("Softmax", axis=1)
    return net


def fully_connected() -> FloatNetwork:
    net = FloatNetwork(2, 12)
    weights, bias = net.weights(7, 12, deviation=0.3), net.weights(7)
    net.add("Gemm", weights, bias, transB=1)
    net.add("Tanh")
    net.add("MatMul", net.weights(7, 4, deviation=0.4))
    net.shape = (2, 4)
    return net


@pytest.mark.parametrize(
    ("activations", "between"),
    representatives(
        itertools.product((QuantType.QUInt8, QuantType.QInt8), (None, "Sin")),
        0,
        always=[(QuantType.QUInt8, None), (QuantType.QInt8, None), (QuantType.QInt8, "Sin")],
    ),
)
def test_gates_on_every_target(activations: QuantType, between: str | None, tmp_path: Path) -> None:
    model = quantized(gates(between=between), tmp_path, activations)
    feeds = {"x": np.random.default_rng(1).standard_normal(SHAPE, dtype=np.float32)}
    (expected,) = unoptimized(model, feeds).values()
    machine = vta_with()
    with compile_kernels(model, cpu_now()) as network:
        (ours,) = network.run(feeds).values()
    with compile_divided(model, machine).network as network:
        (divided,) = network.run(feeds).outputs.values()
    # Two steps of 1/256 each, of shares.
    assert np.abs(ours - expected).max() <= 2.01 / 256
    assert np.abs(divided - expected).max() <= 2.01 / 256
    if between is None:
        (whole,) = run(compile_program(model, machine), feeds).outputs.values()
        assert np.abs(whole - expected).max() <= 2.01 / 256


def test_products_beside_floats(tmp_path: Path) -> None:
    model = quantized(fully_connected(), tmp_path)
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 12), dtype=np.float32)}
    (expected,) = unoptimized(model, feeds).values()
    for target in ("llvm", "vdla,llvm"):
        with vdla.compile(model, target=target) as network:
            (ours,) = network.run(feeds).values()
        np.testing.assert_allclose(ours, expected, atol=0.03)


def test_steps_are_what_onnxruntime_computes(tmp_path: Path) -> None:
    for net, row in (
        (gates(), False),
        (gates(opset=13), False),
        (fully_connected(), False),
        (fully_connected(), True),
    ):
        model = quantized(net, tmp_path)
        proto = onnx.load_from_string(model)
        if row:
            # QGemm's bias, with a scale for each of 7 channels, may also be a row.
            biases = [
                tensor for tensor in proto.graph.initializer if tensor.data_type == onnx.TensorProto.INT32
            ]
            assert [list(tensor.dims) for tensor in biases] == [[7]]
            biases[0].dims[:] = [1, 7]
        assert write_steps("model", proto)
        assert not any(node.op_type.startswith("QLinear") for node in proto.graph.node)
        feeds = {"x": np.random.default_rng(2).standard_normal(net.input_shape, dtype=np.float32)}
        (expected,) = unoptimized(model, feeds).values()
        (ours,) = unoptimized(proto.SerializeToString(), feeds).values()
        np.testing.assert_allclose(ours, expected, atol=0.03)


@pytest.mark.parametrize(
    ("operator", "shape", "weight"),
    [
        ("QLinearConv", (1, 3, 8, 8), (4, 3, 3, 3)),
        ("QLinearMatMul", (1, 3), (3, 5)),
        ("QGemm", (1, 3), (3, 5)),
    ],
)
def test_a_refusal_names_the_node_of_the_file(
    operator: str, shape: tuple[int, ...], weight: tuple[int, ...]
) -> None:
    """The message names the node of the file, not the internal step that is refused."""
    net = FloatNetwork(*shape, opset=17)
    grid = [net.constant(np.float32(0.05)), net.constant(np.uint8(0))]
    integers = net.constant(np.full(weight, -128, np.int8))
    scales = [net.constant(np.full(2, 0.1, np.float32)), net.constant(np.full(2, 100, np.int8))]
    operands = [*grid, integers, *scales]
    domain = "com.microsoft" if operator == "QGemm" else ""
    net.add("QuantizeLinear", *grid)
    net.add(operator, *operands, *([""] if domain else []), *grid, domain=domain)
    net.add("DequantizeLinear", *grid)
    model = onnx.load_from_string(net.model())
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    model.graph.node[1].name = "the node"
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match=rf"node 'the node' \({operator}\): its 2 scales and 2 zero points"):
        import_quantized(model.SerializeToString())

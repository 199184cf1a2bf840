"""Biases near the limits of 32 bits, and scales that every target refuses."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.accumulators import LEAST_PART, AccumulatorError
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.frontends.onnx.operators.products import fitted_sums
from vdla.compiler.gpu_stages import gpu_emulated
from vdla.compiler.graph.errors import NodeError
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_kernels, compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.te.post import Post
from vdla.isa.arithmetic import requantize
from vdla.isa.config import load_config

TINY = load_config("tiny")
LOWEST, HIGHEST = -(2**31), 2**31 - 1
EDGES = np.array([LOWEST, HIGHEST, LOWEST + 5000, HIGHEST - 5000, 2**30, -(2**30), 40, 0], np.int32)


def convolution(
    bias: np.ndarray = EDGES,
    *,
    zero_point: int = 3,
    input_scale: float = 0.02,
    weight_scale: float = 0.01,
    bias_scale: float | None = None,
    output_scale: float = 0.05,
) -> onnx.ModelProto:
    """A model of a quantized 3x3 convolution in QDQ form, with 4 input and 8 output channels on 6x6."""
    weights = np.random.default_rng(0).integers(-127, 128, (8, 4, 3, 3)).astype(np.int8)
    scales = np.full(8, weight_scale, np.float32)
    with np.errstate(over="ignore"):
        steps = np.float32(input_scale) * scales if bias_scale is None else np.full(8, bias_scale, np.float32)
    arrays = {
        "xs": np.float32(input_scale),
        "xz": np.int8(zero_point),
        "ys": np.float32(output_scale),
        "yz": np.int8(-5),
        "w": weights,
        "ws": scales,
        "wz": np.zeros(8, np.int8),
        "b": bias,
        "bs": steps,
        "bz": np.zeros(8, np.int32),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"], name="x_quantize"),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"], name="x_dequantize"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], name="weights", axis=0),
        helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["bd"], name="biases", axis=0),
        helper.make_node("Conv", ["xd", "wd", "bd"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["yq"], name="y_quantize"),
        helper.make_node("DequantizeLinear", ["yq", "ys", "yz"], ["y"], name="y_dequantize"),
    ]
    graph = helper.make_graph(
        nodes,
        "edges",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 6, 6])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


X = np.random.default_rng(1).standard_normal((1, 4, 6, 6)).astype(np.float32)


def reference(model: onnx.ModelProto) -> np.ndarray:
    """The model's output for the input X in ONNX Runtime without graph optimization: every operator computes in
    float32.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": X})[0]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"zero_point": 127},
        {"zero_point": -128},
        {"bias_scale": 1e38},
        {"bias_scale": 1e-3},
        {"weight_scale": 1e34, "output_scale": 1e34},
        {"output_scale": 1e-3},
    ],
    ids=str,
)
def test_biases_at_the_edge_are_right_everywhere(changes: dict[str, float]) -> None:
    model = convolution(**changes)
    step = changes.get("output_scale", 0.05)
    expected = reference(model)
    compiled = compile_program(model.SerializeToString(), TINY)
    graph = compiled.graph
    simulated = run(compiled, {"x": X}).outputs["y"]
    interpreted = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": X})))["y"]
    assert np.array_equal(simulated, interpreted)
    assert np.abs(simulated - expected).max() <= 1.01 * step
    with compile_kernels(model.SerializeToString(), cpu_now()) as network:
        assert np.abs(network.run({"x": X})["y"] - expected).max() <= 1.01 * step


def test_weights_beside_a_bias_that_just_fits_32_bits_are_halved() -> None:
    """ONNX Runtime's quantizer raises the scale of a channel's weights until its bias just fits 32 bits. The compiler
    halves the weights of these channels, and results are within a quantization step of ONNX Runtime's.
    """
    model = convolution(weight_scale=1e-6, output_scale=1.0)
    compiled = compile_program(model.SerializeToString(), TINY)
    operators = [node.operator for node in compiled.graph.nodes]
    (weight,) = [operator.weight for operator in operators if isinstance(operator, Int8Convolution)]
    assert np.abs(weight).max(axis=(1, 2, 3))[[0, 6]].tolist() == [64, 123]
    simulated = run(compiled, {"x": X}).outputs["y"]
    interpreted = load_outputs(
        compiled.graph, interpret(compiled.graph, store_inputs(compiled.graph, {"x": X}))
    )["y"]
    assert np.array_equal(simulated, interpreted)
    assert np.abs(simulated - reference(model)).max() <= 1.01
    with compile_kernels(model.SerializeToString(), cpu_now()) as network:
        assert np.abs(network.run({"x": X})["y"] - reference(model)).max() <= 1.01


@pytest.mark.parametrize("seed", range(20))
def test_a_moved_bias_gives_what_the_exact_sums_give(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.integers(-128, 128, (16, 12)).astype(np.int8)
    edges = [LOWEST, LOWEST + 70000, HIGHEST, HIGHEST - 70000, 2**31 + 10**6, 0]
    bias, zero_point = rng.choice(edges, 16), int(rng.integers(-128, 128))
    scale = np.full(16, 10.0 ** rng.uniform(-9, 0), np.float32)
    stage = Post(zero_point=int(rng.integers(-128, 128)))
    own, fitted, steps = fitted_sums(bias, weight, zero_point, scale, stage)
    data = rng.choice(np.array([-128, 127, 0, zero_point]), (12, 50))
    sums = own.astype(np.int64) @ data + fitted.astype(np.int64)[:, None]
    assert sums.min() >= LOWEST and sums.max() <= HIGHEST
    exact = bias[:, None] + weight.astype(np.int64) @ (data - zero_point)
    given = requantize(sums.astype(np.int32), steps[:, None], stage.zero_point).astype(int)
    differences = np.abs(given - requantize(exact, scale[:, None], stage.zero_point))
    assert differences[steps == scale].max(initial=0) == 0
    # Halved weights move a result by a small part of a step.
    assert differences.max() <= 1 and np.mean(differences) <= LEAST_PART


def test_sums_of_many_products_keep_their_weights_and_are_refused() -> None:
    weight = np.full((1, 60_000), 101, np.int8)
    with pytest.raises(AccumulatorError, match="the bias 2147480000 of channel 0 plus the products"):
        fitted_sums(np.array([2_147_480_000]), weight, 0, np.full(1, 4e-8, np.float32), Post(zero_point=0))


@pytest.mark.parametrize("name", ["xs", "ws", "ys", "bs"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -0.01, 1e-40])
def test_scales_that_are_no_scales_are_refused_by_every_target(name: str, value: float) -> None:
    model = convolution(EDGES // 1024)
    for tensor in model.graph.initializer:
        if tensor.name == name:
            array = numpy_helper.to_array(tensor).copy()
            array.reshape(-1)[-1] = value
            tensor.CopyFrom(numpy_helper.from_array(array, name))
    if name == "bs" and value == 1e-40:
        import_model(model.SerializeToString())  # a bias of next to nothing
        return
    if name in ("ws", "bs") and value == -0.01:
        # ONNX Runtime writes negative scales of constants and runs them.
        compiled = compile_program(model.SerializeToString(), TINY)
        assert np.abs(run(compiled, {"x": X}).outputs["y"] - reference(model)).max() <= 1.01 * 0.05
        with compile_kernels(model.SerializeToString(), cpu_now()) as network:
            assert np.abs(network.run({"x": X})["y"] - reference(model)).max() <= 1.01 * 0.05
        return
    data = model.SerializeToString()
    node = {"xs": "x_quantize", "ws": "weights", "ys": "y_quantize", "bs": "biases"}[name]
    for compile_for in (
        lambda: compile_program(data, TINY),
        lambda: compile_kernels(data, cpu_now()),
        lambda: compile_kernels(data, gpu_emulated(cuda_target())),
    ):
        with pytest.raises(
            NodeError, match=f"node '{node}' .*its scale is not a positive finite number: '{name}' holds"
        ):
            compile_for()


def test_a_scale_that_makes_weights_infinite_is_refused() -> None:
    model = convolution(weight_scale=3.4e38, bias_scale=1.0, output_scale=1e38)
    with pytest.raises(NodeError, match=r"node 'weights' .*makes constants infinite"):
        compile_kernels(model.SerializeToString(), cpu_now())


def test_a_bias_that_the_sums_cannot_represent_is_refused() -> None:
    """The bias 0.5 must be rounded to 0 or 1, since sums count in units of 1. The importer accepts a change of the
    result by 0.2 quantization steps (step 2.5) and refuses one by 0.56 steps (step 0.9). Regression: with an input
    scale of 1e8, a bias became 0.
    """
    bias = np.arange(8, dtype=np.int32)
    scales = {"input_scale": 100.0, "weight_scale": 0.01, "bias_scale": 0.5}
    import_model(convolution(bias, output_scale=2.5, **scales).SerializeToString())
    with pytest.raises(
        NodeError, match=r"the bias 0.5 of channel 1 is no multiple.*moves the result by 0.556"
    ):
        import_model(convolution(bias, output_scale=0.9, **scales).SerializeToString())

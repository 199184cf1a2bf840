"""Tests post-training quantization. The quantized file gives the same results in ONNX Runtime and in our interpreter,
and the quantization errors that the report names are those of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from campaign import examples, representatives
from float_networks import FloatNetwork, runtime
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from vdla.codesign.evaluate import kernels_saturate
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import Int8AveragePool
from vdla.compiler.quantize.error import Error
from vdla.compiler.quantize.float_model import assemble, constant_protos
from vdla.compiler.quantize.histogram import Histogram, choose_range
from vdla.compiler.quantize.plan import plan_quantization
from vdla.compiler.quantize.quantize import Quantized, Recipe, quantize_model, read_model
from vdla.compiler.quantize.scales import (
    activation_quantization,
    bias_scales,
    quantize_bias,
    quantize_weights,
    weight_scales,
)

SAMPLES = 3
SIGNED = Recipe(activations="int8")


def prepare(model: onnx.ModelProto) -> Callable:
    data = model.SerializeToString()
    return lambda feeds: runtime(data, dict(feeds))


def samples_of(network: FloatNetwork, count: int = SAMPLES, seed: int = 7) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(0.2, 1.0, network.input_shape).astype(np.float32)} for _ in range(count)]


def quantized(network: FloatNetwork, recipe: Recipe | None = None, **outputs: tuple[int, ...]) -> Quantized:
    model = read_model(network.model(**outputs))
    return quantize_model(model, samples_of(network), prepare, recipe or Recipe())


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def random_cnn(seed: int) -> FloatNetwork:
    """A random network: convolutions of all kinds with common operators between them, a residual, pools, and a dense
    layer.
    """
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(2, 6))
    net = FloatNetwork(int(rng.integers(1, 3)), channels, int(rng.integers(7, 11)), 9, seed=seed)
    clamps = [[], ["Relu"], ["Clip"], ["Clip", "Relu"]]

    def clamp(kinds: list[str]) -> None:
        for kind in kinds:
            bounds = [net.constant(np.float32(-0.4)), net.constant(np.float32(1.5))]
            net.add(kind, *(bounds if kind == "Clip" else []))

    for _ in range(2):
        filters, kernel = int(rng.integers(2, 9)), (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        pads = [int(rng.integers(0, size)) for size in (*kernel, *kernel)]
        strides = [int(rng.integers(1, 3)), 1]
        net.convolution(filters, kernel, bias=bool(rng.integers(2)), pads=pads, strides=strides)
        if rng.integers(2):
            net.batch_normalization(filters)
        clamp(clamps[rng.integers(4)])
    match rng.integers(3):
        case 0:
            net.add("MaxPool", kernel_shape=[2, 2], pads=[0, 1, 1, 0])
        case 1:
            net.add("AveragePool", kernel_shape=[2, 2], count_include_pad=int(rng.integers(2)))
        case 2:
            net.batch_normalization(net.shape[1])
            net.add("MaxPool", kernel_shape=[2, 1])
            net.add("Relu")
    branch = net.last
    channels = net.shape[1]
    first = [net.constant(np.array([2.0], np.float32))] if rng.integers(2) else []
    if first:
        branch = net.add("Mul", *first)
    net.add("Conv", net.weights(channels, 1, 3, 3), group=channels, pads=[1, 1, 1, 1])
    net.add("Add", branch)
    clamp(clamps[rng.integers(4)])
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.add("MatMul", net.weights(channels, 5))
    net.add("Add", net.weights(5))
    net.shape = (net.input_shape[0], 5)
    return net


RECIPES = (Recipe(), SIGNED, Recipe(method="minmax", per_channel=False))


@pytest.mark.parametrize(
    ("recipe", "seed"),
    representatives(
        [(recipe, seed) for recipe in RECIPES for seed in range(4)],
        0,
        # Every recipe with two networks.
        always=[(recipe, (2 * i + j) % 4) for i, recipe in enumerate(RECIPES) for j in (0, 1)],
    ),
)
def test_every_layer_of_random_networks_is_within_one_step_of_onnxruntime(
    recipe: Recipe, seed: int, layers_against_runtime, fusion_exact
) -> None:
    network = random_cnn(seed)
    result = quantized(network, recipe)
    data = result.proto.SerializeToString()
    feed = samples_of(network)[0]
    optimized = recipe.activations == "uint8" and not kernels_saturate()
    differences = layers_against_runtime(data, feed, optimized)
    graph = import_model(data)
    assert {Int8Convolution, Int8AveragePool} <= {
        type(node.operator) for node in graph.nodes
    } and not result.float_operators
    assert max(differences.values()) <= 1, differences
    fusion_exact(graph, feed)
    assert "BatchNormalization" not in operators(result.proto)


@pytest.mark.parametrize("recipe", [Recipe(), SIGNED])
def test_reported_errors_are_those_of_onnxruntime(recipe: Recipe) -> None:
    network = random_cnn(0)
    result = quantized(network, recipe)
    (name,) = result.outputs
    error = Error()
    for feeds in samples_of(network):
        expected, got = (
            runtime(model, feeds)[name] for model in (network.model(), result.proto.SerializeToString())
        )
        error.add(expected, got)
    reported = result.outputs[name]
    assert reported.sqnr > 15.0 and reported.relative_maximum < 0.2
    assert reported.sqnr == pytest.approx(error.sqnr, abs=1.0)
    assert reported.relative_maximum == pytest.approx(error.relative_maximum, rel=0.25)
    assert (reported.rows, reported.top1) == (error.rows, error.top1)
    assert [layer.operator for layer in result.layers].count("Conv") >= 3
    assert all(layer.error.sqnr > 15.0 for layer in result.layers)


def test_channels_of_different_size_need_scales_of_their_own() -> None:
    network = FloatNetwork(1, 4, 8, 8, seed=3)
    network.convolution(6, (3, 3))
    weight = network.initializers[0]
    spread = numpy_helper.to_array(weight) * np.logspace(-2, 0, 6, dtype=np.float32).reshape(-1, 1, 1, 1)
    weight.CopyFrom(numpy_helper.from_array(spread.astype(np.float32), weight.name))
    network.convolution(5, (1, 1))
    fine, coarse = (quantized(network, Recipe(per_channel=flag)) for flag in (True, False))
    (name,) = fine.outputs
    assert fine.outputs[name].sqnr > coarse.outputs[name].sqnr + 1.0
    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in fine.proto.graph.initializer}
    assert scales["c0_scale"].shape == (6,) and scales["c1_quantized"].dtype == np.int32


def test_folding_gives_the_same_function() -> None:
    network = FloatNetwork(2, 3, 8, 8, seed=5)
    network.add("Identity")
    network.add("Pad", network.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1])))
    network.add("Conv", network.weights(4, 3, 3, 3), pads=[1, 0, 0, 0])
    network.add("Add", network.weights(4, 1, 1))
    network.batch_normalization(4)
    network.add("Relu")
    network.batch_normalization(4)
    network.add("ConvTranspose", network.weights(4, 3, 2, 2), group=2, strides=[2, 2])
    network.batch_normalization(6)
    network.add("Dropout")
    network.add("ReduceMean", axes=[-1, 2], keepdims=0)
    network.add("Gemm", network.weights(6, 5), network.constant(np.float32([[0.5]])), alpha=0.5, beta=2.0)
    network.batch_normalization(5)
    network.shape = (2, 5)
    data = network.model()
    model = read_model(data)
    assert [node.op_type for node in model.nodes] == [
        "Conv",
        "Relu",
        "Conv",
        "ConvTranspose",
        "GlobalAveragePool",
        "Flatten",
        "Gemm",
    ]
    folded = assemble(model.header, model.nodes, constant_protos(model.constants)).SerializeToString()
    (feeds,) = samples_of(network, 1)
    expected, got = (runtime(each, feeds)[network.last] for each in (data, folded))
    np.testing.assert_allclose(got, expected, atol=1e-5 * np.abs(expected).max())
    result = quantized(network)
    assert "Flatten" not in result.float_operators and result.outputs[network.last].sqnr > 15.0
    onnxruntime_output = runtime(result.proto.SerializeToString(), feeds)[network.last]
    assert np.abs(onnxruntime_output - expected).max() < 0.2 * np.abs(expected).max()


def test_a_dropout_stays_where_its_mask_is_read_or_it_trains() -> None:
    network = FloatNetwork(1, 8)
    for masked, training in ((False, None), (False, False), (False, True), (True, None), (True, False)):
        given = [] if training is None else ["", network.constant(np.array(training))]
        network.add("Dropout", *given)
        if masked:
            network.nodes[-1].output.append(f"{network.last}.mask")
        network.add("Relu")
    model = read_model(network.model())
    assert [node.op_type for node in model.nodes].count("Dropout") == 3


def test_tensors_that_hold_the_same_values_share_a_scale() -> None:
    network = FloatNetwork(1, 3, 6, 6)
    a = network.convolution(4, (1, 1))
    network.weights(4, 3, 1, 1)
    b = network.add("Conv", inputs=["x", "c2"])
    network.add("Concat", inputs=[a, b, network.weights(1, 2, 6, 6)], axis=1)
    network.add("MaxPool", kernel_shape=[2, 2])
    pooled = network.last
    network.add("Pad", network.constant(np.array([0, 0, 0, 0, 0, 0, 1, 1])))
    network.add("Transpose", perm=[0, 2, 3, 1])
    network.add("Reshape", network.constant(np.array([1, -1])))
    network.add("Gemm", network.weights(360, 3))
    network.shape = (1, 3)
    model = read_model(network.model())
    plan = plan_quantization(model)
    groups = {plan.scale_of[name] for name in (a, b, pooled, model.nodes[-1].input[0])}
    assert len(groups) == 1 and len(set(plan.scale_of.values())) == 3  # with the input's and the output's
    result = quantized(network)
    initializers = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.proto.graph.initializer}
    assert len({float(initializers[f"{name}_scale"]) for name in (a, b, pooled)}) == 1
    runtime(result.proto.SerializeToString(), samples_of(network)[0])


def test_what_belongs_to_a_float_operator_stays_float() -> None:
    network = FloatNetwork(1, 3, 4, 4)
    conv = network.convolution(4, (1, 1))
    gate = network.add("Sigmoid")
    swish = network.add("Mul", inputs=[conv, gate])
    network.add("Conv", network.weights(2, 4, 1, 1))
    network.add("Reshape", network.constant(np.array([1, -1])))
    network.add("Softmax", axis=1)
    network.shape = (1, 32)
    result = quantized(network)
    assert result.float_operators == {"Sigmoid": 1, "Mul": 1, "Softmax": 1}
    read_by = {node.op_type: list(node.input) for node in result.proto.graph.node}
    assert read_by["Sigmoid"] == [f"{conv}_DequantizeLinear_Output"]
    assert read_by["Mul"] == [f"{conv}_DequantizeLinear_Output", gate]
    assert f"{swish}_scale" in {tensor.name for tensor in result.proto.graph.initializer}
    assert result.outputs[network.last].relative_maximum < 0.05


def test_a_clamp_disappears_only_where_the_integers_end_as_it_does() -> None:
    network = FloatNetwork(1, 3, 4, 4)
    network.convolution(4, (1, 1))
    network.add("Relu")
    network.convolution(4, (1, 1))
    assert operators(quantized(network).proto).count("Relu") == 0
    assert operators(quantized(network, SIGNED).proto).count("Relu") == 1
    # An output of the model, or one with another reader, is not fused with the ReLU behind it.
    both = quantized(network, None, **{"n0.out": (1, 4, 4, 4), network.last: network.shape})
    assert operators(both.proto).count("Relu") == 1


def test_weights_that_nodes_share_are_written_once() -> None:
    network = FloatNetwork(1, 3, 4, 4)
    weight = network.weights(3, 3, 1, 1)
    network.add("Conv", weight)
    network.add("Conv", weight)
    network.add("Add", "n0.out")
    network.add("Conv", weight, network.weights(3))
    network.shape = (1, 3, 4, 4)
    result = quantized(network)
    integers = [t.name for t in result.proto.graph.initializer if t.data_type == onnx.TensorProto.INT8]
    assert (
        integers.count("c0_quantized") == 1
        and len([name for name in integers if "zero_point" not in name]) == 1
    )
    assert "c0" not in {tensor.name for tensor in result.proto.graph.initializer}
    runtime(result.proto.SerializeToString(), samples_of(network)[0])


def test_a_bias_far_above_its_weights_keeps_its_value() -> None:
    network = FloatNetwork(1, 2, 3, 3)
    weight = np.float32([[1e-12, 0.0], [0.0, 0.0], [0.5, 1.0]]).reshape(3, 2, 1, 1)
    bias = np.float32([3.0, -2.0, 1.0])
    network.add("Conv", network.constant(weight), network.constant(bias))
    network.shape = (1, 3, 3, 3)
    result = quantized(network)
    (feeds,) = samples_of(network, 1)
    got = runtime(result.proto.SerializeToString(), feeds)[network.last]
    step = float(result.layers[0].quantization.scale)
    assert np.abs(got[0, 0] - 3.0).max() <= step and np.abs(got[0, 1] + 2.0).max() <= step


def test_equal_arguments_give_equal_bytes() -> None:
    network = random_cnn(1)
    first, second = (quantized(network).proto.SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


reals = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(reals, min_size=1, max_size=20), st.sampled_from(["uint8", "int8"]))
def test_a_range_is_covered_with_zero_exact(values: list[float], dtype) -> None:
    low, high = min(values), max(values)
    quantization = activation_quantization(low, high, dtype)
    scale, limits = float(quantization.scale), np.iinfo(dtype)
    assert limits.min <= quantization.zero_point <= limits.max
    assert dtype == "uint8" or quantization.zero_point == 0
    array = np.array([*values, 0.0])
    integers = np.clip(np.rint(array / scale) + quantization.zero_point, limits.min, limits.max)
    real = (integers - quantization.zero_point) * scale
    assert real[-1] == 0.0
    # Rounding the zero point may cost half a step more at one end.
    assert np.abs(real - array).max() <= scale * (1.0 + 1e-5)
    span = high - min(low, 0.0) if dtype == "uint8" else max(abs(low), abs(high))
    assert scale <= 1.0 or scale <= max(span, -low) / 127 * 1.01


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.lists(reals, min_size=3, max_size=3), min_size=1, max_size=4),
    st.sampled_from([None, 0]),
    st.floats(1e-5, 10.0),
)
def test_weights_and_biases_are_within_half_a_step(rows, axis, input_scale: float) -> None:
    weight = np.array(rows, np.float32)
    bias = weight[:, 0] * 100.0
    scale = weight_scales(weight, axis, bias=bias, input_scale=input_scale)
    assert scale.shape == (() if axis is None else (len(rows),)) and (scale > 0).all()
    integers = quantize_weights(weight, scale, axis).astype(np.float64)
    wide = scale.astype(np.float64).reshape(-1, 1) if axis == 0 else float(scale)
    assert np.abs(integers * wide - weight).max() <= np.max(wide) * 0.5001
    step = bias_scales(np.float32(input_scale), scale)
    steps = quantize_bias(bias, step)
    assert np.abs(steps.astype(np.int64)).max(initial=0) <= 2**30 + 2**8
    assert (np.abs(steps * step.astype(np.float64) - bias) <= np.abs(step) * 0.5001).all()


def test_ranges_of_outliers() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.standard_normal(20_000), [60.0, -50.0]]).astype(np.float32)
    histogram = Histogram.empty(float(values.min()), float(values.max()))
    histogram.add(values)
    assert histogram.counts.sum() == values.size

    def error(limits: tuple[float, float], dtype) -> float:
        quantization = activation_quantization(*limits, dtype)
        integers = np.rint(values / quantization.scale) + quantization.zero_point
        integers = np.clip(integers, np.iinfo(dtype).min, np.iinfo(dtype).max) - quantization.zero_point
        return float(((integers * quantization.scale - values) ** 2).sum())

    for dtype in ("uint8", "int8"):
        full = choose_range(histogram, "minmax", dtype)
        assert full == (histogram.low, histogram.high)
        low, high = choose_range(histogram, "percentile", dtype, percentile=99.0)
        assert -3.0 < low < -2.0 and 2.0 < high < 3.0
        best = choose_range(histogram, "mse", dtype)
        grid = [(-50.0 * part, 60.0 * part) for part in np.linspace(0.05, 1.0, 60)]
        assert error(best, dtype) <= 1.02 * min(error(limits, dtype) for limits in (full, *grid))
    constant = Histogram.empty(2.0, 2.0)
    constant.add(np.full(5, 2.0, np.float32))
    assert choose_range(constant, "mse", "uint8") == (2.0, 2.0)


def test_errors_of_tensors() -> None:
    error = Error()
    error.add(np.float32([[1.0, 2.0], [4.0, 2.0]]), np.float32([[1.0, 2.0], [1.0, 2.0]]))
    assert error.sqnr == pytest.approx(10 * np.log10(25 / 9)) and error.relative == pytest.approx(0.6)
    assert error.relative_maximum == 0.75 and error.top1 == 0.5
    exact = Error()
    exact.add(np.zeros((1, 2, 3, 3), np.float32), np.zeros((1, 2, 3, 3), np.float32))
    assert (exact.sqnr, exact.relative, exact.relative_maximum, exact.top1) == (None, 0.0, 0.0, None)

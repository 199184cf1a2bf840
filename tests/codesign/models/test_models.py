"""The shipped models: structure, use of the integer range in every layer, agreement of their forms (float, QDQ,
QOperator), and refusals.
"""

import itertools
from collections import Counter
from functools import cache

import numpy as np
import onnx
import pytest
from campaign import representatives
from shipped import shipped

from vdla.codesign import models
from vdla.codesign.models.layers import Convolution, Dense, count_parameters
from vdla.codesign.models.topologies import resnet18, resnet50
from vdla.util.errors import UserError

ort = pytest.importorskip("onnxruntime")

QUANTIZED = ("u8", "s8", "qop")
SMALL = ("small_cnn", "mlp")
SEEN = (*SMALL, "dqn")


@cache
def built(name: str, form: str) -> bytes:
    return shipped(name, form)


def session(data: bytes, optimize: bool = True, save: str | None = None):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # two spin against whatever else runs
    options.log_severity_level = 3
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if save:
        options.optimized_model_filepath = save
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def integer_outputs(model: onnx.ModelProto) -> list[str]:
    """Names of all integer activations of a quantized model."""
    if any(node.domain == "com.microsoft" or node.op_type == "QLinearConv" for node in model.graph.node):
        return [node.output[0] for node in model.graph.node if node.op_type != "DequantizeLinear"]
    return [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]


def run_all(name: str, form: str, inputs: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Runs a shipped model on ONNX Runtime for all `inputs`; returns its outputs, and every integer activation
    by name.
    """
    model = onnx.load_from_string(built(name, form))
    names = integer_outputs(model)
    dtype = onnx.TensorProto.INT8 if form == "s8" else onnx.TensorProto.UINT8
    model.graph.output.extend(onnx.helper.make_tensor_value_info(tensor, dtype, None) for tensor in names)
    runner = session(model.SerializeToString(), optimize=form != "s8")
    results = [runner.run(None, {"input": sample[None]}) for sample in inputs]
    columns = [np.concatenate([result[i] for result in results]) for i in range(len(names) + 1)]
    return columns[0], dict(zip(names, columns[1:], strict=True))


def run_float(name: str, inputs: np.ndarray) -> np.ndarray:
    runner = session(built(name, "float"))
    return np.concatenate([runner.run(None, {"input": sample[None]})[0] for sample in inputs])


def check_health(values: dict[str, np.ndarray], signed: bool) -> None:
    """Asserts that each integer activation in `values` uses at least 64 values and saturates in under 1% of its
    elements. With uint8 activations (`signed` False) a ReLU may clip any number of elements at 0, the zero point.
    """
    low, high = (-128, 127) if signed else (0, 255)
    for name, integers in values.items():
        assert len(np.unique(integers)) >= 64, name
        assert np.mean(integers == high) < 0.01, name
        clipped = np.mean(integers == low)
        bottom = np.partition(np.unique(integers), 1)[:2]
        # A lowest value far more common than the next is the ReLU's zero, not a saturated tail.
        assert clipped < 0.01 or (not signed and clipped > 5 * np.mean(integers == bottom[1])), name


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sum(a * b, axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


@pytest.mark.parametrize(
    ("name", "form"),
    representatives(
        itertools.product(SEEN, QUANTIZED), 0, always=[("small_cnn", "qop"), ("mlp", "u8"), ("dqn", "s8")]
    ),
)
def test_small_models_are_healthy_and_follow_the_float_model(name, form):
    inputs = models.sample_inputs(name, 64)
    outputs, integers = run_all(name, form, inputs)
    check_health(integers, signed=form == "s8")
    for start in range(0, 64, 8):
        assert len(set(outputs[start : start + 8].argmax(axis=1))) >= 4
    agreement = cosines(outputs, run_float(name, inputs))
    assert agreement.mean() > 0.99
    assert agreement.min() > 0.9


@pytest.mark.parametrize("form", representatives(QUANTIZED, 0, always=["u8"]))
def test_resnet18_is_healthy_and_follows_the_float_model(form):
    inputs = models.sample_inputs("resnet18", 8)
    outputs, integers = run_all("resnet18", form, inputs)
    check_health(integers, signed=form == "s8")
    assert len(set(outputs.argmax(axis=1))) >= 4
    agreement = cosines(outputs, run_float("resnet18", inputs))
    assert agreement.mean() > 0.93
    assert agreement.min() > 0.75


@pytest.mark.parametrize("form", representatives(("u8", "s8"), 0, always=["u8"]))
def test_resnet18_tells_noise_images_apart(form):
    noise = np.random.default_rng(3).standard_normal((8, 3, 224, 224)).astype(np.float32)
    outputs, integers = run_all("resnet18", form, noise)
    check_health(integers, signed=form == "s8")
    assert len(set(outputs.argmax(axis=1))) >= 4


def test_resnet18_has_the_exact_topology():
    network = resnet18(0)
    assert count_parameters(network) == 11_684_712  # 11,689,512 less the 4,800 folded batch normalizations
    model = onnx.shape_inference.infer_shapes(onnx.load_from_string(built("resnet18", "float")))
    counts = Counter(node.op_type for node in model.graph.node)
    assert counts == {
        "Conv": 20, "Relu": 17, "MaxPool": 1, "Add": 8, "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1
    }  # fmt: skip
    shapes = {
        value.name: [d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in [*model.graph.value_info, *model.graph.output]
    }
    weights = {layer.name: layer for layer in network.layers if isinstance(layer, Convolution | Dense)}
    multiplies = 0
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            positions = np.prod(shapes[node.output[0]][2:], dtype=int)
            multiplies += int(positions) * weights[node.name].weight.size
    assert multiplies == 1_814_073_344
    assert shapes["maxpool"] == [1, 64, 56, 56]
    assert shapes["layer4.1.add"] == [1, 512, 7, 7]


def test_resnet50_has_the_exact_topology():
    network = resnet50(0)
    assert count_parameters(network) == 25_530_472  # 25,557,032 less the 26,560 folded batch normalizations
    convolutions = [layer for layer in network.layers if isinstance(layer, Convolution)]
    assert len(convolutions) == 53
    strided = [layer.name for layer in convolutions if layer.stride == 2]
    assert strided == [
        "conv1",
        *(f"layer{k}.0.{part}" for k in (2, 3, 4) for part in ("conv2", "downsample")),
    ]


def test_onnx_runtime_fuses_every_convolution_of_the_uint8_form(tmp_path):
    path = str(tmp_path / "optimized.onnx")
    session(built("resnet18", "u8"), save=path)
    counts = Counter(node.op_type for node in onnx.load(path).graph.node)
    assert counts["QLinearConv"] == 20
    assert counts["QLinearAdd"] == 8
    assert counts["QLinearGlobalAveragePool"] == 1
    assert counts["QGemm"] == 1
    assert counts["Conv"] == counts["Add"] == counts["Gemm"] == 0
    assert counts["QuantizeLinear"] == counts["DequantizeLinear"] == 1


@pytest.mark.parametrize("name", SMALL)
def test_qdq_and_qoperator_forms_agree(name):
    inputs = models.sample_inputs(name, 8, seed=4)
    qdq, _ = run_all(name, "u8", inputs)
    qoperator, _ = run_all(name, "qop", inputs)
    np.testing.assert_array_equal(qdq, qoperator)


@pytest.mark.parametrize(
    ("name", "form"),
    representatives(
        itertools.product(SMALL, models.FORMS),
        0,
        always=[("small_cnn", "u8"), *(("mlp", form) for form in models.FORMS)],
    ),
)
def test_models_are_valid_and_reproducible(name, form, tmp_path):
    model = onnx.load_from_string(built(name, form))
    onnx.checker.check_model(model, full_check=form != "qop")
    assert model.opset_import[0].version >= 17
    models.write(tmp_path / "again.onnx", name, form)
    assert (tmp_path / "again.onnx").read_bytes() == built(name, form)
    assert built(name, form) != models.build(name, form, seed=1).SerializeToString(deterministic=True)


@pytest.mark.parametrize("form", QUANTIZED)
def test_bias_scales_are_products_and_weights_use_their_range(form):
    model = onnx.load_from_string(built("small_cnn", form))
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for layer, data in (("conv1", "input"), ("conv2", "maxpool" if form == "qop" else "maxpool.result")):
        weights = arrays[f"{layer}.weight_quantized"]
        assert weights.dtype == np.int8
        assert (np.abs(weights.astype(int)).reshape(len(weights), -1).max(axis=1) >= 126).all()
        assert arrays[f"{layer}.bias_quantized"].dtype == np.int32
        if form != "qop":
            product = arrays[f"{data}_scale"] * arrays[f"{layer}.weight_scale"]
            np.testing.assert_array_equal(arrays[f"{layer}.bias_scale"], product)
    if form == "s8":
        assert all((array == 0).all() for name, array in arrays.items() if name.endswith("zero_point"))
    kinds = Counter(node.op_type for node in model.graph.node)
    assert kinds["Relu"] == (4 if form == "s8" else 0)


def test_batch_changes_only_shapes():
    inputs = models.sample_inputs("small_cnn", 3)
    batched = session(models.build("small_cnn", "u8", batch=3).SerializeToString())
    together = batched.run(None, {"input": inputs})[0]
    single, _ = run_all("small_cnn", "u8", inputs)
    np.testing.assert_array_equal(together, single)


def test_samples_do_not_depend_on_how_many_are_asked_for():
    np.testing.assert_array_equal(
        models.sample_inputs("small_cnn", 5, seed=7)[:2], models.sample_inputs("small_cnn", 2, seed=7)
    )
    assert models.sample_inputs("mlp", 2).shape == (2, 784)
    assert models.sample_inputs("mlp", 1).dtype == np.float32


def run_with_activations(name: str, operator: str, inputs: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The output of a shipped float network, and the outputs of all its nodes with this operator."""
    model = onnx.load_from_string(built(name, "float"))
    tensors = [node.output[0] for node in model.graph.node if node.op_type == operator]
    model.graph.output.extend(
        onnx.helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, None) for tensor in tensors
    )
    output, *rest = session(model.SerializeToString(), optimize=False).run(None, {"input": inputs})
    return output, rest


def test_dcgan_makes_different_images_and_normalizes_every_layer():
    inputs = np.random.default_rng(5).standard_normal((1, 100), dtype=np.float32)
    image, normalized = run_with_activations("dcgan", "BatchNormalization", inputs)
    assert image.shape == (1, 3, 64, 64)
    assert 0.05 < image.std() < 0.7
    assert np.abs(image).max() < 0.999
    assert [values.shape[1:] for values in normalized] == [
        (1024, 4, 4), (512, 8, 8), (256, 16, 16), (128, 32, 32)
    ]  # fmt: skip
    for values in normalized:
        assert 0.6 < values.std() < 1.6
        assert abs(values.mean()) < 0.3
    others = models.sample_inputs("dcgan", 2)
    first, second = (run_float("dcgan", sample[None])[0] for sample in others)
    assert np.abs(first - second).mean() > 0.05


def test_the_language_model_tells_words_apart_and_carries_its_state():
    embedded = models.sample_inputs("language_model", 1)
    logits, states = run_with_activations("language_model", "LSTM", embedded)
    assert logits.shape == (1, 35, 10_000)
    assert [values.shape for values in states] == [(35, 1, 1, 650)] * 2
    for values in states:
        assert 0.01 < values[5:].std() < 0.9
    assert len(set(logits[0].argmax(axis=1))) >= 12
    changed = embedded.copy()
    changed[0, 3] += 1
    others, _ = run_with_activations("language_model", "LSTM", changed)
    np.testing.assert_array_equal(others[0, :3], logits[0, :3])
    assert (np.abs(others - logits)[0, 3:6].max(axis=1) > 1e-4).all()


def test_refusals(tmp_path):
    with pytest.raises(
        UserError, match="resnet18, resnet50, mobilenet, dqn, small_cnn, mlp, dcgan, language_model"
    ):
        models.build("resnet7")
    with pytest.raises(UserError, match="u8, s8, qop"):
        models.build("mlp", "u4")
    with pytest.raises(UserError, match="dcgan exists in the form float only"):
        models.build("dcgan", "u8")
    with pytest.raises(UserError, match="batch of 0"):
        models.build("mlp", batch=0)
    with pytest.raises(UserError, match="negative"):
        models.sample_inputs("mlp", 1, seed=-1)
    with pytest.raises(UserError, match="cannot be written"):
        models.write(tmp_path / "missing" / "m.onnx", "mlp")
    assert list(tmp_path.iterdir()) == []

"""TFLite models: every operator and form against LiteRT, networks, and a model that TensorFlow wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tflite

import vdla
from vdla.benchmarks.harness import tflite_one_operator as make
from vdla.benchmarks.harness.quantized import vta_with
from vdla.benchmarks.harness.tflite_files import Written, litert, samples
from vdla.benchmarks.harness.tflite_networks import NETWORKS
from vdla.benchmarks.harness.tflite_operators import cases
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.frontends.onnx.model.read import read_model
from vdla.compiler.frontends.tflite.rows import ROWS
from vdla.compiler.graph.abilities import ACCELERATOR, Abilities
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run

SYMMETRIC = [np.array([[0, 0], [4, 3], [2, 5], [0, 0]], np.int32)]
KERAS = Path(__file__).with_name("keras_int8.tflite")
STEPS = {"RESIZE_BILINEAR int8": 1, "LEAKY_RELU int8": 1, "QUANTIZE int8 int8": 1}
"""Largest allowed difference from LiteRT's default kernels in quantization steps, by the beginning of a case's name (0
for all other cases). LiteRT's reference kernels differ from its default kernels by as much.
"""
INTEGERS = (
    *(
        "ADD",
        "AVERAGE_POOL_2D",
        "BATCH_MATMUL",
        "CONCATENATION",
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "FULLY_CONNECTED",
    ),
    *(
        "GELU",
        "HARD_SWISH",
        "LOGISTIC",
        "MAX_POOL_2D",
        "MEAN",
        "MUL",
        "PAD",
        "QUANTIZE",
        "RELU",
        "RELU6",
        "RESHAPE",
    ),
    *("RESIZE_BILINEAR", "SOFTMAX", "SPLIT", "TANH", "TRANSPOSE", "TRANSPOSE_CONV"),
)
"""Operators that become integer nodes of the accelerator's graph if their tensors are int8."""
ALL = dict(cases())


def allowed(name: str) -> int:
    return max((steps for start, steps in STEPS.items() if name.startswith(start)), default=0)


def check(name: str, ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        assert mine.dtype == other.dtype
        if mine.dtype.kind == "f":
            tolerance = 1e-2 if "hybrid" in name else 2e-6
            np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance * np.abs(other).max())
        else:
            away = np.abs(mine.astype(np.int64) - other)
            assert away.max(initial=0) <= allowed(name)


def run_onnx(content: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Converts a TFLite file and runs the ONNX model in ONNX Runtime; returns its outputs in the model's order."""
    read = read_model(content)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(read.converted, options)
    names = [info.name for info in read.bare.graph.input]
    return [np.asarray(array) for array in session.run(None, dict(zip(names, inputs, strict=True)))]


def run_integers(content: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Converts a TFLite file and interprets the accelerator's integer graph; returns its outputs."""
    graph = import_model(content, abilities=ACCELERATOR)
    names = [entry.name for entry in graph.inputs]
    arrays = store_inputs(graph, dict(zip(names, inputs, strict=True)))
    found = load_outputs(graph, interpret(graph, arrays))
    return [found[output.name] for output in graph.outputs]


@pytest.mark.parametrize("name", ALL)
def test_every_operator_computes_as_litert(name: str) -> None:
    model = ALL[name]()
    content, inputs = model.content(), samples(model)
    theirs = litert(content, inputs)
    check(name, run_onnx(content, inputs), theirs)
    kind, form = name.split()[:2]
    if kind in INTEGERS and form == "int8":
        check(name, run_integers(content, inputs), theirs)


MENDED = {
    "CONV_2D int16 many scales": lambda: make.convolution(
        "int16", plane=(12, 12), channels=make.Channels(ci=16, co=16), window=make.Window(k=(1, 1))
    ),
    "DEPTHWISE_CONV_2D int16 multiplier": lambda: make.convolution(
        "int16", channels=make.Channels(depthwise=2), window=make.Window(stride=(2, 2))
    ),
    "TRANSPOSE_CONV int16": lambda: make.transposed("int16"),
    "BATCH_MATMUL int16": lambda: make.multiplied("int16"),
    "BATCH_MATMUL int16 turned": lambda: make.multiplied("int16", right=True),
    **{
        f"RESIZE_BILINEAR int16 {size} {align} {half}": (
            lambda size=size, align=align, half=half: make.resized("int16", "RESIZE_BILINEAR", size, align, half)
        )
        for size in ((10, 12), (7, 11), (2, 1))
        for align, half in ((False, False), (False, True), (True, False))
    },
    **{
        f"MIRROR_PAD {form} symmetric": (
            lambda form=form: make.moved(
                form, "MIRROR_PAD", (1, 4, 5, 6), (1, 11, 12, 6), SYMMETRIC, "MirrorPad", Mode=1
            )
        )
        for form in ("int8", "int16", "float")
    },
    "MIRROR_PAD int8 symmetric planes": lambda: make.behind_planes(
        make.convolution("int8", plane=(4, 5), channels=make.Channels(co=6)),
        "MIRROR_PAD", (1, 11, 12, 6), SYMMETRIC, "MirrorPad", Mode=1
    ),
    "SOFTMAX int16 image": lambda: make.soft("int16", shape=(2, 4, 3, 9), scale=0.0003),
    "SOFTMAX int16 beta": lambda: make.soft("int16", shape=(64, 16), scale=0.00007, beta=0.5),
    "STRIDED_SLICE float masked index": lambda: make.moved(
        "float", "STRIDED_SLICE", (2, 9, 1), (1, 1),
        [np.array(numbers, np.int32) for numbers in ([0, 7, 0], [2, 8, 20], [2, 1, 1])],
        "StridedSlice", BeginMask=7, ShrinkAxisMask=2,
    ),
}  # fmt: skip
"""Regression tests: models of one operator, in forms that random graphs showed to be wrong or refused."""


def pooled_and_padded(*order: str) -> Written:
    """A model of the operators `order`, some of AVERAGE_POOL_2D, SLICE, REVERSE_V2 and PAD, on an int8 image."""
    model, shape = Written(), np.array([1, 6, 7, 5])
    last = model.input(shape.tolist(), zero=17)
    for kind in order:
        numbers: list[np.ndarray] = []
        options, fields = {"SLICE": "Slice", "REVERSE_V2": "ReverseV2", "PAD": "Pad"}.get(kind, "Pool2D"), {}
        match kind:
            case "SLICE":
                shape -= [0, 1, 0, 0]
                numbers = [np.array([0, 1, 0, 0]), shape.copy()]
            case "REVERSE_V2":
                numbers = [np.array([2])]
            case "PAD":
                shape += [0, 1, 2, 0]
                numbers = [np.array([[0, 0], [1, 0], [0, 2], [0, 0]])]
            case _:
                shape -= [0, 1, 1, 0]
                fields = {"Padding": 1, "StrideH": 1, "StrideW": 1, "FilterHeight": 2, "FilterWidth": 2}
        constants = [model.constant(array.astype(np.int32)) for array in numbers]
        last = model.add(kind, [last, *constants], model.like(last, shape.tolist()), options, **fields)
    model.outputs = [last]
    return model


@pytest.mark.parametrize(
    "order",
    [
        ("AVERAGE_POOL_2D", "SLICE", "PAD"),
        ("AVERAGE_POOL_2D", "REVERSE_V2", "PAD"),
        ("SLICE", "PAD", "AVERAGE_POOL_2D"),
        ("REVERSE_V2", "PAD", "REVERSE_V2", "AVERAGE_POOL_2D"),
    ],
    ids="-".join,
)
def test_pads_beside_averages_are_zeros(order: tuple[str, ...]) -> None:
    model = pooled_and_padded(*order)
    content, inputs = model.content(), samples(model)
    theirs = litert(content, inputs)
    check("", run_onnx(content, inputs), theirs)
    check("", run_integers(content, inputs), theirs)


@pytest.mark.parametrize("name", MENDED)
def test_forms_that_random_graphs_found(name: str) -> None:
    model = MENDED[name]()
    content, inputs = model.content(), samples(model)
    theirs = litert(content, inputs)
    check(name, run_onnx(content, inputs), theirs)
    network = vdla.compile(content, target="llvm", cache=False)
    found = network.run({port.name: array for port, array in zip(network.inputs, inputs, strict=True)})
    check(name, [found[port.name] for port in network.outputs], theirs)


@pytest.mark.parametrize("bias", [None, np.int64, np.int32], ids=str)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"])
def test_int16_products_are_rounded_as_by_litert(kind: str, per_channel: bool, bias: type | None) -> None:
    """Products of int16 activations give LiteRT's results. The test computes 12,288 sums for each of three scales of
    the result; some of the scaled sums are close to a rounding tie.
    """
    if (kind, bias) in (("CONV_2D", None), ("DEPTHWISE_CONV_2D", np.int32)):
        pytest.skip("LiteRT refuses this form")
    rows, channels, rng = 4096, 3, np.random.default_rng(7)
    depth = channels if kind == "DEPTHWISE_CONV_2D" else 5
    data = rng.integers(-(2**15), 2**15, (rows, depth)).astype(np.int16)
    for scale in (0.002, 0.013, 0.4):
        model = Written()
        matrix = kind == "FULLY_CONNECTED"
        x = model.input((rows, depth) if matrix else (1, rows, 1, depth), np.int16, 0.000371)
        shape = {"FULLY_CONNECTED": (channels, depth), "DEPTHWISE_CONV_2D": (1, 1, 1, depth)}.get(
            kind, (channels, 1, 1, depth)
        )
        weights = rng.integers(-127, 128, shape).astype(np.int8)
        scales = np.array([0.0031, 0.0047, 0.0109][: channels if per_channel else 1], np.float32)
        axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
        inputs = [x, model.constant(weights, scales, np.zeros(len(scales)), axis)]
        if bias is not None:
            values = rng.integers(-(10**5), 10**5, channels).astype(bias)
            inputs.append(model.constant(values, np.float32(0.000371) * scales, np.zeros(len(scales))))
        y = model.like(x, (rows, channels) if matrix else (1, rows, 1, channels), scale)
        if kind == "TRANSPOSE_CONV":
            inputs = [model.constant(np.array([1, rows, 1, channels], np.int32)), inputs[1], x, *inputs[2:]]
        fields = {} if matrix else {"StrideH": 1, "StrideW": 1}
        if bias is np.int32 and not matrix:
            fields["QuantizedBiasType"] = tflite.TensorType.INT32
        options = {
            "CONV_2D": "Conv2D",
            "DEPTHWISE_CONV_2D": "DepthwiseConv2D",
            "TRANSPOSE_CONV": "TransposeConv",
        }
        model.outputs = [model.add(kind, inputs, y, options.get(kind, "FullyConnected"), **fields)]
        content, feeds = model.content(), [data.reshape(model.shape(x))]
        (theirs,) = litert(content, feeds)
        with vdla.compile(content, target="llvm", cache=False) as network:
            (ours,) = network.run({network.inputs[0].name: feeds[0]}).values()
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(run_onnx(content, feeds)[0], theirs)


RESCALED = {"ABS": "Abs", "LEAKY_RELU": "LeakyRelu", "QUANTIZE": "Quantize", "RELU": "", "RELU6": ""}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("kind", RESCALED)
def test_integers_of_other_scales_are_rounded_as_by_litert(kind: str, dtype: type) -> None:
    """Every integer becomes LiteRT's integer, also where half a step is rounded, or is a step away only where LiteRT's
    reference kernel differs from its default kernel.
    """
    if (kind, dtype) == ("ABS", np.uint8):
        pytest.skip("LiteRT refuses this form")
    limits = np.iinfo(dtype)
    every = np.arange(limits.min, limits.max + 1).astype(dtype)[None]
    for before, after in ((0.02, 0.04), (0.02, 0.08), (0.03, 0.02), (0.0213, 0.0377)):
        model = Written()
        zero, unit = (0, 0.01) if dtype == np.int16 else (limits.min + 120, 1)
        x = model.tensor(every.shape, dtype, before * unit, zero)
        y = model.tensor(every.shape, dtype, after * unit, zero)
        model.inputs = [x]
        fields = {"Alpha": 0.25} if kind == "LEAKY_RELU" else {}
        model.outputs = [model.add(kind, [x], y, RESCALED[kind], **fields)]
        default, reference = (
            litert(model.content(), [every], reference=chosen)[0].astype(int) for chosen in (False, True)
        )
        apart = np.minimum(np.abs(default - reference), 1)
        assert (np.abs(run_onnx(model.content(), [every])[0] - default) <= apart).all()
        with vdla.compile(model.content(), target="llvm", cache=False) as network:
            (ours,) = network.run({network.inputs[0].name: every}).values()
        assert (np.abs(ours - default) <= apart).all()


@pytest.mark.parametrize(
    "kind", ["EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL", "SQUARED_DIFFERENCE"]
)
def test_pairs_of_int8_values_are_rounded_as_by_litert(kind: str) -> None:
    """Comparisons and squared differences of all pairs of int8 values equal LiteRT's, for equal and other scales."""
    every = np.arange(-128, 128).astype(np.int8)
    feeds = [every.reshape(1, 256, 1), every.reshape(1, 1, 256)]
    for first, second, zeros in (
        (0.02, 0.02, (3, 3)),
        (0.0213, 0.0377, (-128, 11)),
        (0.7, 0.0043, (127, -5)),
    ):
        model = Written()
        model.inputs = [
            model.tensor(array.shape, np.int8, scale, zero)
            for array, scale, zero in zip(feeds, (first, second), zeros, strict=True)
        ]
        y = model.tensor((1, 256, 256), np.bool_)
        if kind == "SQUARED_DIFFERENCE":
            y = model.tensor((1, 256, 256), np.int8, max(first, second) ** 2 * 150, -128)
        options = "".join(part.title() for part in kind.split("_"))
        model.outputs = [model.add(kind, model.inputs, y, options)]
        theirs = litert(model.content(), feeds)
        check("", run_onnx(model.content(), feeds), theirs)
        with vdla.compile(model.content(), target="llvm", cache=False) as network:
            names = [port.name for port in network.inputs]
            check("", list(network.run(dict(zip(names, feeds, strict=True))).values()), theirs)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_doubled_images_are_rounded_as_by_litert(dtype: type, half: bool) -> None:
    """RESIZE_BILINEAR to twice the size has many results at half a step: they equal those of LiteRT's reference kernel.
    `half`: the operator's option half_pixel_centers.
    """
    model = make.resized(dtype.__name__, "RESIZE_BILINEAR", (10, 12), half=half)
    inputs = samples(model)
    theirs = litert(model.content(), inputs, reference=True)
    check("", run_onnx(model.content(), inputs), theirs)
    with vdla.compile(model.content(), target="llvm", cache=False) as network:
        check("", list(network.run({network.inputs[0].name: inputs[0]}).values()), theirs)


def test_transposed_int16_products_of_many_channels_are_exact() -> None:
    """The sums of all 600 channels may be above 2**24, so that two products in float32 are added."""
    rng = np.random.default_rng(3)
    model = Written()
    x = model.input((1, 5, 4, 600), np.int16, 0.0004)
    weights = rng.choice(np.array([-127, 126], np.int8), (2, 2, 2, 600))
    shape = model.constant(np.array([1, 10, 8, 2], np.int32))
    y = model.like(x, (1, 10, 8, 2), 0.05)
    operands = [shape, model.constant(weights, 0.004), x]
    model.outputs = [model.add("TRANSPOSE_CONV", operands, y, "TransposeConv", StrideH=2, StrideW=2)]
    feeds = [rng.integers(-(2**15), 2**15, (1, 5, 4, 600)).astype(np.int16)]
    theirs = litert(model.content(), feeds)
    check("", run_onnx(model.content(), feeds), theirs)
    with vdla.compile(model.content(), target="llvm", cache=False) as network:
        check("", list(network.run({network.inputs[0].name: feeds[0]}).values()), theirs)


def test_slopes_of_channels_round_once() -> None:
    """PRELU of all int8 values in 6 channels: the exact result, rounded, and at most a step from LiteRT's."""
    model = Written()
    x = model.input((1, 16, 16, 6), np.int8, 0.0213, 3)
    slopes = model.constant(np.array([[[-128, -37, 5, 40, 90, 127]]], np.int8), 0.0171, -20)
    y = model.tensor((1, 16, 16, 6), np.int8, 0.0149, -12)
    # A pool of single elements: the accelerator then stores the image by channels.
    pool = {"FilterHeight": 1, "FilterWidth": 1, "StrideH": 1, "StrideW": 1, "Padding": 1}
    same = model.add("MAX_POOL_2D", [x], model.like(x, (1, 16, 16, 6)), "Pool2D", **pool)
    model.outputs = [model.add("PRELU", [same, slopes], y)]
    content = model.content()
    data = np.repeat(np.arange(-128, 128, dtype=np.int8), 6).reshape(1, 16, 16, 6)
    real = (data.astype(np.float64) - 3) * np.float32(0.0213)
    slope = (model.tensors[slopes]["data"].astype(np.float64) + 20) * np.float32(0.0171)
    exact = np.clip(np.where(real < 0, real * slope, real) / np.float32(0.0149) - 12, -128, 127)
    with vdla.compile(content, target="llvm", cache=False) as network:
        (ours,) = network.run({network.inputs[0].name: data}).values()
    np.testing.assert_array_equal(ours, run_integers(content, [data])[0])
    assert np.abs(ours - exact).max() < 0.5001
    assert np.abs(ours.astype(int) - litert(content, [data])[0]).max() <= 1


def test_vectors_are_joined_on_the_accelerator() -> None:
    model = Written()
    parts = [model.input((5,)), model.input((3,))]
    parts = [model.add("RELU", [part], model.like(part, model.shape(part))) for part in parts]
    model.outputs = [model.add("CONCATENATION", parts, model.like(parts[0], (8,)), "Concatenation", Axis=0)]
    content, inputs = model.content(), samples(model)
    check("", run_integers(content, inputs), litert(content, inputs))


def test_every_row_of_the_table_has_a_case() -> None:
    made = {kind for make in ALL.values() for kind, *_ in make().operators}
    assert made >= set(ROWS)


@pytest.mark.parametrize(
    "name",
    ["CONV_2D int16", "SUB int8", "FULLY_CONNECTED hybrid", "SELECT_V2 float", "PRELU int8", "ARG_MAX int8"],
)
def test_processors_compute_the_forms_that_the_accelerator_lacks(name: str) -> None:
    model = ALL[name]()
    content, inputs = model.content(), samples(model)
    network = vdla.compile(content, target="llvm", cache=False)
    found = network.run({port.name: array for port, array in zip(network.inputs, inputs, strict=True)})
    check(name, [found[port.name] for port in network.outputs], litert(content, inputs))


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_run_whole_on_the_accelerator(name: str) -> None:
    model = NETWORKS[name]()
    content, inputs = model.content(), samples(model)
    graph = import_model(content, abilities=Abilities.of(vta_with()))
    moves = Counter(node.kind for node in graph.nodes)
    assert not {"Swap"} & moves.keys()
    if name not in ("DeepLab", "SSD"):  # these concatenate
        assert not {"Positions", "Channels"} & moves.keys()
    arrays = store_inputs(graph, {graph.inputs[0].name: inputs[0]})
    found = load_outputs(graph, interpret(graph, arrays))
    for output, other in zip(graph.outputs, litert(content, inputs), strict=True):
        assert np.abs(found[output.name].astype(int) - other).max() <= (1 if name == "DeepLab" else 0)


def test_a_network_of_the_accelerator_is_simulated() -> None:
    model = NETWORKS["anomaly detection"]()
    content, inputs = model.content(), samples(model)
    compiled = compile_program(content, vta_with())
    outputs = run(compiled, {compiled.graph.inputs[0].name: inputs[0]}).outputs
    np.testing.assert_array_equal(next(iter(outputs.values())), litert(content, inputs)[0])


def test_a_model_of_tensorflow_is_equal_bit_for_bit() -> None:
    network = vdla.compile(KERAS, target="llvm", cache=False)
    assert [port.name for port in network.inputs] == ["serving_default_keras_tensor:0"]
    assert network.inputs[0].shape == (1, 16, 16, 3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        image = rng.integers(-128, 128, (1, 16, 16, 3), dtype=np.int8)
        ours = network.run({network.inputs[0].name: image})["StatefulPartitionedCall_1:0"]
        np.testing.assert_array_equal(ours, litert(KERAS.read_bytes(), [image])[0])


@pytest.mark.parametrize("seed", range(12))
def test_hard_swish_of_any_scale_is_equal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scale = np.float32(np.exp(rng.uniform(np.log(0.004), np.log(0.2))))
    model = Written()
    x = model.input((1, 256), np.int8, float(scale), int(rng.integers(-128, 128)))
    y = model.tensor((1, 256), np.int8, scale * rng.uniform(0.5, 1.2), rng.integers(-128, 0))
    model.outputs = [model.add("HARD_SWISH", [x], y, "HardSwish")]
    every = [np.arange(-128, 128).astype(np.int8)[None]]
    theirs = litert(model.content(), every)
    check("", run_integers(model.content(), every), theirs)
    check("", run_onnx(model.content(), every), theirs)


def test_nodes_have_the_names_of_tensors() -> None:
    graph = import_model(KERAS, abilities=ACCELERATOR)
    assert [node.name for node in graph.nodes][-3:] == [
        "functional_1/global_average_pooling2d_1/Mean", "functional_1/dense_1/MatMul2", "StatefulPartitionedCall_1:0",
    ]  # fmt: skip
    assert graph.inputs[0].permutation == (0, 3, 1, 2)


def test_an_image_too_large_to_transpose_is_refused_in_one_line() -> None:
    model = Written()
    x = model.input((1, 5_000, 5_000, 4))
    y = model.like(x, (1, 2_500, 2_500, 4))
    fields = {"StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}
    model.outputs = [model.add("MAX_POOL_2D", [x], y, "Pool2D", **fields)]
    with pytest.raises(
        ModelError, match=r"^model: input 't0' has 100,000,000 elements, .*; export .* smaller"
    ):
        import_model(model.content(), abilities=ACCELERATOR)


def test_one_image_input_is_transposed_once() -> None:
    for network in NETWORKS.values():
        kinds = Counter(node.op_type for node in read_model(network().content()).bare.graph.node)
        outputs = len(network().outputs)
        assert kinds["Transpose"] <= 1 + outputs + 6 * (kinds["Concat"] > 1)


def refused(kinds: list[tuple[str, str]]) -> bytes:
    model = Written()
    x = model.input((1, 4), np.float32)
    for kind, custom in kinds:
        model.custom = custom or model.custom
        x = model.add(kind, [x], model.tensor((1, 4), np.float32))
    model.outputs = [x]
    return model.content()


def test_all_refused_operators_are_named() -> None:
    content = refused([("RELU", ""), ("SVDF", ""), ("WHILE", ""), ("CUSTOM", "TFLite_Detection_PostProcess")])
    with pytest.raises(ModelError) as error:
        read_model(content)
    lines = error.value.lines
    assert lines[0] == "model: 3 operators are not supported:"
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "operator 1 't2' (SVDF)", "operator 2 't3' (WHILE)", "operator 3 't4' (TFLite_Detection_PostProcess)",
    ]  # fmt: skip
    assert "keeps values from one run to the next" in lines[1]
    assert "cut the model before it" in lines[3]


@pytest.mark.parametrize(
    "kind", ["VAR_HANDLE", "READ_VARIABLE", "CALL_ONCE", "IF", "UNIDIRECTIONAL_SEQUENCE_LSTM"]
)
def test_variables_and_bodies_are_refused_by_name(kind: str) -> None:
    with pytest.raises(ModelError, match=rf"^model: operator 0 't1' \({kind}\): .*; "):
        read_model(refused([(kind, "")]))


def test_output_that_is_also_read_keeps_its_name() -> None:
    model = ALL["CONV_2D int8"]()
    conv = model.outputs[0]
    y = model.like(conv, model.shape(conv))
    model.add("RELU", [conv], y)
    model.outputs = [conv, y, model.inputs[0]]
    content, inputs = model.content(), samples(model)
    assert [info.name for info in read_model(content).bare.graph.output] == ["t3", "t4", "t0/output"]
    check("CONV_2D int8", run_onnx(content, inputs), litert(content, inputs))


def test_equal_names_of_tensors_are_told_apart() -> None:
    model = ALL["RESHAPE int8 before FULLY_CONNECTED"]()
    for tensor in model.tensors:
        tensor["name"] = "same"
    content, inputs = model.content(), samples(model)
    check("", run_onnx(content, inputs), litert(content, inputs))

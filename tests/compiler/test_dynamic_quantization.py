"""Less common kinds of quantized networks give the results of ONNX Runtime: networks that compute the scales of
activations at run time, integer operators on 8-bit data, and weights of fewer than 8 bits. Each network runs on the
processor alone, and divided between accelerator and processor.

ONNX Runtime uses one thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from float_networks import relative
from onnx import helper, numpy_helper, parser
from onnxruntime.quantization import QuantType, quantize_dynamic

import vdla
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.errors import ModelError

TARGETS = ("llvm", "vdla,llvm")
CONTRIBUTED = "com.microsoft"


def runtime(content: bytes, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of ONNX Runtime by name, without graph optimization, on one thread."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(None, feeds)), strict=True))


def network(
    node: onnx.NodeProto | list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    outputs: dict[str, Any],
    opset: int = 17,
) -> bytes:
    """The bytes of a model of one or several nodes. `inputs`: arrays with the types and shapes of the inputs, by name;
    `outputs`: numpy types by name. The outputs get the shapes that ONNX Runtime computes.
    """
    nodes = node if isinstance(node, list) else [node]

    def info(name: str, dtype: Any, shape: tuple[int, ...] | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    graph = helper.make_graph(
        nodes,
        "net",
        [info(name, array.dtype, array.shape) for name, array in inputs.items()],
        [info(name, dtype, None) for name, dtype in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(CONTRIBUTED, 1)]
    content = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    for output, array in zip(
        graph.output, runtime(content.SerializeToString(), inputs).values(), strict=True
    ):
        content.graph.output[list(outputs).index(output.name)].CopyFrom(
            info(output.name, array.dtype, array.shape)
        )
    return content.SerializeToString()


def check(content: bytes, feeds: dict[str, np.ndarray], *targets: str, tolerance: float = 2e-6) -> None:
    """Asserts that the targets (by default `TARGETS`) agree with ONNX Runtime: floats within `tolerance`, integers
    exactly.
    """
    expected = runtime(content, feeds)
    for target in targets or TARGETS:
        with vdla.compile(content, target=target, config="tiny") as compiled:
            got = compiled.run(feeds)
        for name, array in expected.items():
            assert got[name].shape == array.shape and got[name].dtype == array.dtype, (target, name)
            if array.dtype.kind == "f":
                assert relative(got[name], array) <= tolerance, (target, name)
            else:
                assert np.array_equal(got[name], array), (target, name)


rng = np.random.default_rng(0)


def drawn(*shape: int, deviation: float = 1.0) -> np.ndarray:
    return (rng.standard_normal(shape) * deviation).astype(np.float32)


def integers(dtype: Any, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def convolutions() -> tuple[str, dict[str, np.ndarray]]:
    return (
        """
        net (float[1, 3, 8, 8] x) => (float[1, 5] y) {
            a = Conv <pads: ints = [1, 1, 1, 1]> (x, w1, b1)
            r = Relu (a)
            b = Conv <strides: ints = [2, 2]> (r, w2, b2)
            p = GlobalAveragePool (b)
            f = Flatten (p)
            y = Gemm (f, w3, b3)
        }""",
        {
            "x": drawn(1, 3, 8, 8),
            "w1": drawn(6, 3, 3, 3),
            "b1": drawn(6),
            "w2": drawn(4, 6, 3, 3),
            "b2": drawn(4),
            "w3": drawn(4, 5),
            "b3": drawn(5),
        },
    )


def attention() -> tuple[str, dict[str, np.ndarray]]:
    return (
        """
        net (float[2, 6, 16] x) => (float[2, 6, 16] y) {
            q = MatMul (x, wq)
            k = MatMul (x, wk)
            t = Transpose <perm: ints = [0, 2, 1]> (k)
            s = MatMul (q, t)
            p = Softmax (s)
            o = MatMul (p, q)
            y = Add (x, o)
        }""",
        {"x": drawn(2, 6, 16), "wq": drawn(16, 16, deviation=0.3), "wk": drawn(16, 16, deviation=0.3)},
    )


def recurrent() -> tuple[str, dict[str, np.ndarray]]:
    return (
        """
        net (float[4, 2, 6] x) => (float[4, 2, 2, 8] y, float[2, 2, 8] h) {
            y, h = LSTM <hidden_size: int = 8, direction: string = "bidirectional"> (x, w, r, b)
        }""",
        {
            "x": drawn(4, 2, 6),
            "w": drawn(2, 32, 6, deviation=0.3),
            "r": drawn(2, 32, 8, deviation=0.3),
            "b": drawn(2, 64),
        },
    )


def embedding() -> tuple[str, dict[str, np.ndarray]]:
    return (
        """
        net (int64[2, 5] x) => (float[2, 5, 4] y) { e = Gather (table, x)  y = MatMul (e, w) }""",
        {
            "x": rng.integers(0, 30, (2, 5)),
            "table": drawn(30, 8),
            "w": drawn(8, 4),
        },
    )


@pytest.mark.parametrize("weights, per_channel", [(QuantType.QInt8, True), (QuantType.QUInt8, False)])
@pytest.mark.parametrize("made", [convolutions, attention, recurrent, embedding])
def test_quantize_dynamic(made: Any, weights: QuantType, per_channel: bool, tmp_path: Path) -> None:
    text, arrays = made()
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    x = arrays.pop("x")
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    onnx.save(model, tmp_path / "float.onnx")
    quantize_dynamic(
        tmp_path / "float.onnx", tmp_path / "quantized.onnx", weight_type=weights, per_channel=per_channel
    )
    content = (tmp_path / "quantized.onnx").read_bytes()
    assert made is embedding or b"DynamicQuantize" in content
    check(content, {"x": x}, *(TARGETS if made is convolutions else ["llvm"]), tolerance=1e-5)


@pytest.mark.parametrize("opset", [11, 17, 21])
def test_functions_of_the_standard_whose_operators_changed_since(opset: int) -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MeanVarianceNormalization", ["x"], ["n"]),
    ]
    x = drawn(2, 3, 4, 5)
    outputs = {"q": np.uint8, "s": np.float32, "z": np.uint8, "n": np.float32}
    check(network(nodes, {"x": x}, {}, outputs, opset), {"x": x})


@pytest.mark.parametrize(
    "depth, weight, points",
    [
        (16, np.int8, ()),
        (700, np.uint8, ("a", "b")),
        # Of more than 258 products of the greatest size, the sum is no exact float32 number.
        (700, np.int8, ("a", "columns")),
        (700, "input", ("a", "b")),
    ],
)
def test_products_of_integers_are_exact(depth: int, weight: Any, points: tuple[str, ...]) -> None:
    inputs: dict[str, np.ndarray] = {"x": np.full((3, depth), 255, np.uint8)}
    inputs["x"][1] = integers(np.uint8, depth)
    given = np.int8 if weight == "input" else weight
    w = np.full((depth, 4), np.iinfo(given).max, given)
    w[:, 1] = integers(given, depth)
    zeros = {
        "a": np.uint8(3),
        "b": np.array(-100 if given is np.int8 else 0, given),
        "columns": np.array([-128, 0, 5, 127], np.int8),
    }
    constants = {name: zeros[name] for name in points}
    if weight == "input":
        inputs["w"] = w
    else:
        constants["w"] = w
    node = helper.make_node("MatMulInteger", ["x", "w", *points], ["y"])
    check(network(node, inputs, constants, {"y": np.int32}), inputs, "llvm")


def test_a_zero_point_for_each_row() -> None:
    x, w = integers(np.uint8, 3, 5), integers(np.int8, 5, 4)
    points = np.array([0, 7, 200], np.uint8)
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        net (uint8[3, 5] x) => (int32[3, 4] y) { y = MatMulInteger (x, w, points) }
    """
    model = parser.parse_model(text)
    model.graph.initializer.extend(
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(points, "points")]
    )
    with vdla.compile(model, target="llvm") as compiled:
        got = compiled.run({"x": x})["y"]
    assert np.array_equal(got, (x.astype(int) - points[:, None]) @ w)


@pytest.mark.parametrize(
    "shape, weight, attributes, points",
    [
        ((1, 4, 6, 7), (6, 4, 3, 3), {"pads": [1, 1, 1, 1]}, ("a",)),
        ((1, 4, 6, 7), (6, 4, 3, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, ("a", "b")),
        ((1, 4, 6, 7), (6, 2, 3, 3), {"group": 2}, ()),
        ((1, 80, 5, 5), (4, 80, 3, 3), {"pads": [1, 0, 0, 2]}, ("a",)),
        ((1, 4, 9), (6, 4, 5), {"dilations": [2], "pads": [3, 1]}, ("a",)),
        ((1, 2, 4, 5, 6), (3, 2, 3, 3, 3), {}, ("a",)),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_convolutions_of_integers_are_exact(
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    attributes: dict[str, Any],
    points: tuple[str, ...],
    known: bool,
) -> None:
    inputs = {"x": integers(np.uint8, *shape)}
    inputs["x"][:, ::2] = 255
    w = np.full(weight, 127, np.int8)
    w[1] = integers(np.int8, *weight[1:])
    constants = {name: {"a": np.uint8(0), "b": np.int8(-11)}[name] for name in points}
    (constants if known else inputs)["w"] = w
    node = helper.make_node("ConvInteger", ["x", "w", *points], ["y"], **attributes)
    check(network(node, inputs, constants, {"y": np.int32}), inputs, "llvm")


@pytest.mark.parametrize("operator", ["MatMulIntegerToFloat", "DynamicQuantizeMatMul"])
def test_products_with_scales(operator: str) -> None:
    constants = {"w": integers(np.int8, 8, 4), "s": np.float32(0.02), "t": np.full(4, 0.03, np.float32)}
    constants |= {"zx": np.uint8(120), "zw": np.zeros(4, np.int8), "bias": drawn(4)}
    dynamic = operator == "DynamicQuantizeMatMul"
    inputs = {"x": drawn(3, 8) if dynamic else integers(np.uint8, 3, 8)}
    names = ["x", "w", "t", "zw", "bias"] if dynamic else ["x", "w", "s", "t", "zx", "zw", "bias"]
    node = helper.make_node(operator, names, ["y"], domain=CONTRIBUTED)
    check(network(node, inputs, constants, {"y": np.float32}), inputs)


@pytest.mark.parametrize(
    "bits, more",
    [
        *((bits, more) for bits in (2, 4, 8) for more in ("none", "zero points")),
        *((4, "float zero points"), (4, "groups")),
    ],
)
def test_weights_of_few_bits(bits: int, more: str) -> None:
    depth, columns, block = 40, 6, 16
    blocks, per_byte = -(-depth // block), 8 // bits
    constants = {
        "w": integers(np.uint8, columns, blocks, block // per_byte),
        "s": drawn(columns, blocks, deviation=0.1),
        "bias": drawn(columns),
    }
    names = ["x", "w", "s", "", "", "bias"]
    if more == "zero points":
        constants["z"] = integers(np.uint8, columns, -(-blocks // per_byte))
    if more == "float zero points":
        constants["z"] = drawn(columns, blocks)
    if more == "groups":
        constants["g"] = rng.integers(0, blocks, depth).astype(np.int32)
        names[4] = "g"
    if "z" in constants:
        names[3] = "z"
    attributes: dict[str, Any] = {"K": depth, "N": columns, "bits": bits, "block_size": block}
    node = helper.make_node("MatMulNBits", names, ["y"], domain=CONTRIBUTED, **attributes)
    inputs = {"x": drawn(2, 3, depth)}
    check(network(node, inputs, constants, {"y": np.float32}), inputs, "llvm", tolerance=1e-5)


@pytest.mark.parametrize("dtype, opset", [(np.int8, 17), (ml_dtypes.int4, 21)])
@pytest.mark.parametrize("axis", [0, None])
def test_negative_scales_of_weights(dtype: Any, opset: int, axis: int | None) -> None:
    scale = np.array([0.01, -0.01, 0.02, -0.03], np.float32)
    constants = {
        "w": rng.integers(-8, 8, (4, 4, 3, 3)).astype(dtype),
        "s": scale if axis == 0 else np.float32(-0.01),
        "t": np.float32(0.02),
        "z": np.uint8(120),
    }
    along: dict[str, Any] = {} if axis is None else {"axis": axis}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "t", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "t", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["v"], **along),
        helper.make_node("Conv", ["a", "v"], ["c"], pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["c", "t", "z"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "t", "z"], ["y"]),
    ]
    inputs = {"x": drawn(1, 4, 5, 6)}
    content = network(nodes, inputs, constants, {"y": np.float32}, opset)
    expected = runtime(content, inputs)["y"]
    for target in ("vdla", *TARGETS):
        with vdla.compile(content, target=target, config="tiny") as compiled:
            got = compiled.run(inputs)["y"]
        assert np.abs(got - expected).max() <= 0.0201, target


def test_a_negative_scale_of_the_least_integer() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "t", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "t", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["v"]),
        helper.make_node("MatMul", ["a", "v"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "t", "z"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "t", "z"], ["y"]),
    ]
    constants = {
        "w": np.full((4, 3), -128, np.int8),
        "s": np.float32(-0.01),
        "t": np.float32(0.02),
        "z": np.uint8(120),
    }
    inputs = {"x": drawn(2, 4)}
    content = network(nodes, inputs, constants, {"y": np.float32})
    with pytest.raises(
        ModelError,
        match=r"has a negative scale; with a positive one its constants \(the smallest is -128\) would not fit int8",
    ):
        import_model(content)
    check(content, inputs)

"""The importer replaces some operators by others. These tests use forms that the compiler does not support for the
replacements; the results must equal ONNX Runtime's on the original model.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from float_networks import relative
from mixed_networks import unoptimized
from onnx import TensorProto, helper, numpy_helper, parser

import vdla
from vdla.compiler.graph.errors import ModelError

rng = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


CONSTANTS = {
    "w": drawn(4, 3, 3, 3),
    "v": drawn(4, 3, 4),
    "b": drawn(3),
    "three": np.int64(3),
    "seven": np.int64(7),
    "last": np.int64(-2),
    "scales": np.array([1, 1, 2, 0.5], np.float32),
    "five": np.array([1, 1, 1.5, 2, 1.5], np.float32),
    "sizes": np.array([9, 4], np.int64),
    "more": np.array([1, 4, 9, 4], np.int64),
    "region": np.array([0, 0, -0.1, 0.2, 1, 1, 0.8, 1.2], np.float32),
    "few": np.array([1, 1, 2, 2], np.int64),
    "none": np.zeros(0, np.float32),
    "twice": np.array([1, 2, 1, 3], np.int64),
    "image": np.array([5, 6], np.int64),
    "block": np.array([2, 3], np.int64),
    "window": drawn(8),
    "places": rng.permutation(80)[:16].reshape(1, 2, 2, 4),
}
IMAGE, CUBE = "float[1, 4, 5, 6] x", "float[1, 2, 3, 4, 5] x"
MODELS = {
    "transposed to a shape": (
        IMAGE,
        "y = ConvTranspose <output_shape: ints = [10, 13], strides: ints = [2, 2]> (x, w, b)",
    ),
    "transposed, same at the end": (
        IMAGE,
        'y = ConvTranspose <auto_pad: string = "SAME_UPPER", strides: ints = [2, 2]> (x, w)',
    ),
    "transposed, same at the start": (
        IMAGE,
        'y = ConvTranspose <auto_pad: string = "SAME_LOWER", strides: ints = [1, 3]> (x, w)',
    ),
    "transposed, without pads": (IMAGE, 'y = ConvTranspose <auto_pad: string = "VALID"> (x, w)'),
    "transposed line": (
        "float[1, 4, 9] x",
        "y = ConvTranspose <output_shape: ints = [19], strides: ints = [2]> (x, v)",
    ),
    "average of a cube": (CUBE, "y = GlobalAveragePool (x)"),
    "greatest of a cube": (CUBE, "y = GlobalMaxPool (x)"),
    "Euclidean norm of each channel": (IMAGE, "y = GlobalLpPool (x)"),
    "sum of magnitudes of a cube": (CUBE, "y = GlobalLpPool <p: int = 1> (x)"),
    "norm of the third power": (IMAGE, "y = GlobalLpPool <p: int = 3> (x)"),
    "indices": (IMAGE, "y, i = MaxPool <kernel_shape: ints = [2, 2], strides: ints = [2, 2]> (x)"),
    "indices by columns, pads": (
        IMAGE,
        "y, i = MaxPool <kernel_shape: ints = [3, 2], pads: ints = [1, 0, 1, 1], storage_order: int = 1> (x)",
    ),
    "indices of a line": (
        "float[2, 3, 9] x",
        "y, i = MaxPool <kernel_shape: ints = [3], ceil_mode: int = 1, strides: ints = [2]> (x)",
    ),
    "indices of a cube": (
        CUBE,
        "y, i = MaxPool <kernel_shape: ints = [2, 2, 2], dilations: ints = [1, 2, 1]> (x)",
    ),
    "greatest integers": ("uint8[1, 4, 5, 6] x", "y = MaxPool <kernel_shape: ints = [2, 2]> (x)"),
    "unpooled": (
        "float[1, 2, 2, 4] x",
        "y = MaxUnpool <kernel_shape: ints = [2, 2], strides: ints = [3, 2]> (x, places)",
    ),
    "columns to an image": (
        "float[1, 12, 20] x",
        "y = Col2Im <pads: ints = [0, 1, 0, 0]> (x, image, block)",
    ),
    "cubic": (IMAGE, 'y = Resize <mode: string = "cubic"> (x, none, scales)'),
    "cubic without what is outside": (
        IMAGE,
        'y = Resize <mode: string = "cubic", cubic_coeff_a: float = -0.5, exclude_outside: int = 1> (x, none, scales)',
    ),
    "cubic, smooth": (IMAGE, 'y = Resize <mode: string = "cubic", antialias: int = 1> (x, none, scales)'),
    "linear, smooth": (
        IMAGE,
        'y = Resize <mode: string = "linear", antialias: int = 1, axes: ints = [2, 3]> (x, none, none, sizes)',
    ),
    "not larger": (
        IMAGE,
        'y = Resize <keep_aspect_ratio_policy: string = "not_larger", axes: ints = [2, 3]> (x, none, none, sizes)',
    ),
    "cropped": (
        IMAGE,
        'y = Resize <mode: string = "linear", coordinate_transformation_mode: string = "tf_crop_and_resize", '
        "extrapolation_value: float = 3.5> (x, region, none, more)",
    ),
    "from the middle": (
        IMAGE,
        'y = Resize <mode: string = "linear", coordinate_transformation_mode: string = "half_pixel_symmetric"> '
        "(x, none, five4)",
    ),
    "49 channels to one, corners aligned": (
        "float[1, 49, 2, 2] x",
        'y = Resize <mode: string = "linear", coordinate_transformation_mode: string = "align_corners"> '
        "(x, none, none0, few)",
    ),
    "a size that its scale leaves": (IMAGE, 'y = Resize <mode: string = "linear"> (x, none, taller)'),
    "the nearest of a size that its scale leaves": (
        IMAGE,
        'y = Resize <nearest_mode: string = "floor", coordinate_transformation_mode: string = "asymmetric"> '
        "(x, none, taller)",
    ),
    "sizes that their scales leave": (IMAGE, 'y = Resize <mode: string = "linear"> (x, none, barely)'),
    "cubic with sizes that their scales leave": (
        IMAGE,
        'y = Resize <mode: string = "cubic"> (x, none, barely)',
    ),
    "smooth with a size that its scale leaves": (
        IMAGE,
        'y = Resize <mode: string = "linear", antialias: int = 1> (x, none, taller)',
    ),
    "resized cube": (CUBE, 'y = Resize <mode: string = "linear"> (x, none, five)'),
    "tiles": (IMAGE, "y = Tile (x, twice)"),
    "ones on a diagonal": ("float[3, 5] x", "e = EyeLike <k: int = 1> (x)  y = Add (x, e)"),
    "transform": ("float[2, 9, 3, 1] x", "y = DFT (x, none0, one)"),
    "transform of pairs": ("float[2, 9, 2] x", "y = DFT (x, seven)"),
    "transform of one side": ("float[2, 9, 1] x", "y = DFT <onesided: int = 1> (x)"),
    "frames": ("float[2, 30, 1] x", "y = STFT (x, three, window)"),
}
# Scales with which the last axis keeps its size, and with which all axes do.
CONSTANTS["taller"] = np.array([1, 1, 2, 1.1], np.float32)
CONSTANTS["barely"] = np.array([1, 1, 1.1, 1.1], np.float32)
CONSTANTS["five4"] = np.array([1, 1, 1.5, 2.3], np.float32)
CONSTANTS["one"] = np.int64(1)


def model(given: str, body: str, opset: int = 20) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model in ONNX's text syntax with the input declaration `given` and the nodes `body`, the constants of CONSTANTS
    that it names, and random inputs.
    """
    body = body.replace("none0", "")
    text = f'<ir_version: 9, opset_import: ["" : {opset}]> net ({given}) => (y) {{ {body} }}'
    parsed = parser.parse_model(text)
    names = {name for node in parsed.graph.node for name in node.input}
    parsed.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in CONSTANTS.items() if name in names
    )
    if ", i =" in body:
        parsed.graph.output.append(helper.make_tensor_value_info("i", TensorProto.INT64, None))
    info = parsed.graph.input[0].type.tensor_type
    shape = [d.dim_value for d in info.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(info.elem_type)
    x = drawn(*shape) if dtype.kind == "f" else rng.integers(0, 256, shape).astype(dtype)
    parsed.graph.output[0].type.tensor_type.elem_type = info.elem_type
    return parsed, {"x": x}


@pytest.mark.parametrize("name", MODELS)
def test_against_onnx_runtime(name: str) -> None:
    content, feeds = model(*MODELS[name])
    expected = unoptimized(content.SerializeToString(), feeds)
    with vdla.compile(content, target="llvm", cache=False) as network:
        got = network.run(feeds)
    for output, array in expected.items():
        assert got[output].shape == array.shape and got[output].dtype == array.dtype
        if array.dtype.kind == "f":
            assert relative(got[output], array) <= 5e-6
        else:
            assert np.array_equal(got[output], array)


@pytest.mark.parametrize(
    "body, problem",
    [
        (
            'y = Resize <mode: string = "cubic", coordinate_transformation_mode: string = "align_corners"> '
            "(x, none, five4)",
            "define different results; give the size 7",
        ),
        (
            'y = Resize <coordinate_transformation_mode: string = "half_pixel_symmetric"> (x, none, five4)',
            "ONNX Runtime computes other results than ONNX defines; use half_pixel",
        ),
    ],
)
def test_resizes_of_two_meanings(body: str, problem: str) -> None:
    content, _ = model(IMAGE, body)
    with pytest.raises(ModelError, match=problem):
        vdla.compile(content, target="llvm", cache=False)


@pytest.mark.parametrize("given", ["float x", "float[6] x"])
def test_neighbouring_channels_of_a_tensor_without_channels_are_refused(given: str) -> None:
    content, _ = model(given, "y = LRN <size: int = 3> (x)")
    with pytest.raises(
        ModelError, match=r"its input of shape \(6?,?\) has no channel axis; give a tensor \(N, C, ...\)"
    ):
        vdla.compile(content, target="llvm", cache=False)


@pytest.mark.parametrize("target", ["vdla", "llvm", "vdla,llvm"])
def test_quantized_vectors_of_weights(target: str) -> None:
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[3, 16] x) => (float[3] y) <float s = {0.02}, uint8 z = {120}, float t = {0.01}, int8 u = {0}> {
            q = QuantizeLinear (x, s, z)
            a = DequantizeLinear (q, s, z)
            v = DequantizeLinear (weights, t, u)
            p = MatMul (a, v)
            r = QuantizeLinear (p, s, z)
            y = DequantizeLinear (r, s, z)
        }
    """
    content = parser.parse_model(text)
    weights = rng.integers(-127, 127, 16).astype(np.int8)
    content.graph.initializer.append(numpy_helper.from_array(weights, "weights"))
    feeds = {"x": drawn(3, 16)}
    expected = unoptimized(content.SerializeToString(), feeds)["y"]
    with vdla.compile(content, target=target, config="tiny") as network:
        got = network.run(feeds)["y"]
    assert got.shape == (3,) and np.abs(got - expected).max() <= 0.0201


@pytest.mark.parametrize("known", ["shape", "type"])
def test_outputs_that_do_not_say_their_shape(known: str) -> None:
    content, feeds = model("float[2, 3] x", "y = Relu (x)")
    content.graph.output[0].type.tensor_type.ClearField("shape")
    if known == "type":
        content.graph.output[0].ClearField("type")
    for target in ("llvm", "vdla,llvm"):
        with vdla.compile(content, target=target, config="tiny") as network:
            assert np.array_equal(network.run(feeds)["y"], np.maximum(feeds["x"], 0))


def test_inputs_with_a_value_of_their_own_get_another_one() -> None:
    content, feeds = model("float[1, 4, 5, 6] x", "y = Conv (x, k)")
    kernel = drawn(2, 4, 1, 1)
    content.graph.initializer.append(numpy_helper.from_array(kernel, "k"))
    content.graph.input.append(helper.make_tensor_value_info("k", TensorProto.FLOAT, kernel.shape))
    for constants, expected in (({}, kernel), ({"k": -2 * kernel}, -2 * kernel)):
        with vdla.compile(content, target="llvm", constants=constants, cache=False) as network:
            got = network.run(feeds)["y"]
        assert relative(got, np.einsum("nchw,oc->nohw", feeds["x"], expected[:, :, 0, 0])) <= 1e-5


@pytest.mark.parametrize("kind", ["uint8", "int8", "int32"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_resize_of_integers_drops_fractions_as_onnx_runtime_does(mode: str, kind: str) -> None:
    """A Resize of integers of type `kind` gives ONNX Runtime's integers: interpolated values are rounded towards zero.
    ONNX Runtime's quantizer makes such nodes in QOperator form.
    """
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode)
    typed = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    graph = helper.make_graph(
        [node],
        "resize",
        [helper.make_tensor_value_info("x", typed, (1, 2, 5, 7))],
        [helper.make_tensor_value_info("y", typed, (1, 2, 10, 14))],
        [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")],
    )
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    limits = np.iinfo(kind)
    x = (
        np.random.default_rng(0)
        .integers(max(limits.min, -999), min(limits.max, 999), (1, 2, 5, 7))
        .astype(kind)
    )
    (expected,) = onnxruntime.InferenceSession(content.SerializeToString()).run(None, {"x": x})
    for target in ("llvm", "vdla,llvm"):
        with vdla.compile(content, target=target, cache=False) as network:
            np.testing.assert_array_equal(network.run({"x": x})["y"], np.asarray(expected))


def test_a_resize_that_keeps_the_ratio_rounds_ties_by_the_exact_ratio():
    """Resizing 7 elements to 4: output position 2 reads position 2 * 7 / 4 = 3.5, a tie. A division by the rounded
    scale would give less, and another element.
    """
    x = np.arange(28, dtype=np.float32).reshape(1, 1, 7, 4)
    node = helper.make_node(
        "Resize",
        ["x", "", "", "sizes"],
        ["y"],
        axes=[2, 3],
        coordinate_transformation_mode="asymmetric",
        keep_aspect_ratio_policy="not_larger",
        nearest_mode="round_prefer_ceil",
    )
    graph = helper.make_graph(
        [node],
        "resize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 4, 2])],
        [numpy_helper.from_array(np.array([4, 4]), "sizes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    rows = vdla.compile(model, "llvm").run({"x": x})["y"][0, 0, :, 0] // 4
    np.testing.assert_array_equal(rows, [0, 2, 4, 5])

"""Regression tests for defects that the fuzzer's random graphs found: each is a minimal graph, compared with ONNX
Runtime or with numpy in float64.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from campaign import representatives
from float_networks import relative
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import vdla
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.graph.budgets import MOST_TENSOR_BYTES
from vdla.compiler.graph.errors import ModelError

RNG = np.random.default_rng(0)


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def built(
    nodes: list[onnx.NodeProto],
    feeds: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    outputs: list[str],
    opset: int = 21,
) -> onnx.ModelProto:
    """An ONNX model of `nodes`. `feeds`: an array for each input of the model; it gives the input's type and shape.
    `constants`: the model's constants by name. `outputs`: names of the outputs, whose types and shapes are inferred.
    """
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feeds.items()
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def node(operator: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A node whose input names are separated by blanks in `inputs`; "." stands for an input that is left out."""
    names = ["" if name == "." else name for name in inputs.split()]
    return helper.make_node(operator, names, outputs.split(), "the_node", **attributes)


def ours(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return dict(vdla.compile(model, target="llvm", cache=False).run(feeds))


def runtime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


VARIANTS = ("", "clip", "weights of run time")


@pytest.mark.parametrize(
    ("variant", "kind"),
    representatives(
        itertools.product(VARIANTS, GATES),
        0,
        # Every kind with two variants.
        always=[(VARIANTS[(i + j) % 3], kind) for i, kind in enumerate(GATES) for j in (0, 1)],
    ),
)
def test_a_layer_with_the_batch_first_has_its_own_states(kind: str, variant: str) -> None:
    """A recurrent layer with the attribute layout = 1, whose initial state has the batch first. Regression: two nodes
    of the import had the same name, so that the layer took its weights for its initial state.
    """
    gates = GATES[kind]
    feeds = {"x": floats(2, 3, 4), "h": floats(2, 1, 5)}
    weights = {"w": floats(1, gates * 5, 4), "r": floats(1, gates * 5, 5)}
    attributes = {"hidden_size": 5} | ({"clip": 0.7} if variant == "clip" else {})
    of_run_time, constants = (weights, {}) if variant == "weights of run time" else ({}, weights)
    first = built(
        [node(kind, "x w r . . h", "y z", layout=1, **attributes)], feeds | of_run_time, constants, ["y", "z"]
    )
    plain = {"x": feeds["x"].swapaxes(0, 1), "h": feeds["h"].swapaxes(0, 1)}
    last = built([node(kind, "x w r . . h", "y z", **attributes)], plain | of_run_time, constants, ["y", "z"])
    got, wanted = ours(first, feeds | of_run_time), runtime(last, plain | of_run_time)
    assert relative(got["y"], wanted[0].transpose(2, 0, 1, 3)) <= 1e-5
    assert relative(got["z"], wanted[1].transpose(1, 0, 2)) <= 1e-5


def normalized(x: np.ndarray, axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    distance = x.astype(np.float64) - x.mean(axes, keepdims=True, dtype=np.float64)
    return (distance / np.sqrt((distance**2).mean(axes, keepdims=True) + epsilon)).astype(np.float32)


FAR = floats(2, 4, 3, 5) + 300
"""Data whose mean is much larger than their deviation: the variance as mean of squares minus square of mean has an
error of 4%.
"""


@pytest.mark.parametrize("constant", [True, False])
def test_groups_normalize_without_cancelling(constant: bool) -> None:
    factors = {"s": floats(4), "b": floats(4)}
    feeds = {"x": FAR} | ({} if constant else factors)
    model = built(
        [node("GroupNormalization", "x s b", num_groups=2)], feeds, factors if constant else {}, ["y"]
    )
    rows = normalized(FAR.reshape(2, 2, -1), (2,)).reshape(FAR.shape)
    s, b = (a.reshape(4, 1, 1) for a in factors.values())
    assert relative(ours(model, feeds)["y"], rows * s + b) <= 1e-4


@pytest.mark.parametrize("outputs", ["y", "y m d"])
def test_layers_normalize_without_cancelling_by_factors_of_run_time(outputs: str) -> None:
    feeds = {"x": FAR, "s": floats(5), "b": floats(5)}
    names = outputs.split()
    model = built([node("LayerNormalization", "x s b", outputs)], feeds, {}, names)
    got = ours(model, feeds)
    assert relative(got["y"], normalized(FAR, (3,)) * feeds["s"] + feeds["b"]) <= 1e-4
    for name, wanted in zip(names[1:], runtime(model, feeds)[1:], strict=True):
        assert relative(got[name], wanted) <= 1e-3


def test_means_and_variances_normalize_without_cancelling() -> None:
    model = built([node("MeanVarianceNormalization", "x", axes=[2, 3])], {"x": FAR}, {}, ["y"])
    assert relative(ours(model, {"x": FAR})["y"], normalized(FAR, (2, 3), 0)) <= 1e-4


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16"])
def test_halves_are_quantized_by_a_quotient_of_halves(kind: str) -> None:
    """QuantizeLinear of float16 divides in float16, as the standard says. Regression: to 8 bits it failed ("declared
    int8 but computed as float16"), and to 16 bits it had errors of up to 16 steps.
    """
    x = (floats(4, 30) * 3).astype(np.float16)
    scale = np.float16(0.0004 if kind.endswith("16") else 0.05)
    model = built([node("QuantizeLinear", "x s z")], {"x": x}, {"s": scale, "z": np.array(7, kind)}, ["y"])
    # ONNX Runtime divides halves as well, unless its optimization makes them float32 before.
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(ours(model, {"x": x})["y"], wanted)


MIXED = {
    "exponent": (node("Pow", "x e"), {"x": np.abs(floats(2, 3)), "e": floats(3, dtype=np.float16)}, {}),
    "base": (node("Pow", "x e"), {"x": np.abs(floats(2, 3, dtype=np.float16)), "e": floats(3)}, {}),
    "exponent of 0": (
        node("Pow", "x e"),
        {"x": floats(2, 3, dtype=np.float16)},
        {"e": np.zeros((), np.float32)},
    ),
    "diagonal": (node("EyeLike", "x", k=1), {"x": floats(2, 3, dtype=np.float16)}, {}),
    "diagonal of floats": (node("EyeLike", "x", dtype=1), {"x": floats(2, 3, dtype=np.float16)}, {}),
}


@pytest.mark.parametrize("case", MIXED)
def test_results_have_the_type_of_the_first_input(case: str) -> None:
    made, feeds, constants = MIXED[case]
    model = built([made], feeds, constants, ["y"])
    got, (wanted,) = ours(model, feeds)["y"], runtime(model, feeds)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got.astype(np.float32), wanted.astype(np.float32), rtol=1e-3)


FOLDED = {
    "neighbouring channels": (node("LRN", "c", "t", size=3), floats(1, 4, 3, 3)),
    "absolute values": (node("LpNormalization", "c", "t", p=1), floats(3, 4)),
    "groups": (node("ConvTranspose", "c w", "t", group=2), floats(1, 4, 3, 3)),
    "greatest of lines": (node("GlobalMaxPool", "c", "t"), floats(2, 3, 4)),
    "pads behind": (node("MaxPool", "c", "t", kernel_shape=[2], pads=[0, 1]), floats(2, 3, 4)),
    "windows rounded up": (
        node("LpPool", "c", "t", kernel_shape=[2, 2], strides=[1, 3], pads=[1, 0, 1, 0], ceil_mode=1),
        floats(1, 2, 3, 4),
    ),
    "lengths": (node("RNN", "c v v . l", "t", hidden_size=3, clip=0.3), floats(4, 2, 3)),
    "an only element": (
        node("Resize", "c . . s", "t", mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
        floats(1, 2, 4, 4),
    ),
    "powers that are 0": (node("LogSoftmax", "c", "t"), 300 * floats(3, 4)),
    "axes in any order": (node("Unsqueeze", "c a", "t"), floats(4, 17)),
}


@pytest.mark.parametrize("case", FOLDED)
def test_constants_are_not_folded_by_a_reference_that_is_mistaken(case: str) -> None:
    """The nodes of FOLDED on constants give ONNX Runtime's results. Regression: they had errors of ONNX's reference
    implementation, which evaluates constants.
    """
    made, c = FOLDED[case]
    more = {
        "w": floats(4, 3, 2, 2),
        "v": floats(1, 3, 3),
        "l": np.array([2, 4], np.int32),
        "a": np.array([2, -3]),
        "s": np.array([1, 2, 1, 3]),
    }
    constants = {"c": c, **{name: more[name] for name in made.input if name in more}}
    feeds = {"x": floats(1)}
    model = built([made, helper.make_node("Add", ["t", "x"], ["y"], "sum")], feeds, constants, ["y"], 22)
    got, (wanted,) = ours(model, feeds)["y"], runtime(model, feeds)
    assert got.shape == wanted.shape and relative(got, wanted) <= 1e-5


def test_softmaxes_of_constants_are_along_all_axes_in_old_opsets() -> None:
    feeds = {"x": floats(1)}
    nodes = [node("LogSoftmax", "c", "t"), helper.make_node("Add", ["t", "x"], ["y"], "sum")]
    model = built(nodes, feeds, {"c": floats(2, 3, 4)}, ["y"], 12)
    assert relative(ours(model, feeds)["y"], runtime(model, feeds)[0]) <= 1e-5


def test_steps_of_constants_are_folded_in_opsets_that_write_them_otherwise() -> None:
    feeds = {"s": floats(4)}
    model = built([node("InstanceNormalization", "c s s")], feeds, {"c": floats(1, 4, 3, 3)}, ["y"], 13)
    assert relative(ours(model, feeds)["y"], runtime(model, feeds)[0]) <= 1e-5


def test_what_a_known_condition_leaves_out_is_fused_with_nothing() -> None:
    """The sequence length of this GRU is the constant 1, so that its result is the state after the first of two steps.
    The nodes after the matrix product of the second step are removed, because nothing reads their results. The compiler
    must not fuse the product with one of the removed nodes.
    """
    constants = {
        "x": floats(2, 1, 8),
        "w": floats(1, 9, 8),
        "r": floats(1, 9, 3),
        "l": np.array([1], np.int32),
    }
    feeds = {"h": floats(1, 1, 3)}
    model = built(
        [node("GRU", "x w r . l h", hidden_size=3, clip=3.0, linear_before_reset=1)], feeds, constants, ["y"]
    )
    assert relative(ours(model, feeds)["y"], runtime(model, feeds)[0]) <= 1e-5


def test_equal_programs_with_parameters_of_other_names_share_a_kernel() -> None:
    """Depending on fusion, the input of a reduction is named X or A0. Regression: the second launch of a shared kernel
    had no array for X.
    """
    constants = {
        "w": RNG.integers(-127, 128, (1, 8, 12)).astype(np.int8),
        "r": RNG.integers(-127, 128, (1, 3, 12)).astype(np.int8),
        "l": np.array([2], np.int32),
        "s": np.float32([0.005]),
        "z": np.zeros(1, np.int8),
    }
    feeds = {"x": floats(2, 1, 8), "h": floats(1, 1, 3)}
    made = node("DynamicQuantizeLSTM", "x w r . l h . . s z s z", hidden_size=3)
    made.domain = "com.microsoft"
    model = built([made], feeds, constants, ["y"], 17)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 1, 1, 3)))
    assert relative(ours(model, feeds)["y"], runtime(model, feeds)[0]) <= 2e-2


REFUSED = {
    "windows": (
        node("MaxPool", "x", "y i", kernel_shape=[2, 2], strides=[3, 2]),
        floats(2, 3, 1, 4),
        "windows of .2, 2. elements do not fit",
    ),
    "cubic integers": (
        node("Resize", "x . c", mode="cubic"), np.ones((1, 1, 3, 3), np.int8), "its input 'x' is int8"
    ),
    "padding": (node("GridSample", "x g", padding_mode="foo"), floats(1, 1, 3, 3), "padding_mode foo"),
    "scattered": (
        node("ScatterElements", "x i x", reduction="foo"), floats(2, 3), "the reduction 'foo'"
    ),
    "one index": (
        helper.make_node("ScatterND", ["x", "n", "x"], ["y"], "the_node"), floats(3), r"indices of shape \(\)"
    ),
    "norm of power 0": (node("LpPool", "x", kernel_shape=[1, 1], p=0), floats(1, 2, 3, 3), "its p is 0"),
    "shifts": (node("BitShift", "x x", direction="UP"), np.ones(3, np.uint8), "direction 'UP'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_what_is_wrong(case: str) -> None:
    made, x, reason = REFUSED[case]
    constants = {"c": np.float32([1, 1, 2, 2]), "g": floats(1, 2, 2, 2), "i": np.zeros((2, 3), np.int64)}
    constants["n"] = np.array(0)
    given = {name: constants[name] for name in made.input if name in constants}
    model = built([made], {"x": x}, given, list(made.output))
    shape = (2, 3, 0, 2) if case == "windows" else None
    for info in model.graph.output:
        if not info.type.HasField("tensor_type"):
            info.CopyFrom(helper.make_tensor_value_info(info.name, TensorProto.FLOAT, shape))
    with pytest.raises(ModelError, match=f"the_node.*{reason}"):
        vdla.compile(model, target="llvm", cache=False)


@pytest.mark.parametrize("target", ["llvm", "vdla"])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_a_bias_of_integers_is_in_steps_that_alpha_scales(alpha: float, target: str) -> None:
    """A QGemm multiplies its bias by alpha, too. Regression: with alpha = 0.5 it added the bias without this factor."""
    constants = {
        "c": np.arange(-20, 20, dtype=np.int32)[::4] * 90,
        "w": RNG.integers(-127, 128, (8, 10)).astype(np.int8),
        **{name: np.float32(value) for name, value in (("sx", 0.02), ("sw", 0.004), ("sy", 0.07))},
        **{name: np.array(value, dtype) for name, value, dtype in (("zx", 11, np.uint8), ("zw", 0, np.int8))},
        "zy": np.array(100, np.uint8),
    }
    made = node("QGemm", "x sx zx w sw zw c sy zy", alpha=alpha)
    made.domain = "com.microsoft"
    feeds = {"x": RNG.integers(0, 256, (3, 8)).astype(np.uint8)}
    model = built([made], feeds, constants, ["y"], 17)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.UINT8, (3, 10)))
    options = {"config": "tiny"} if target == "vdla" else {"cache": False}
    got = vdla.compile(model, target=target, **options).run(feeds)["y"]
    assert np.abs(got.astype(int) - runtime(model, feeds)[0]).max() <= 1


@pytest.mark.parametrize(
    ("given", "wanted"), [((3, 2, 2), (1, 1, 2, 3, 2)), ((2, 3, 5), (3, 2, 5)), ((4, 2, 3), (2, 4, 1, 3, 1))]
)
def test_rows_of_several_images_are_split_otherwise(given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """The compiler stores a tensor with one axis for images and positions together. The Reshapes of this test split
    that axis; the result must be right. Regression: they raised a ValueError.
    """
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("Reshape", "d shape"),
    ]
    constants = {"s": np.float32(0.1), "z": np.uint8(128), "shape": np.array(wanted)}
    feeds = {"x": floats(*given)}
    model = built(nodes, feeds, {name: np.asarray(value) for name, value in constants.items()}, ["y"])
    got = vdla.compile(model, target="llvm", cache=False).run(feeds)["y"]
    np.testing.assert_array_equal(got, runtime(model, feeds)[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_tensors_whose_size_inference_does_not_know_count_their_own_bytes(dtype: Any) -> None:
    """The limit on a tensor's size counts bytes of its own type: a tensor with three quarters of the largest allowed
    number of float32 elements is refused if its elements have twice the size of a float32.
    """
    elements = MOST_TENSOR_BYTES * 3 // 16
    nodes = [
        helper.make_node("ReduceSum", ["parts", "axes"], ["shape"], keepdims=0),
        node("Expand", "x shape", "wide"),
        helper.make_node("ArgMax", ["wide"], ["y"], keepdims=0),
    ]
    constants = {"parts": np.array([[elements - 5], [5]]), "axes": np.array([0])}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [1])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    if np.dtype(dtype).itemsize == 4:
        import_float_model(model.SerializeToString())
        return
    with pytest.raises(ModelError, match=r"the_node.*'wide' has the shape"):
        import_float_model(model.SerializeToString())


@pytest.mark.parametrize("opset", [12, 13])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_quantized_softmax_is_along_the_axis_that_its_own_opset_says(axis: int, opset: int) -> None:
    """A QLinearSoftmax with the attribute opset = 13 works along one axis. Regression: in models of opset 12, it was
    computed along all axes from the given one on, whatever the attribute.
    """
    constants = {"sx": np.float32(0.03), "zx": np.uint8(120), "sy": np.float32(1 / 256), "zy": np.uint8(0)}
    made = node("QLinearSoftmax", "x sx zx sy zy", axis=axis, opset=13)
    made.domain = "com.microsoft"
    feeds = {"x": RNG.integers(0, 256, (2, 3, 8)).astype(np.uint8)}
    model = built([made], feeds, {name: np.asarray(value) for name, value in constants.items()}, ["y"], opset)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.UINT8, (2, 3, 8)))
    got = vdla.compile(model, target="llvm", cache=False).run(feeds)["y"]
    assert np.abs(got.astype(int) - runtime(model, feeds)[0]).max() <= 1


def test_a_remainder_of_zero_has_the_sign_of_its_dividend() -> None:
    """A remainder of 0 (Mod with fmod) is -0 if the dividend is negative, as its reciprocal shows. Regression: the
    reciprocal was infinity with the wrong sign.
    """
    feeds = {
        "x": np.array([-3, 3, -0.0, 0.0, -6, -5.5, 5.5], np.float32),
        "y": np.array([-3, 3, 2, -2, 4, 5.5, -5.5], np.float32),
    }
    nodes = [
        helper.make_node("Mod", ["x", "y"], ["rest"], fmod=1),
        helper.make_node("Reciprocal", ["rest"], ["y1"]),
    ]
    model = built(nodes, feeds, {}, ["y1"], 13)
    got, wanted = ours(model, feeds)["y1"], runtime(model, feeds)[0]
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("constant", [True, False])
def test_an_unknown_mode_is_refused_of_constants_too(constant: bool) -> None:
    """A DepthToSpace with an unknown mode is refused, also (`constant`) of a constant. Regression: ONNX's reference
    implementation evaluated it, and treats any unknown mode as CRD.
    """
    feeds = {"z": floats(1)} if constant else {"x": floats(1, 4, 2, 2)}
    constants = {"x": floats(1, 4, 2, 2)} if constant else {}
    nodes = [node("DepthToSpace", "x", mode="cubic ", blocksize=2)]
    nodes += [helper.make_node("Neg", ["z"], ["w"])] if constant else []
    model = built(nodes, feeds, constants, ["y"], 13)
    with pytest.raises(ModelError, match=r"the_node.*mode 'cubic '"):
        vdla.compile(model, target="llvm", cache=False)


def test_an_unknown_form_of_gelu_is_refused_of_tables_too() -> None:
    """A Gelu with an unknown value of `approximate` is refused, also if a look-up table would compute it. Regression:
    ONNX's reference implementation, which fills the table, computes the exact Gelu for any unknown value.
    """
    constants: dict[str, np.ndarray] = {"s": np.array(0.1, np.float32), "z": np.array(0, np.int8)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("Gelu", "d", "g", approximate="cubic "),
        helper.make_node("QuantizeLinear", ["g", "s", "z"], ["y"]),
    ]
    model = built(nodes, {"x": floats(1, 4)}, constants, ["y"])
    with pytest.raises(ModelError, match=r"the_node.*approximate 'cubic '"):
        vdla.compile(model, target="llvm", cache=False)


@pytest.mark.parametrize("opset", [17, 9])
def test_inference_does_not_end_the_process_behind_operators_that_it_does_not_know(opset: int) -> None:
    """A model is compiled although ONNX's shape inference (version 1.23) would crash the process on it. The crash comes
    from an EyeLike whose input has no known shape, here because an operator of ONNX Runtime's domain computes it.
    ONNX's converter of older opsets calls shape inference, too.
    """
    constants = {"a": np.int8([[1, 2], [3, 4]]), "s": np.float32(0.5), "t": np.float32(0.25)}
    unknown = helper.make_node("MatMulIntegerToFloat", ["x", "a", "s", "t"], ["m"], domain="com.microsoft")
    feeds = {"x": np.int8([[1, 2], [3, 4], [5, 6]])}
    nodes = [unknown, helper.make_node("EyeLike", ["m"], ["y"], dtype=TensorProto.FLOAT)]
    model = built(
        [nodes[0]], feeds, {name: np.asarray(value) for name, value in constants.items()}, [], opset
    )
    model.graph.node.append(nodes[1])
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, (3, 2)))
    np.testing.assert_array_equal(ours(model, feeds)["y"], np.eye(3, 2))


def test_inference_does_not_end_the_process_before_a_pool_that_rounds_up() -> None:
    """A model with an EyeLike of an unknown shape and a pool with `ceil_mode` is compiled. Regression: for such pools,
    the importer runs ONNX's shape inference once more, and this run crashed the process.
    """
    nodes = [
        helper.make_node("MatMulIntegerToFloat", ["x", "a", "s", "t"], ["m"], domain="com.microsoft"),
        helper.make_node("EyeLike", ["m"], ["y"], dtype=TensorProto.FLOAT),
        node("MaxPool", "x0", "y0", kernel_shape=[2], strides=[2], ceil_mode=1),
    ]
    constants = {
        "a": np.int8([[1, 2], [3, 4]]),
        "s": np.array(0.5, np.float32),
        "t": np.array(0.25, np.float32),
    }
    feeds = {"x": np.int8([[1, 2], [3, 4], [5, 6]]), "x0": floats(1, 1, 5)}
    model = built([nodes[0], nodes[2]], feeds, constants, ["y0"])
    model.graph.node.insert(1, nodes[1])
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, (3, 2)))
    got = ours(model, feeds)
    np.testing.assert_array_equal(got["y"], np.eye(3, 2))
    np.testing.assert_array_equal(got["y0"], runtime(model, feeds)[0])


def test_inference_does_not_end_the_process_behind_a_node_of_a_later_opset() -> None:
    """A model of opset 10 with a negative axis of Flatten, which is valid only since opset 11, is compiled: ONNX's
    inference gives the Flatten's result no shape, and must not crash at the EyeLike behind it.
    """
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["x"], ["f"], "flat", axis=-1), node("EyeLike", "f", dtype=1)],
        "later",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=8)
    np.testing.assert_array_equal(ours(model, {"x": floats(2, 3)})["y"], np.eye(2, 3))


@pytest.mark.parametrize("attributes", [{}, {"axis": 2}, {"axis": -3}])
@pytest.mark.parametrize("target", ["llvm", "vdla,llvm"])
def test_a_hardmax_before_opset_13_is_along_all_axes_from_one_on(
    target: str, attributes: dict[str, int]
) -> None:
    """A Hardmax of an opset before 13 works along all axes from `axis` on, later ones along one axis. ONNX's converter
    to newer opsets (1.23) leaves the node unchanged, so that the importer must handle the old meaning.
    """
    feeds = {"x": floats(2, 3, 4, 5), "q": floats(1, 16)}
    constants = {"s": np.asarray(np.float32(0.1)), "z": np.asarray(np.int8(0))}
    quantized = [
        helper.make_node("QuantizeLinear", ["q", "s", "z"], ["i"]),
        helper.make_node("DequantizeLinear", ["i", "s", "z"], ["r"]),
    ]
    model = built([node("Hardmax", "x", **attributes), *quantized], feeds, constants, ["y", "r"], 11)
    got = vdla.compile(model, target=target, config="tiny", cache=False).run(feeds)["y"]
    axis = attributes.get("axis", 1) % 4
    rows = feeds["x"].reshape(np.prod(feeds["x"].shape[:axis], dtype=int), -1)
    wanted = (rows == rows.max(1, keepdims=True)).reshape(feeds["x"].shape)
    np.testing.assert_array_equal(got, wanted.astype(np.float32))


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1", "INT4"])
def test_a_constant_of_one_short_number_has_its_value(kind: str) -> None:
    """A constant of one number in a type of 4 or 8 bits has the right value. Regression: the compiler took the value -2
    of a float8 constant for the bits that encode a number, and got NaN.
    """
    feeds = {"x": floats(3)}
    model = built(
        [node("CastLike", "c x", "t"), helper.make_node("Add", ["t", "x"], ["y"])], feeds, {}, [], 23
    )
    model.graph.initializer.append(helper.make_tensor("c", getattr(TensorProto, kind), [], [-2]))
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, (3,)))
    np.testing.assert_allclose(ours(model, feeds)["y"], feeds["x"] - 2, rtol=1e-6)


EVALUATED: dict[str, tuple[onnx.NodeProto, dict[str, np.ndarray], int, np.ndarray]] = {
    "BatchNormalization before opset 14": (
        node("BatchNormalization", "c s b m v", epsilon=0.25),
        {
            "c": np.array([[1.0, 2.0], [3.0, 6.0]], np.float32),
            "s": np.array([2.0, 3.0], np.float32),
            "b": np.array([1.0, -1.0], np.float32),
            "m": np.array([1.0, 4.0], np.float32),
            "v": np.array([0.75, 3.75], np.float32),
        },
        9,
        np.array([[1.0, -4.0], [5.0, 2.0]], np.float32),
    ),
    "values that a difference rounds": (
        node("OneHot", "i d v", axis=0),
        {
            "i": np.array([1, -1, 7]),
            "d": np.array(3),
            "v": np.array([1e8, 0.3116085529], np.float32),
        },
        13,
        np.array([[1e8, 1e8, 1e8], [0.3116085529, 1e8, 1e8], [1e8, 0.3116085529, 1e8]], np.float32),
    ),
    "the logarithm of a negative number": (
        node("Log", "c"),
        {"c": np.array([-1.0, 0.0, 1.0], np.float32)},
        13,
        np.array([np.nan, -np.inf, 0.0], np.float32),
    ),
}
"""Nodes with constant inputs that ONNX's reference implementation (1.23) computes wrongly, or with a numpy warning: by
name, (node, constants, opset, right result).
"""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", EVALUATED.values(), ids=EVALUATED.keys())
def test_a_node_of_constants_is_folded_right(
    case: tuple[onnx.NodeProto, dict[str, np.ndarray], int, np.ndarray],
) -> None:
    folded, constants, opset, wanted = case
    feeds = {"x": floats(2, 3)}
    model = built([folded, helper.make_node("Relu", ["x"], ["z"])], feeds, constants, ["y", "z"], opset)
    np.testing.assert_allclose(ours(model, feeds)["y"], wanted, rtol=1e-6)


def test_a_quantized_softmax_along_an_axis_that_is_not_there_is_refused() -> None:
    constants = {"sx": np.float32(0.03), "zx": np.uint8(120), "sy": np.float32(1 / 256), "zy": np.uint8(0)}
    made = node("QLinearSoftmax", "x sx zx sy zy", axis=5, opset=13)
    made.domain = "com.microsoft"
    feeds = {"x": RNG.integers(0, 256, (2, 3, 8)).astype(np.uint8)}
    for opset in (12, 13):
        model = built(
            [made], feeds, {name: np.asarray(value) for name, value in constants.items()}, [], opset
        )
        model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.UINT8, (2, 3, 8)))
        with pytest.raises(ModelError, match=r"the_node.*axis"):
            vdla.compile(model, target="llvm", cache=False)


@pytest.mark.parametrize("operator", ["Split", "Flatten"])
def test_a_view_of_a_result_that_is_one_number_is_an_output(operator: str) -> None:
    """A result that is one number for all elements (x to the power of 0) may be an output through a view. Regression: a
    view of the whole result, as an output, raised a KeyError.
    """
    feeds = {"x": np.array([[2, 3, 4]], np.float32)}
    whole = {"num_outputs": 1} if operator == "Split" else {}
    nodes = [helper.make_node("Pow", ["x", "p"], ["t"]), node(operator, "t", **whole)]
    model = built(nodes, feeds, {"p": np.asarray(np.float32(0))}, ["y"])
    np.testing.assert_array_equal(ours(model, feeds)["y"], np.ones((1, 3), np.float32))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, bool])
def test_bytes_are_scattered_along_the_last_axis(dtype: Any) -> None:
    """ScatterElements with equal indices gives ONNX Runtime's result. Regression: the loops over the updates were
    vectorized along the axis of the indices, which may be equal.
    """
    indices = np.array([[0, 3, 3, 1], [2, 0, 2, 2], [1, 2, 3, 0]])
    feeds = {"x": np.ones((3, 4), dtype), "u": np.arange(12).reshape(3, 4).astype(dtype)}
    model = built([node("ScatterElements", "x i u", axis=1)], feeds, {"i": indices}, ["y"])
    np.testing.assert_array_equal(ours(model, feeds)["y"], runtime(model, feeds)[0])


def test_a_number_of_more_dimensions_keeps_them_in_a_reduction() -> None:
    """The minimum over both axes of a sum of shape (1, 7) is right. Regression: a constant of shape (1, 1) lost its
    dimensions when it became a number in the kernel; its sum with a tensor of shape (7,) then had no axis 1 to reduce.
    """
    nodes = [helper.make_node("Add", ["x", "c"], ["a"]), node("ReduceMin", "a", axes=[0, 1], keepdims=0)]
    feeds = {"x": floats(7)}
    model = built(nodes, feeds, {"c": floats(1, 1)}, ["y"], 17)
    np.testing.assert_allclose(ours(model, feeds)["y"], runtime(model, feeds)[0], rtol=1e-6)

"""The importer rewrites some models before it reads them: models with local functions, of old opsets, or with ONNX
Runtime's operators for 16-bit and 4-bit integers. Their results equal ONNX Runtime's on every target. Other tests use
models that cannot be divided between accelerator and processor.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from float_networks import relative
from mixed_networks import unoptimized
from onnx import TensorProto, helper, numpy_helper, parser

import vdla
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.frontends.onnx.model.read import read_model
from vdla.compiler.graph.errors import InvalidModelError, ModelError

FLOAT_TARGETS = ("llvm", "vdla,llvm")
QUANTIZED = """
    <ir_version: 7, opset_import: ["" : {opset}, "my" : 1{more}]>
    net (float[1, 16, 5, 6] x) => (float[1, 16, 5, 6] y)
    <float s = {{0.02}}, uint8 z = {{120}}, float t = {{0.01}}, int8 u = {{0}}> {{
        {body}
    }}
"""


def model(text: str, **constants: np.ndarray) -> bytes:
    """The bytes of a model in ONNX's text syntax, with `constants` as further initializers."""
    parsed = parser.parse_model(text)
    for name, array in constants.items():
        parsed.graph.initializer.append(numpy_helper.from_array(array, name))
    return parsed.SerializeToString()


def feeds_of(content: bytes) -> dict[str, np.ndarray]:
    """Seeded random inputs of a model, by name."""
    rng, found = np.random.default_rng(3), {}
    for info in onnx.load_model_from_string(content).graph.input:
        kind = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        drawn = rng.standard_normal(shape) if kind.kind == "f" else rng.integers(0, 200, shape)
        found[info.name] = np.asarray(drawn, kind)
    return found


def check(content: bytes, *targets: str, steps: float = 0.0) -> None:
    """Asserts that every target agrees with ONNX Runtime: within the absolute difference `steps` or, if it is 0, within
    1e-5 of the largest value.
    """
    feeds = feeds_of(content)
    expected = unoptimized(content, feeds)
    for target in targets:
        with vdla.compile(content, target=target, config="tiny") as network:
            got = network.run(feeds)
        for name, array in expected.items():
            assert got[name].shape == array.shape and got[name].dtype == array.dtype, (target, name)
            if steps:
                assert np.abs(got[name] - array).max() <= steps * 1.01, (target, name)
            else:
                assert relative(got[name], array) <= 1e-5, (target, name)


WEIGHTS = np.random.default_rng(0).integers(-127, 127, (16, 16, 3, 3)).astype(np.int8)
LAYER = """
    w = DequantizeLinear <axis: int = 0> (weights, t, u)
    r = Conv <pads: ints = [1, 1, 1, 1]> (a, w)
"""


def test_local_functions_on_every_target() -> None:
    function = """
        <domain: "my", opset_import: ["" : 17]>
        layer (a, weights, s, z, t, u) => (o) {
            w = DequantizeLinear <axis: int = 0> (weights, t, u)
            r = Conv <pads: ints = [1, 1, 1, 1]> (a, w)
            q = QuantizeLinear (r, s, z)
            o = DequantizeLinear (q, s, z)
        }
    """
    body = """
        i = QuantizeLinear (x, s, z)
        a = DequantizeLinear (i, s, z)
        b = my.layer (a, weights, s, z, t, u)
        y = my.layer (b, weights, s, z, t, u)
    """
    text = QUANTIZED.format(opset=17, body=body, more="") + function
    check(model(text, weights=WEIGHTS), "vdla", *FLOAT_TARGETS, steps=0.02)


def test_large_weights_stay_with_their_names_when_functions_are_inlined() -> None:
    large = np.arange(2**15, dtype=np.float32).reshape(2**14, 2)
    content = model(
        """
        <ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        net (float[3, 16384] x) => (float[3, 2] y) { p = my.product (x, first)  y = Add (p, second) }
        <domain: "my", opset_import: ["" : 17]>
        product (a, b) => (o) { o = MatMul (a, b) }
        """,
        second=np.ones((3, 2), np.float32),
        first=large,
    )
    read = read_model(content)
    assert [t.name for t in read.bare.graph.initializer] == ["second", "first"] and list(read.weights) == [1]
    check(content, "llvm")


def test_a_function_that_calls_itself() -> None:
    text = """
        <ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        net (float[2] x) => (float[2] y) { y = my.f (x) }
        <domain: "my", opset_import: ["" : 17, "my" : 1]>
        f (a) => (b) { b = my.f (a) }
    """
    with pytest.raises(InvalidModelError, match=r"its functions cannot be inlined: .*; inline them with"):
        read_model(model(text))


@pytest.mark.parametrize("opset", range(10, 13))
def test_integers_of_old_opsets_on_every_target(opset: int) -> None:
    body = """
        q = QuantizeLinear (x, s, z)
        c = QLinearConv <pads: ints = [1, 1, 1, 1]> (q, s, z, weights, t, u, s, z)
        d = com.microsoft.QLinearAdd (c, s, z, c, s, z, s, z)
        y = DequantizeLinear (d, s, z)
    """
    text = QUANTIZED.format(opset=opset, body=body, more=', "com.microsoft" : 1')
    check(model(text, weights=WEIGHTS), "vdla", *FLOAT_TARGETS, steps=0.02)


OLD = {
    "softmax": ("f = Flatten (x)  y = Softmax <axis: int = 1> (f)", (7, 9, 11, 12)),
    "softmax_of_two_axes": ("y = Softmax <axis: int = 2> (x)", (7, 12)),
    "clip": ("y = Clip <min: float = -0.5, max: float = 0.25> (x)", (7, 10)),
    "pad": ("y = Pad <pads: ints = [0, 0, 1, 0, 0, 0, 0, 2]> (x)", (7, 10)),
    "slice": ("y = Slice <axes: ints = [2, 3], starts: ints = [1, 0], ends: ints = [3, -1]> (x)", (7, 9)),
    "top_k": ("y, i = TopK <k: int = 2, axis: int = 3> (x)", (7, 9)),
    "sum": (
        "a = ReduceSum <axes: ints = [2], keepdims: int = 0> (x)  y = Unsqueeze <axes: ints = [0]> (a)",
        (7, 12),
    ),
    "split": ("y, i = Split <axis: int = 3, split: ints = [2, 4]> (x)", (7, 12)),
    "upsample": ("y = Upsample (x, up)", (9,)),
    "upsample_between": ('y = Upsample <mode: string = "linear"> (x, up)', (9,)),
    "resize_between": ('y = Resize <mode: string = "linear"> (x, up)', (10,)),
    "resize_down": ("y = Resize (x, down)", (10,)),
}


@pytest.mark.parametrize(
    "name, opset", [(name, opset) for name, (_, found) in OLD.items() for opset in found]
)
def test_old_opsets(name: str, opset: int) -> None:
    text = f"""
        <ir_version: 4, opset_import: ["" : {opset}]>
        net (float[1, 3, 5, 6] x) => (y) <float[4] up = {{1, 1, 1.5, 1.7}}, float[4] down = {{1, 1, 0.7, 0.4}}> {{
            {OLD[name][0]}
        }}
    """
    parsed = parser.parse_model(text)
    parsed.graph.output[0].CopyFrom(
        helper.make_tensor_value_info(
            "y",
            TensorProto.FLOAT,
            unoptimized(parsed.SerializeToString(), {"x": np.zeros((1, 3, 5, 6), np.float32)})["y"].shape,
        )
    )
    check(parsed.SerializeToString(), *FLOAT_TARGETS)


def test_an_old_resize_with_two_roundings() -> None:
    text = """
        <ir_version: 4, opset_import: ["" : 10]>
        net (float[1, 3, 5, 6] x) => (float[1, 3, 3, 9] y) <float[4] s = {1, 1, 0.7, 1.5}> { y = Resize (x, s) }
    """
    with pytest.raises(ModelError, match=r"is of opset 10, .*cannot be converted: node .* below and above 1"):
        import_float_model(model(text))


@pytest.mark.parametrize("kind, zero", [("uint16", 32768), ("int16", 7)])
def test_sixteen_bits_before_opset_21(kind: str, zero: int) -> None:
    body = f"""
        zero = Constant <value = {kind}[1] {{{zero}}}> ()
        z16 = Reshape (zero, number)
        q = com.microsoft.QuantizeLinear (x, fine, z16)
        a = com.microsoft.DequantizeLinear (q, fine, z16)
        {LAYER}
        o = QuantizeLinear (r, s, z)
        y = DequantizeLinear (o, s, z)
    """
    text = QUANTIZED.format(opset=17, body=body, more=', "com.microsoft" : 1')
    constants = {"fine": np.float32(2e-4), "number": np.zeros(0, np.int64), "weights": WEIGHTS}
    check(model(text, **constants), *FLOAT_TARGETS, steps=0.02)


def test_weights_of_four_bits_before_opset_21() -> None:
    import ml_dtypes

    text = """
        <ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
        net (float[3, 8] x) => (float[3, 5] y) <float[5] s = {0.1, 0.2, 0.3, 0.4, 0.5}> {
            w = com.microsoft.DequantizeLinear <axis: int = 1> (four, s)
            y = MatMul (x, w)
        }
    """
    four = np.random.default_rng(0).integers(-8, 8, (8, 5)).astype(ml_dtypes.int4)
    check(model(text, four=four), *FLOAT_TARGETS)


@pytest.mark.parametrize(
    "text",
    [
        "net (uint8[3, 16] x) => (int32[3, 4] y) { y = MatMulInteger (x, w) }",
        "net (float[0, 3] x) => (float[0, 3] y) { y = Relu (x) }",
        "net (float[3, 16] x) => (uint8[3, 16] y) { y = QuantizeLinear (x, s, z) }",
        "net (float[3, 16] x) => (int32[3, 4] y) { q = QuantizeLinear (x, s, z)  y = MatMulInteger (q, w, z) }",
    ],
)
def test_divided_networks_run_whatever_the_processor_alone_runs(text: str) -> None:
    constants = {
        "w": np.random.default_rng(0).integers(-127, 127, (16, 4)).astype(np.int8),
        "s": np.float32(0.1),
        "z": np.uint8(100),
    }
    content = model(f'<ir_version: 8, opset_import: ["" : 17]> {text}', **constants)
    check(content, *FLOAT_TARGETS)


def test_a_model_that_only_the_processor_reads_is_one_region(monkeypatch: pytest.MonkeyPatch) -> None:
    from vdla.compiler.divided import compile_divided
    from vdla.compiler.frontends.onnx import submodel

    content = model("""
        <ir_version: 8, opset_import: ["" : 17]> net (float[2, 3] x) => (float[2, 3] y) { y = Relu (x) }
    """)

    def refuse(*_: object, **__: object) -> None:
        raise ModelError("model: cannot be divided; do not divide it")

    monkeypatch.setattr(submodel, "prepare_model", refuse)
    division = compile_divided(content, vdla.config("tiny"))
    assert [region.side for region in division.network.regions] == ["cpu"]
    assert "cannot be divided" in division.refusals["Relu_0"]
    check(content, "vdla,llvm")


def test_integers_may_be_outputs_of_a_float_network(tmp_path: Path) -> None:
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[3, 16] x) => (int8[3, 16] q, float[3, 16] y) <float s = {0.1}, int8 z = {3}> {
            r = Sin (x)  q = QuantizeLinear (r, s, z)  d = DequantizeLinear (q, s, z)  y = Sin (d)
        }
    """
    check(model(text), *FLOAT_TARGETS)
    assert import_float_model(model(text)).outputs[0].dtype == "int8"
    with pytest.raises(ModelError):
        import_model(model(text))

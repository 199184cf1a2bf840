"""`--dim NAME=SIZE` for models with symbolic dimensions, on every command that reads models."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.codesign.dimensions import parse_constants, parse_dimensions
from vdla.util.errors import UserError

HIDDEN = 4


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Path of a model of an LSTM on a sequence of symbolic length, whose outputs' shapes contain the same symbol."""
    generator = np.random.default_rng(0)
    arrays = {
        "w": generator.standard_normal((1, 4 * HIDDEN, 3), dtype=np.float32),
        "r": generator.standard_normal((1, 4 * HIDDEN, HIDDEN), dtype=np.float32),
    }
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["h"], "lstm", hidden_size=HIDDEN),
        helper.make_node("Relu", ["h"], ["y"], "relu"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["sequence", 1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["sequence", 1, 1, HIDDEN])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    path = tmp_path / "lstm.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def convolution(path: Path, dimensions: list[str | int | None]) -> Path:
    weight = np.ones((2, 3, 3, 3), np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dimensions)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, "height - 2", "width - 2"])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_sequence_gets_its_length(vdla, model: Path) -> None:
    document = vdla("run", model, "--device", "cpu", "--dim", "sequence=5", "--json").document()
    assert document["inputs"][0]["shape"] == [5, 1, 3] and document["outputs"][0]["shape"] == [
        5,
        1,
        1,
        HIDDEN,
    ]
    assert document["check"]["passed"]


def test_height_and_width(vdla, tmp_path: Path) -> None:
    path = convolution(tmp_path / "conv.onnx", [1, 3, "height", None])
    message = vdla("run", path, "--device", "cpu").message()
    # What has no symbol is called by input and axis.
    assert "dimension 2 is 'height'; give sizes: --dim height=SIZE --dim x:3=SIZE, or" in message
    message = vdla("run", path, "--device", "cpu", "--dim", "height=9").message()
    assert str(path) in message and "--dim x:3=SIZE" in message
    sizes = ("--dim", "height=9", "--dim", "x:3=7")
    document = vdla("run", path, "--device", "cpu", *sizes, "--json").document()
    assert document["outputs"][0]["shape"] == [1, 2, 7, 5] and document["check"]["passed"]
    divided = vdla("run", path, "--target", "vdla,llvm", *sizes, "--json").document()
    assert divided["check"]["passed"]
    assert vdla("compile", path, *sizes, "-o", tmp_path / "conv.tar").code == 0
    assert vdla("run", tmp_path / "conv.tar", "--json").document()["outputs"][0]["shape"] == [1, 2, 7, 5]
    data = np.random.default_rng(0).standard_normal((2, 3, 9, 7), dtype=np.float32)
    np.savez(tmp_path / "data.npz", x=data)
    quantize = ("quantize", path, "--calibration", tmp_path / "data.npz", "-o", tmp_path / "q.onnx")
    assert vdla(*quantize, *sizes).code == 0
    assert vdla("run", tmp_path / "q.onnx", "--json").document()["check"]["passed"]


def test_all_symbols_of_all_inputs_are_told_once_as_a_shell_takes_them(vdla, tmp_path: Path) -> None:
    shapes = {"a": [None, "rows", "2*width"], "b": [1, "rows", "2*width"]}
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, "rows", "2*width"])],
    )
    path = tmp_path / "add.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    message = vdla("run", path, "--device", "cpu").message()
    words = shlex.split(message[message.index("--dim") : message.index(", or write")].replace("SIZE", "4"))
    assert words == ["--dim", "rows=4", "--dim", "2*width=4"]
    assert vdla("run", path, "--device", "cpu", *words, "--json").document()["check"]["passed"]


def test_a_model_that_is_for_one_size_says_so(vdla, model: Path) -> None:
    proto = onnx.load(model)
    proto.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 10
    onnx.save(proto, model)
    message = vdla("run", model, "--device", "cpu", "--dim", "sequence=24").message()
    assert (
        "(24) vs (10); the model was exported for other sizes than sequence=24; give the sizes of its export"
        in message
    )
    assert vdla("run", model, "--device", "cpu", "--dim", "sequence=10", "--json").document()["check"][
        "passed"
    ]


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        (["length=5"], "has no symbolic dimension 'length'; the inputs have 'sequence'"),
        (["sequence=0"], "dimension 'sequence' cannot be 0"),
        (["sequence"], "write NAME=SIZE"),
        (["sequence=-3"], "write NAME=SIZE"),
        (["sequence=3", "sequence=4"], "is given twice"),
    ],
)
def test_mistakes_cost_one_line(vdla, model: Path, dims: list[str], words: str) -> None:
    told = [word for dim in dims for word in ("--dim", dim)]
    assert words in vdla("run", model, "--device", "cpu", *told).message()


def test_what_cannot_have_sizes(vdla, model: Path, tmp_path: Path) -> None:
    fixed = convolution(tmp_path / "fixed.onnx", [1, 3, 8, 8])
    message = vdla("compile", fixed, "-o", tmp_path / "n.tar", "--dim", "height=8").message()
    assert "has no symbolic dimension 'height'; the inputs have fixed sizes" in message
    message = vdla("compile", model, "-o", model, "--dim", "sequence=3").message()
    assert "would be overwritten" in message
    message = vdla("tune", "--workload", "conv2d:C2", "--dim", "a=1", "-o", tmp_path / "r.jsonl").message()
    assert "--dim is for models" in message


def test_names_with_an_equals_sign() -> None:
    assert parse_dimensions(["a=b=3"]) == {"a=b": 3}
    with pytest.raises(UserError, match="NAME=SIZE"):
        parse_dimensions(["=3"])


def test_inputs_that_decide_shapes_get_their_values(vdla, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"], "sum", keepdims=0)],
        "net",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3]),
            helper.make_tensor_value_info("axes", TensorProto.INT64, [1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    path, inputs, outputs = (tmp_path / name for name in ("net.onnx", "in.npz", "out.npz"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(inputs, x=x)
    given = ["run", path, "--device", "cpu", "--inputs", inputs, "--outputs", outputs, "--dim", "rows=2"]
    assert "or give its values: --constant axes=VALUE,..." in vdla(*given).message()
    assert vdla(*given, "--constant", "axes=1").code == 0
    np.testing.assert_array_equal(np.load(outputs)["y"], x.sum(1))


@pytest.mark.parametrize("text", ["axes", "=1", "axes=one", "axes=1,,2"])
def test_malformed_constants_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=f"--constant {text}: write NAME=VALUE"):
        parse_constants([text])


def test_values_are_numbers() -> None:
    assert parse_constants(["axes=0,-1", "scale=0.5", "none="]) == {
        "axes": [0, -1],
        "scale": [0.5],
        "none": [],
    }
    with pytest.raises(UserError, match="given twice"):
        parse_constants(["axes=0", "axes=1"])

"""Models and calibration data that cannot be quantized: one line with file, name and advice; no files are written."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.codesign.models import build

SHAPE = (1, 4)
GOOD = {"x": np.ones((3, 4), np.float32)}


def dense(
    shape: tuple[int | str, ...] = SHAPE,
    weight: np.ndarray | None = None,
    opset: int = 17,
    nodes: tuple[onnx.NodeProto, ...] = (),
) -> bytes:
    """The bytes of a model with the input `x` of `shape` and a dense layer of two outputs with `weight` (None: all
    ones), or the given `nodes` in its place.
    """
    weight = np.ones((4, 2), np.float32) if weight is None else weight
    graph = helper.make_graph(
        list(nodes) or [helper.make_node("Gemm", ["x", "w"], ["y"], "fc")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None if nodes else [shape[0], 2])],
        [numpy_helper.from_array(weight, "w")],
    )
    if nodes:
        graph.output[0].type.tensor_type.shape.CopyFrom(graph.input[0].type.tensor_type.shape)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.fixture
def refused(vdla, tmp_path: Path) -> Callable[..., str]:
    def call(model: bytes | None, arrays: dict[str, np.ndarray] | None, *options: str) -> str:
        if model is not None:
            (tmp_path / "net.onnx").write_bytes(model)
        if arrays is not None:
            np.savez(tmp_path / "data.npz", allow_pickle=False, **arrays)
        before = set(tmp_path.rglob("*"))
        where = ("--calibration", tmp_path / "data.npz", "-o", tmp_path / "q.onnx")
        message = vdla("quantize", tmp_path / "net.onnx", *where, "--json", *options).message()
        assert set(tmp_path.rglob("*")) == before
        return message

    return call


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({"image": GOOD["x"]}, ["no input 'image'", "x float32 [1, 4]"]),
        ({}, ["input 'x' is missing", "x float32 [1, 4]"]),
        ({"x": GOOD["x"][:, :3]}, ["'x' has shape [3, 3]", "expects [1, 4]"]),
        ({"x": GOOD["x"][:0]}, ["'x' has shape [0, 4]"]),
        ({"x": GOOD["x"].astype(np.float64)}, ["'x' is float64", "convert it to float32"]),
        ({"x": np.full((2, 4), np.nan, np.float32)}, ["'x' contains NaN or infinities"]),
        ({"x": np.full((2, 4), np.inf, np.float32)}, ["'x' contains NaN or infinities"]),
    ],
)
def test_calibration_data_that_do_not_fit(refused, arrays: dict[str, np.ndarray], parts: list[str]) -> None:
    message = refused(dense(), arrays)
    assert "data.npz" in message and all(part in message for part in parts)


@pytest.mark.parametrize("content", [None, b"", b"text"])
def test_calibration_files_that_are_none(refused, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "data.npz").write_bytes(content)
    assert "data.npz" in refused(dense(), None)


def test_models_that_cannot_be_read(refused) -> None:
    assert "no such file" in refused(None, GOOD)
    assert "is not an ONNX file or is damaged" in refused(b"\x08\x01\xff\xff\xff", GOOD)
    assert "is of opset 99, but the newest" in refused(dense(opset=99), GOOD)


def test_models_that_are_quantized_already(refused) -> None:
    for form in ("u8", "qop"):
        message = refused(build("mlp", form).SerializeToString(), GOOD)
        assert "net.onnx: is quantized already" in message and "give the float32 model" in message


def test_models_without_a_layer_to_quantize(refused) -> None:
    relu = (helper.make_node("Relu", ["x"], ["y"], "relu"),)
    message = refused(dense(nodes=relu), GOOD)
    assert "net.onnx: there is no layer to quantize" in message and "Conv" in message


def test_dynamic_shapes_beyond_the_batch(refused) -> None:
    message = refused(dense(("n", "width")), GOOD)
    assert "input 'x' has a dynamic shape: dimension 1 is 'width'" in message


def test_models_that_compute_infinities(refused) -> None:
    nodes = (
        helper.make_node("Gemm", ["x", "w"], ["z"], "fc"),
        helper.make_node("Log", ["z"], ["l"], "log"),
        helper.make_node("Gemm", ["l", "w"], ["y"], "fc2"),
    )
    message = refused(dense(weight=np.zeros((4, 4), np.float32), nodes=nodes), GOOD)
    assert "tensor 'l' has infinite or NaN values in calibration run 0" in message


def test_places_that_cannot_be_written(vdla, tmp_path: Path) -> None:
    where = ("--calibration", tmp_path / "data.npz", "-o", tmp_path / "no" / "q.onnx")
    assert "there is no directory" in vdla("quantize", tmp_path / "net.onnx", *where).message()


def test_a_float_model_on_the_accelerator_is_told_the_command(vdla, tmp_path: Path) -> None:
    sigmoid = (helper.make_node("Sigmoid", ["x"], ["y"], "gate"),)
    for model in (dense(), dense(nodes=sigmoid), dense(("n", 4))):
        (tmp_path / "net.onnx").write_bytes(model)
        message = vdla("run", tmp_path / "net.onnx").message()
        assert "vdla quantize" in message and "--device cpu" in message

"""External data of models: importer and cache check all references before they read a byte."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.codesign.network_cache import archive_key
from vdla.compiler.frontends.onnx.model.load import load_model
from vdla.compiler.frontends.onnx.model.read import read_model
from vdla.compiler.graph.errors import ModelError

WEIGHT = np.arange(40, dtype=np.float32).reshape(8, 5)


def write(folder: Path, **entries: str) -> Path:
    """Path of a model of a dense layer whose weight is external data with the fields `entries`; without entries the
    weight is in the model.
    """
    weight = numpy_helper.from_array(WEIGHT, "w")
    if entries:
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            weight.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "fc")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    return folder / "net.onnx"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with weight files, and with links, a pipe and a file outside that the importer must not read."""
    (tmp_path / "model").mkdir()
    (tmp_path / "secret").write_bytes(WEIGHT.tobytes())
    (tmp_path / "model" / "w.bin").write_bytes(bytes(16) + WEIGHT.tobytes())
    (tmp_path / "model" / "below").mkdir()
    (tmp_path / "model" / "below" / "w.bin").write_bytes(WEIGHT.tobytes())
    os.mkfifo(tmp_path / "model" / "pipe")
    (tmp_path / "model" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "model" / "zero").symlink_to("/dev/zero")
    return tmp_path / "model"


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "below/w.bin"},
        {"location": "./below/../below/w.bin", "length": "160"},
        {"location": "w.bin", "offset": "16"},
    ],
)
def test_files_below_the_model_are_read(folder: Path, entries: dict[str, str]) -> None:
    loaded = load_model(write(folder, **entries))
    assert loaded.label.endswith("net.onnx")
    np.testing.assert_array_equal(numpy_helper.to_array(loaded.whole().graph.initializer[0]), WEIGHT)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"location": "/dev/zero"}, "outside of the model's folder"),
        ({"location": "zero"}, "outside of the model's folder"),
        ({"location": "../secret"}, "outside of the model's folder"),
        ({"location": "link"}, "outside of the model's folder"),
        ({"location": "."}, "outside of the model's folder"),
        ({"location": ""}, "no file is named"),
        ({"location": "w\0.bin"}, "no file is named"),
        ({"location": "pipe"}, "a pipe or a device"),
        ({"location": "below"}, "Is a directory"),
        ({"location": "none.bin"}, "No such file"),
        ({"location": "w.bin", "offset": "-5"}, "offset '-5' is not a number"),
        ({"location": "w.bin", "length": "abc"}, "length 'abc' is not a number"),
        ({"location": "w.bin", "length": "9" * 5000}, "is not a number of bytes"),
        ({"location": "w.bin", "length": "161"}, "161 bytes, but shape and type need 160 bytes"),
        ({"location": "w.bin", "offset": "17"}, "has 176 bytes, but the tensor is 160 bytes from byte 17"),
        ({"location": "w.bin", "offset": str(2**59)}, "has 176 bytes"),
    ],
)
def test_all_others_are_refused_by_importer_and_cache(
    folder: Path, entries: dict[str, str], problem: str
) -> None:
    model = write(folder, **entries)
    for read in (read_model, archive_key):
        with pytest.raises(ModelError, match=problem) as caught:
            read(model)
        assert "net.onnx" in str(caught.value)


def test_a_tensor_elsewhere_without_a_location_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="no file is named"):
        read_model(write(folder, offset="0"))


def test_a_huge_tensor_is_refused_before_it_is_read(folder: Path) -> None:
    model = onnx.load(write(folder, location="w.bin"), load_external_data=False)
    with (folder / "w.bin").open("r+b") as file:
        file.truncate(2**40)
    for dims in ([2**31, 2**31], [2**20, 2**10]):
        model.graph.initializer[0].dims[:] = dims
        (folder / "net.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(ModelError, match="take more than 2,147,483,647 bytes"):
            read_model(folder / "net.onnx")


def test_tensors_inside_of_nodes_count(folder: Path) -> None:
    model = onnx.load(write(folder, location="/dev/zero"), load_external_data=False)
    tensor = model.graph.initializer.pop()
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="outside of the model's folder"):
        read_model(folder / "net.onnx")


def test_the_model_itself_is_a_file_of_bounded_size(folder: Path, vdla) -> None:
    with (folder / "sparse.onnx").open("wb") as file:
        file.truncate(2**33)
    for path, problem in (
        ("/dev/zero", "a pipe or a device"),
        (folder / "pipe", "a pipe or a device"),
        (folder, "Is a directory"),
        (folder / "sparse.onnx", "larger than"),
    ):
        for device in ("vdla", "cpu"):
            message = vdla("run", path, "--target", "llvm" if device == "cpu" else "vdla").message()
            assert str(path) in message and problem in message
        assert problem in vdla("quantize", path, "--calibration", path, "-o", folder / "q.onnx").message()

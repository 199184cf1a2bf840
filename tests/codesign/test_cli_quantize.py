"""`vdla quantize`: from a float model to a file that the accelerator runs, with a report of the quantization errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from vdla.codesign.models import build, sample_inputs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("quantize")
    model = build("mlp", "float")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, path / "net.onnx")
    np.savez(path / "data.npz", input=sample_inputs("mlp", 6, seed=11))
    return path


@pytest.mark.parametrize("options", [(), ("--activations", "s8", "--method", "minmax", "--per-tensor")])
def test_what_is_written_runs_on_the_accelerator_as_reported(
    vdla, folder: Path, tmp_path: Path, options
) -> None:
    target = tmp_path / "q.onnx"
    where = ("--calibration", folder / "data.npz", "-o", target)
    document = vdla("quantize", folder / "net.onnx", *where, *options, "--json").document()
    assert document["bytes"] == target.stat().st_size < (folder / "net.onnx").stat().st_size / 3
    assert document["runs"] == 6 and document["float_operators"] == {}
    assert document["activations"] == ("int8" if options else "uint8")
    assert document["per_channel"] == (not options)
    assert [layer["operator"] for layer in document["layers"]] == ["Gemm", "Gemm"]
    assert all(layer["sqnr_db"] > 20 and layer["scale"] > 0 for layer in document["layers"])
    (output,) = document["outputs"]
    run = ("--inputs", folder / "data.npz", "--outputs", tmp_path / "out.npz", "--json")
    check = vdla("run", target, *run).document()["check"]
    assert check["max_lsb"] <= 1 and check["top1_equal"] and check["images"] == 6
    # The file holds one image a launch, as the command line's --batch says.
    session = onnxruntime.InferenceSession(str(folder / "net.onnx"), providers=["CPUExecutionProvider"])
    with np.load(folder / "data.npz") as data, np.load(tmp_path / "out.npz") as results:
        expected = np.asarray(session.run(["output"], {"input": data["input"]})[0])
        error = np.abs(results["output"] - expected).max() / np.abs(expected).max()
        agreement = np.mean(results["output"].argmax(axis=1) == expected.argmax(axis=1))
    assert error == pytest.approx(output["max_relative_error"], rel=0.2) and error < 0.1
    assert agreement == output["top1_agreement"]


def test_a_whole_network(vdla, folder: Path, tmp_path: Path) -> None:
    model = onnx.load(folder / "net.onnx")
    gate = next(node for node in model.graph.node if node.op_type == "Relu")
    gate.op_type = "Sigmoid"
    onnx.save(model, tmp_path / "gated.onnx")
    where = ("--calibration", folder / "data.npz", "-o", tmp_path / "q.onnx", "--json")
    assert vdla("quantize", tmp_path / "gated.onnx", *where).document()["float_operators"] == {"Sigmoid": 1}
    document = vdla("quantize", tmp_path / "gated.onnx", *where, "--whole").document()
    assert document["float_operators"] == {}
    assert [layer["operator"] for layer in document["layers"]] == ["Gemm", "Sigmoid", "Gemm"]
    run = ("--inputs", folder / "data.npz", "--json")
    assert vdla("run", tmp_path / "q.onnx", *run).document()["check"]["max_lsb"] <= 1


def test_tables_for_people(vdla, folder: Path, tmp_path: Path) -> None:
    where = ("--calibration", folder / "data.npz", "-o", tmp_path / "q.onnx")
    result = vdla("quantize", folder / "net.onnx", *where, "--method", "percentile", "--percentile", "99.9")
    assert result.code == 0 and "SQNR" in result.out and "fc2" in result.out
    assert "output output: largest error" in result.out and "top-1 agrees" in result.out
    assert "from 6 calibration runs" in result.err


def test_a_layer_of_its_own(vdla, folder: Path, tmp_path: Path) -> None:
    where = ("--calibration", folder / "data.npz", "-o", tmp_path / "q.onnx", "--json", "--method", "minmax")
    document = vdla("quantize", folder / "net.onnx", *where, "--layer", "fc2=float").document()
    assert [layer["name"] for layer in document["layers"]] == ["fc1"]
    assert document["float_operators"] == {"Gemm": 1}


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (["fc9=float"], 'net.onnx: the model has no layer "fc9"; did you mean "fc2"?'),
        (["fc1"], '--layer "fc1": write NAME=CHOICE, as in conv1=float or conv1=s8,per-tensor'),
        (["fc1=s8", "fc1=per-tensor"], '--layer: "fc1" is given twice'),
        (["fc1=float", "fc2=float"], "there is no layer to quantize"),
    ],
)
def test_layers_that_are_refused(vdla, folder: Path, tmp_path: Path, layers: list[str], message: str) -> None:
    where = ("--calibration", folder / "data.npz", "-o", tmp_path / "q.onnx")
    options = [word for layer in layers for word in ("--layer", layer)]
    result = vdla("quantize", folder / "net.onnx", *where, *options)
    assert result.code == 2 and message in result.err and not (tmp_path / "q.onnx").exists()

"""Inputs that do not fit the model: the message names the input and what the model expects."""

from pathlib import Path

import numpy as np
import pytest

from vdla.codesign.models import build

IMAGE = np.zeros((1, 784), np.float32)


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.onnx"
    path.write_bytes(build("mlp").SerializeToString())
    return path


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({"image": IMAGE}, ["no input 'image'", "input float32 [1, 784]"]),
        ({}, ["input 'input' is missing", "input float32 [1, 784]"]),
        ({"input": IMAGE[:, :100]}, ["'input' has shape [1, 100]", "expects [1, 784]"]),
        ({"input": IMAGE.reshape(1, 1, 28, 28)}, ["'input' has shape [1, 1, 28, 28]", "expects [1, 784]"]),
        ({"input": IMAGE[:0]}, ["'input' has shape [0, 784]", "expects [1, 784]"]),
        ({"input": IMAGE.astype(np.float64)}, ["'input' is float64", "convert it to float32"]),
        (
            {"input": np.full_like(IMAGE, np.nan)},
            ["in.npz: input 'input' contains NaN, first at [0, 0]", "clean"],
        ),
    ],
)
def test_unfit_inputs_are_refused(
    vdla, mlp: Path, tmp_path: Path, arrays: dict[str, np.ndarray], parts: list[str]
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    out = tmp_path / "out.npz"
    message = vdla("run", mlp, "--inputs", tmp_path / "in.npz", "--outputs", out, "--json").message()
    for part in parts:
        assert part in message
    assert list(tmp_path.iterdir()) == [tmp_path / "in.npz"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"text"])
def test_damaged_input_file(vdla, mlp: Path, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "in.npz"
    path.write_bytes(content)
    message = vdla("run", mlp, "--inputs", path).message()
    assert str(path) in message and "numpy.savez" in message


def test_bare_array_and_pickles_are_no_input_file(vdla, mlp: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", IMAGE)
    assert (
        "a single array without an input name" in vdla("run", mlp, "--inputs", tmp_path / "in.npy").message()
    )
    np.savez(tmp_path / "in.npz", input=np.array([{}], dtype=object))
    assert "plain arrays" in vdla("run", mlp, "--inputs", tmp_path / "in.npz").message()


def test_missing_input_file(vdla, mlp: Path, tmp_path: Path) -> None:
    message = vdla("run", mlp, "--inputs", tmp_path / "in.npz").message()
    assert "in.npz: cannot read the inputs: No such file" in message


def test_timing_alone_has_no_outputs(vdla, mlp: Path, tmp_path: Path) -> None:
    message = vdla("run", mlp, "--timing-only", "--outputs", tmp_path / "out.npz").message()
    assert "--timing-only computes no outputs" in message


def test_outputs_into_a_missing_folder_are_refused_before_the_work(vdla, tmp_path: Path) -> None:
    message = vdla("run", tmp_path / "no.onnx", "--outputs", tmp_path / "no" / "out.npz").message()
    assert "there is no directory" in message

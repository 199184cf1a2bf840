"""`--length NAME=LEAST:MOST`: one file for inputs of any length, on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from vdla.codesign.dimensions import parse_length, parse_pads
from vdla.codesign.models.transformers import BertSizes, bert, token_inputs
from vdla.util.errors import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "bert.onnx"
    onnx.save(bert(0, 1, None, BertSizes(layers=1, width=16, heads=2, inner=32, vocabulary=24)), path)
    return path


def test_one_file_runs_every_length(vdla, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.tar"
    options = ("--length", "sequence=1:9", "--tolerance", "0.3", "-o", path)
    written = vdla("compile", model, *options, "--json").document()
    assert written["rungs"][-1] == 9 and written["bytes"] == path.stat().st_size
    assert written["compiled_lengths"] >= len(written["rungs"])
    for length in (2, 9):
        arrays = token_inputs(onnx.load(model), tokens=length)
        np.savez(tmp_path / "in.npz", allow_pickle=False, **arrays)
        files = ("--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
        document = vdla("run", path, *files, "--threads", "2", "--json").document()
        assert document["length"] == length and document["rung"] >= length
        again = (*files[:2], "--outputs", tmp_path / "alone.npz", "--device", "cpu")
        assert vdla("run", model, *again, "--dim", f"sequence={length}").code == 0
        found, alone = np.load(tmp_path / "out.npz"), np.load(tmp_path / "alone.npz")
        for name in alone.files:
            assert found[name].shape == alone[name].shape
            np.testing.assert_allclose(found[name], alone[name], atol=1e-5)
    assert "sequence 9 as 9" in vdla("run", path).out


def test_wrong_lengths_are_named(vdla, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.tar"
    assert vdla("compile", model, "--length", "sequence=2:4", "--tolerance", "1", "-o", path).code == 0
    np.savez(tmp_path / "in.npz", allow_pickle=False, **token_inputs(onnx.load(model), tokens=5))
    message = vdla("run", path, "--inputs", tmp_path / "in.npz").message()
    assert (
        "in.npz: input" in message
        and "axis 1 (sequence) has 5 elements, but was compiled for 2 to 4" in message
    )
    assert "--profile: " in vdla("run", path, "--profile").message()
    assert "--dim: " in vdla("run", path, "--dim", "sequence=3").message()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--length", "sequence"), "write NAME=LEAST:MOST"),
        (("--length", "sequence=4:2"), "4 to 2 is not a range"),
        (("--length", "sequence=1:4", "--pad", "mask"), "write NAME=VALUE"),
        (("--length", "words=1:4"), "has no symbolic dimension 'words'"),
        (("--length", "sequence=1:4", "--target", "vdla,llvm"), "writes a file for one target"),
        (("--length", "sequence=1:4", "--target", "cuda"), "supports fixed lengths only"),
        (("--length", "sequence=1:4", "-o", "net.so"), "goes into a FILE.tar only"),
        (("--length", "sequence=1:4", "--config", "tiny"), "--config is for the accelerator"),
        (("--pad", "mask=0"), "--pad is for a range of lengths"),
    ],
)
def test_unfit_options_of_a_range_of_lengths_are_refused(
    vdla, model: Path, options: tuple[str, ...], message: str
) -> None:
    assert message in vdla("compile", model, *options).message()


def test_lengths_and_pads_are_parsed() -> None:
    lengths = parse_length("n=m=1:512")
    assert (lengths.symbol, lengths.least, lengths.most) == ("n=m", 1, 512)
    assert parse_pads(["mask=-1e9", "ids=3"]) == {"mask": -1e9, "ids": 3}
    for text in ("=1:2", "n=1", "n=1:2:3", "n=a:b", "n=0:3", "n=-1:3"):
        with pytest.raises(UserError, match="--length "):
            parse_length(text)
    with pytest.raises(UserError, match="given twice"):
        parse_pads(["a=1", "a=2"])


def test_shipped_models_for_any_length(vdla, tmp_path: Path) -> None:
    path = tmp_path / "mobilebert.onnx"  # smaller than the others, whose words take a gigabyte
    options = ("--form", "float", "--layers", "1", "-o", path)
    assert vdla("models", "mobilebert", "--symbolic", *options).code == 0
    shapes = [info.type.tensor_type.shape.dim for info in onnx.load(path).graph.input]
    assert [size.dim_param or size.dim_value for size in shapes[0]] == [1, "sequence"]
    assert "leave --symbolic out" in vdla("models", "gpt2_decode", "--symbolic", *options).message()
    assert "leave the size out" in vdla("models", "gpt2", "--symbolic", "--size", "8", *options).message()
    assert (
        "only transformers can" in vdla("models", "dcgan", "--symbolic", *options[:2], "-o", path).message()
    )

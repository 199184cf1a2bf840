"""How long `vdla compile` takes, cold and warm: seconds on the clock, and of processor time.

    python benchmarks/compile_times.py [--models resnet18 dcgan] [--targets "cuda -arch=sm_90" llvm] [--json] [--write]

Each figure is of a process of its own with a cache of its own, as a user has it, Python's start and imports included:
"cold" with an empty cache; "kernels" (for GPUs) with the machine code of kernels kept, as when weights have changed;
"warm" with the compiled network kept. Needs no GPU, but for GPUs the extra `cuda`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx
from vdla.codesign import models
from vdla.codesign.bench.results import write_results
from vdla.codesign.network_cache import PART as NETWORKS

MODELS = ("resnet18", "mobilenet", "language_model", "dqn", "dcgan")
TARGETS = ("cuda -arch=sm_90", "llvm")
TIMEOUT = 600.0
"""Seconds after which a compilation counts as failed."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help="keep it in benchmarks/results")
    arguments = parser.parse_args()
    rows: list[dict[str, str | float]] = []
    if not arguments.json:
        print(f"{'model':16}{'target':20}{'state':10}{'seconds':>9}{'CPU s':>8}")
    for model in arguments.models:
        for target in arguments.targets:
            for state, (seconds, processor) in measure(model, target).items():
                rows.append(
                    {
                        "model": model,
                        "target": target,
                        "state": state,
                        "seconds": seconds,
                        "cpu_seconds": processor,
                    }
                )
                if not arguments.json:
                    print(f"{model:16}{target:20}{state:10}{seconds:9.2f}{processor:8.2f}", flush=True)
    if arguments.json:
        print(json.dumps(rows))
    if arguments.write:
        write_results("compile_times", {"rows": rows})


def measure(model: str, target: str) -> dict[str, tuple[float, float]]:
    """Seconds on the clock and of processor time by state of the cache."""
    with tempfile.TemporaryDirectory() as folder:
        path, cache = Path(folder) / f"{model}.onnx", Path(folder) / "cache"
        onnx.save(models.build(model, "float"), path)
        states = {"cold": compiled(path, target, cache)}
        if target.startswith("cuda"):
            shutil.rmtree(cache / "vdla" / NETWORKS)
            states["kernels"] = compiled(path, target, cache)
        states["warm"] = compiled(path, target, cache)
    return states


def compiled(model: Path, target: str, cache: Path) -> tuple[float, float]:
    """What one compilation takes."""
    command = [sys.executable, "-c", "from vdla.codesign.cli.main import main; main()", "compile", str(model)]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [*command, "--target", target, "-o", str(model.with_suffix(".tar"))],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{model.stem} for {target}: {done.stderr.strip()}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()

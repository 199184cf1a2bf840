"""Networks on this processor, compiled by this checkout and by another checkout of the repository.

    python benchmarks/commits.py --python OTHER/.venv/bin/python [--only NAME ...] [--rounds 25] [--json] [--write]

`--python` is the Python of the other checkout's environment, for example of a git worktree of an earlier commit, made
there with `make .venv/.installed-dev`. The networks are those of cpu_networks (float32 and int8), single_layers and
transformers. Each checkout compiles the network in a process of its own, without a cache; then both processes run it in
turns, one thread each, in thread CPU time. A pair of processes is started `--starts` times, because the addresses of
arrays differ between starts. `speed` is the other checkout's time over ours, the median over all rounds: above 1 this
checkout is faster. `compile` is the same ratio of compilation times (medians over the starts): user CPU seconds of all
threads, from the start of the process until the network is compiled, imports included. System time is left out, because
it is mostly the time of page faults of weights, which does not depend on the checkout and varies from process to
process. Outputs of both are compared. Exit code 1: outputs differ by more than 1e-5 of the largest value.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from vdla.benchmarks.harness.case import relative_error
from vdla.benchmarks.harness.command_line import OUTPUT, ROUNDS, Given, Option, names_of, run_script
from vdla.benchmarks.harness.networks import NETWORKS
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.single_layers import layer_model, layers
from vdla.benchmarks.transformers import CASES as TRANSFORMERS
from vdla.codesign.models import build, sample_inputs
from vdla.codesign.models.transformers import build_transformer, token_inputs
from vdla.codesign.timing import ratio

TOLERANCE = 1e-5
"""Largest allowed difference between the outputs of both checkouts, relative to the largest value of an output."""
ROUND_SECONDS = 0.02
"""Least seconds that a process runs its network in one turn; short networks are repeated."""
WORKER = """
import json, resource, sys, time
import numpy as np
import vdla

def compile(path):
    try:
        return vdla.compile(path, "llvm", cache=False)
    except TypeError:  # The checkout is older than the argument, and than the cache.
        return vdla.compile(path, "llvm")

model, feeds, results, least = sys.argv[1], dict(np.load(sys.argv[2])), sys.argv[3], float(sys.argv[4])
network = compile(model)
compiled = resource.getrusage(resource.RUSAGE_SELF).ru_utime
outputs = network.run(feeds)
np.savez(results, **{str(k): v for k, v in enumerate(outputs.values())})
begin = time.thread_time()
network.run(feeds)
count = max(1, int(least / max(time.thread_time() - begin, 1e-6)))
print(json.dumps(compiled), flush=True)
for _ in sys.stdin:
    begin = time.thread_time()
    for _ in range(count):
        network.run(feeds)
    print(json.dumps((time.thread_time() - begin) / count), flush=True)
"""
"""Program of a process. It compiles the network, writes the network's outputs, and prints the user CPU seconds from its
start until the network was compiled. Then, for each line that it reads, it runs the network for about ROUND_SECONDS,
and prints the mean seconds of a run.
"""

Network = tuple[onnx.ModelProto, Mapping[str, np.ndarray]]


def _shipped(name: str) -> Network:
    model, form = NETWORKS[name]
    return build(model, form), {"input": sample_inputs(model, 1)}


def _layer(name: str) -> Network:
    layer = layers()[name]
    shape = (1, layer.channels, layer.size, layer.size)
    return layer_model(layer), {"X": np.random.default_rng(1).standard_normal(shape, np.float32)}


def _transformer(name: str) -> Network:
    model, tokens, depth = TRANSFORMERS[name]
    exported = build_transformer(model, tokens=tokens, layers=depth)
    return exported, token_inputs(exported)


CASES: Mapping[str, Callable[[], Network]] = {
    **{name: partial(_shipped, name) for name in NETWORKS},
    **{name: partial(_layer, name) for name in layers()},
    **{name: partial(_transformer, name) for name in TRANSFORMERS},
}
"""For each measured network, a function that makes the network and its inputs, by the name of its row of results."""


class Worker:
    """A process that compiles a network with one checkout and runs it when asked. `results`: file with its outputs."""

    def __init__(self, python: str, folder: Path, name: str) -> None:
        self.results = folder / f"{name}.npz"
        files = (folder / "model.onnx", folder / "feeds.npz", self.results)
        words = (*map(str, files), str(ROUND_SECONDS))
        cache = tempfile.mkdtemp(prefix="cache", dir=folder)
        # With bytecode, whatever this process's environment says: the first start of a checkout writes it.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        self._process = subprocess.Popen(
            (python, "-c", WORKER, *words),
            cwd=folder,
            env={**environment, "XDG_CACHE_HOME": cache},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> float:
        """Waits for the next line of the process and returns it as a number: first the CPU seconds until the network
        was compiled, later the mean seconds of a run. Ends the benchmark if the process has ended.
        """
        assert self._process.stdout is not None
        text = self._process.stdout.readline()
        if not text:
            sys.exit(f"the process of {self.results.stem} ended with code {self._process.wait()}")
        return json.loads(text)

    def run(self) -> float:
        """Makes the process run its network for about ROUND_SECONDS, at least once; returns a run's mean seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.read()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def measure(name: str, python: str, rounds: int, starts: int) -> dict[str, Any]:
    """Measures the network `name` of CASES with both checkouts; returns its row: milliseconds of this checkout, `speed`
    and `compile` (other checkout over this one) and the largest relative difference of the outputs. `python` is the
    other checkout's Python; each of `starts` pairs of processes runs `rounds` rounds.
    """
    model, feeds = CASES[name]()
    compiled: list[list[float]] = [[], []]
    times: list[list[float]] = [[], []]
    error = 0.0
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        onnx.save(model, folder / "model.onnx")
        np.savez(folder / "feeds.npz", allow_pickle=False, **feeds)
        for _ in range(starts):
            workers = []
            for kind, which in (("other", python), ("this", sys.executable)):
                workers.append(Worker(which, folder, kind))
                compiled[len(workers) - 1].append(workers[-1].read())
            for _ in range(rounds):
                for worker, seconds in zip(workers, times, strict=True):
                    seconds.append(worker.run())
            first, second = (np.load(worker.results) for worker in workers)
            error = max([error, *(relative_error(second[key], first[key]) for key in first)])
            for worker in workers:
                worker.close()
    other, this = times
    return {
        "name": name,
        "ms": round(statistics.median(this) * 1e3, 4),
        "speed": round(ratio(other, this), 3),
        "compile_s": round(statistics.median(compiled[1]), 2),
        "compile": round(statistics.median(compiled[0]) / statistics.median(compiled[1]), 3),
        "error": error,
    }


def line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['name']:16} {row['ms']:>9} ms  speed {row['speed']:>6}  compiled in {row['compile_s']:>6} s of CPU, "
        f"{row['compile']:>6} times as fast  difference {row['error']:.1e}"
    )


OPTIONS = (
    Option("--python", "Python of the other checkout's environment", required=True),
    names_of(CASES, "network").but(name="--only", default=()),
    ROUNDS.but(default=25),
    Option("--starts", "number of pairs of processes", int, 3, least=1),
    *OUTPUT,
)


def main(options: Given) -> int:
    names = options.only or list(CASES)
    rows = measure_all(
        names,
        lambda name: measure(name, options.python, options.rounds, options.starts),
        line,
        quiet=options.json,
    )
    speeds, compiles = ([row[key] for row in rows] for key in ("speed", "compile"))
    figures = {
        "speed": round(statistics.geometric_mean(speeds), 3),
        "worst_speed": min(speeds),
        "compile": round(statistics.geometric_mean(compiles), 3),
        "worst_compile": min(compiles),
    }
    lines = [
        f"speed: geometric mean {figures['speed']}, worst {figures['worst_speed']}; "
        f"compilation: geometric mean {figures['compile']}, worst {figures['worst_compile']}"
    ]
    finish(options, "commits", {**figures, "rows": rows}, lines=lines)
    return any(row["error"] > TOLERANCE for row in rows)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

"""Trials a second with two dask workers against one, and with two processes of this computer against one.

    python benchmarks/tuning_workers.py [--batch 16 64] [--rounds 5] [--json]

Batches of random candidates of the 3x3 convolutions C2 and C9 on `vta`, one batch after the other, as a search measures
them; only measuring is timed (wall time). Schedulers and workers are separate processes; in each round every setup
measures all candidates, one setup after the other, and figures are medians of the rounds' ratios. The first round
starts processes and is not counted. Two idle cores are needed: the row of local processes shows the speedup that the
computer allows.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vdla.benchmarks.harness.clusters import cluster
from vdla.benchmarks.harness.command_line import JSON, ROUNDS, Given, Option, run_script
from vdla.compiler.templates.vdla.workload import Workload
from vdla.compiler.tune.measure.backends import Backend
from vdla.compiler.tune.measure.dask_workers import DaskWorkers
from vdla.compiler.tune.measure.descriptions import describe
from vdla.compiler.tune.measure.local_workers import LocalWorkers
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask
from vdla.isa.config import load_config

SHAPES = {"C2": (56, 64), "C9": (14, 256)}
"""The measured 3x3 convolutions as (height and width, number of channels and of filters), by name."""
Batch = tuple[Mapping[str, Any], Sequence[Mapping[str, int]]]


def tasks() -> dict[str, AcceleratorTask]:
    config = load_config("vta")
    return {
        name: AcceleratorTask.of(
            config,
            Workload(
                template="conv2d",
                batch=1,
                channels=channels,
                height=side,
                width=side,
                filters=channels,
                kernel=(3, 3),
                pads=(1, 1, 1, 1),
            ),
        )
        for name, (side, channels) in SHAPES.items()
    }


def seconds(backend: Backend, batches: Sequence[Batch]) -> tuple[float, float]:
    """Wall-clock seconds of measuring `batches` on `backend` one after the other, and CPU seconds of their trials."""
    begin, spent = time.perf_counter(), 0.0
    for description, points in batches:
        spent += sum(result.seconds for result in backend.measure(description, points))
    return time.perf_counter() - begin, spent


def batches_of(
    tasks: Mapping[str, AcceleratorTask], size: int, generator: np.random.Generator
) -> list[Batch]:
    """A batch of `size` random candidate schedules, drawn with `generator`, for each tuning task of `tasks`."""
    return [
        (
            describe(task.config, task.workload),
            [task.space.values(point) for point in task.space.sample(generator, size)],
        )
        for task in tasks.values()
    ]


def compare(backends: Mapping[str, Backend], rounds: Sequence[Sequence[Batch]]) -> dict[str, Any]:
    """Lets every backend measure all batches of every round. Returns for each backend the trials a second, the CPU
    milliseconds per trial and the cores that trials keep busy; and for each kind of backend, the time with one worker
    divided by the time with two. The first round is not counted. The keys of `backends` are texts with the kind ("dask"
    or "local") and the number of workers, such as "dask, 2".
    """
    walls: dict[str, list[float]] = {name: [] for name in backends}
    spent: dict[str, list[float]] = {name: [] for name in backends}
    for number, batches in enumerate(rounds):
        # The backend that was first in one round is last in the next.
        for name in list(backends)[:: 1 if number % 2 else -1]:
            wall, cpu = seconds(backends[name], batches)
            if number:
                walls[name].append(wall)
                spent[name].append(cpu)
    count = sum(len(points) for _, points in rounds[0])
    rows = {
        name: {
            "trials_per_second": count / statistics.median(walls[name]),
            "cpu_milliseconds_per_trial": 1e3 * statistics.median(spent[name]) / count,
            "cores_busy_with_trials": statistics.median(
                cpu / wall for cpu, wall in zip(spent[name], walls[name], strict=True)
            ),
        }
        for name in backends
    }
    ratios = {
        kind: statistics.median(
            one / two for one, two in zip(walls[f"{kind}, 1"], walls[f"{kind}, 2"], strict=True)
        )
        for kind in ("dask", "local")
    }
    return {"trials": count, "rows": rows, "two_over_one": ratios}


OPTIONS = (
    Option("--batch", "numbers of trials in a batch", int, [16, 64], nargs="+", metavar="N"),
    ROUNDS.but(default=5),
    JSON,
)


def main(options: Given) -> None:
    generator = np.random.default_rng(0)
    found, result = tasks(), {}
    with contextlib.ExitStack() as stack:
        backends: dict[str, Backend] = {}
        for workers in (1, 2):
            address = stack.enter_context(cluster(workers))
            backends[f"dask, {workers}"] = stack.enter_context(DaskWorkers(address))
            backends[f"local, {workers}"] = stack.enter_context(LocalWorkers(workers))
        for size in options.batch:
            rounds = [batches_of(found, size, generator) for _ in range(options.rounds + 1)]
            result[str(size)] = compare(backends, rounds)
    if options.json:
        print(json.dumps({"rounds": options.rounds, "batches_of": result}))
        return
    for size, part in result.items():
        print(f"batches of {size}, {part['trials']} trials a round, medians of {options.rounds} rounds")
        for name, row in part["rows"].items():
            print(
                f"  {name:9} {row['trials_per_second']:7.1f} trials/s  "
                f"{row['cpu_milliseconds_per_trial']:6.1f} CPU-ms each  "
                f"{row['cores_busy_with_trials']:5.2f} cores busy with trials"
            )
        for kind, ratio in part["two_over_one"].items():
            print(f"  {kind:9} two against one: {ratio:.2f}")


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

"""Hardware and schedules searched together, against searching either alone: ResNet-18's latency in the area of `vta`.

    python benchmarks/explore_joint.py [--seeds 5] [--designs 40] [--workers 2] [--folder DIR] [--json] [--write]

All machines (accelerator configurations) have the same DRAM (8 bytes a cycle, 100 cycles of latency) and at most the
area of `vta` by the area model; milliseconds are cycles at the predicted clock.

- "default machine, tuned": `vta`, with TUNED trials of schedules for each layer.
- "best machine, default schedules": the best of `--designs` machines in a search for latency, with default schedules.
- "the same, then tuned": the same machine, with TUNED trials for each layer.
- "joint": the best of equally many machines in a search with TRIALS trials for each layer on each machine, which begins
  with the same machines; then TUNED trials for each layer, as above.

Both searches use `--strategy model` and run once for each seed. "gain by trials" is the speedup by N trials for each
layer over default schedules, on machines of smaller and smaller scratchpads. An interrupted study continues from its
records in `--folder` (build/explore_joint). With `--write` the figures go to benchmarks/results/explore_joint.json.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import vdla
from vdla.benchmarks.harness.command_line import DESIGNS, FOLDER, OUTPUT, SEEDS, WORKERS, Given, run_script
from vdla.benchmarks.harness.output import finish
from vdla.benchmarks.harness.results import ROOT
from vdla.codesign import models
from vdla.codesign.explore.evaluate import Figures, evaluate
from vdla.codesign.explore.networks import Network, load_network
from vdla.codesign.explore.schedules.choose import Effort
from vdla.codesign.explore.study import Design
from vdla.codesign.technology.components import default_components
from vdla.isa.config import Config
from vdla.isa.fifos import FIFOS

TRIALS, TUNED = 8, 64
LATENCY = 100
KIB = 1024
BASE = {"base": "vta"}
FIELDS: dict[str, Any] = {
    "read_latency": LATENCY,
    "block_in": [8, 16, 32, 64],
    "block_out": [8, 16, 32, 64],
    "inp_buffer_bytes": {"from": 4 * KIB, "to": 64 * KIB, "times": 2},
    "wgt_buffer_bytes": {"from": 16 * KIB, "to": 512 * KIB, "times": 2},
    "acc_buffer_bytes": {"from": 8 * KIB, "to": 256 * KIB, "times": 2},
    "acc_banks": [2, 4],
    "post_lanes": [2, 4, 8],
    "multiplier_stages": [1, 2],
    "extensions": [["post", "patch"]],
}
SCRATCHPADS = ((32, 256, 128), (16, 128, 64), (8, 32, 16), (4, 16, 8))
"""Sizes in KiB of the scratchpads for inputs, weights and accumulators, one triple for each machine on which the
speedup by tuning is measured.
"""
GAINS = (4, 16, 64)


def milliseconds(figures: Figures, network: Network) -> float:
    """Milliseconds of one run of `network` at the predicted clock, both from a machine's `figures`."""
    assert figures.clock_mhz is not None
    return figures.networks[network.name].cycles / figures.clock_mhz / 1e3


def described(machine: Config, figures: Figures, network: Network) -> dict[str, Any]:
    """The fields of `machine`, and from its `figures` the milliseconds and cycles of `network`, area and clock, as a
    JSON object.
    """
    run = figures.networks[network.name]
    return {
        "machine": {name: getattr(machine, name) for name in (*list(FIELDS)[1:-1],)},
        "ms": round(milliseconds(figures, network), 3),
        "cycles": run.cycles,
        "default_cycles": run.default_cycles,
        "tuned_layers": len(run.schedules),
        "area_mm2": round(figures.square_millimetres, 2),
        "clock_mhz": round(figures.clock_mhz or 0.0, 1),
    }


def as_in_a_space(machine: Config) -> Config:
    """The machine with FIFO sizes derived from its memory, as the explorer gives them to all machines of a space; `vta`
    itself states its sizes.
    """
    return replace(machine, **{f"{fifo}_fifo_bytes": None for fifo in FIFOS})


def best(explored: vdla.Explored) -> Design:
    """The design with the least latency among the designs of a search that meet the constraints. ValueError if none
    does.
    """
    feasible = [design for design in explored.exploration.designs if design.feasible]
    return min(feasible, key=lambda design: (design.objectives or (0.0,))[0])


def gains(network: Network) -> list[dict[str, Any]]:
    """Speedups of `network` from tuning on `vta` with other scratchpads: a row for each triple of SCRATCHPADS, with the
    speedup and the CPU seconds for each number of trials of GAINS.
    """
    found = []
    for inputs, weights, sums in SCRATCHPADS:
        machine = as_in_a_space(
            vdla.config(
                "vta",
                inp_buffer_bytes=inputs * KIB,
                wgt_buffer_bytes=weights * KIB,
                acc_buffer_bytes=sums * KIB,
                read_latency=LATENCY,
            )
        )
        row: dict[str, Any] = {"KiB": [inputs, weights, sums]}
        for trials in GAINS:
            began = time.thread_time()
            run = evaluate(machine, [network], default_components(), Effort(trials=trials)).networks[
                network.name
            ]
            row["default_cycles"] = run.default_cycles
            row[f"{trials} trials"] = {
                "gain": round((run.default_cycles or 0) / run.cycles, 4),
                "seconds": round(time.thread_time() - began, 2),
            }
        found.append(row)
    return found


def measure(folder: Path, seeds: int, designs: int, workers: int) -> dict[str, Any]:
    """Runs all searches and measurements of the benchmark, with records in `folder`; returns its figures by name. Both
    searches run with each of the seeds 0 to `seeds` - 1, for `designs` machines each, in `workers` processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "resnet18.onnx"
    models.write(model, "resnet18")
    network, components = load_network(model), default_components()
    default = as_in_a_space(vdla.config("vta", read_latency=LATENCY))
    tuned = evaluate(default, [network], components, Effort(trials=TUNED))
    limit = f"area<={tuned.square_millimetres:.4f}mm2"
    rows = []
    for seed in range(seeds):
        row: dict[str, Any] = {"seed": seed}
        for name, trials in (("default schedules", 0), ("joint", TRIALS)):
            began = time.monotonic()
            explored = vdla.explore(
                {**BASE, "fields": FIELDS},
                model,
                ("latency",),
                constraints=(limit,),
                budget=designs,
                seed=seed,
                trials=trials,
                tune_front=0,
                workers=workers,
                folder=folder / f"{name.replace(' ', '-')}-{seed}",
            )
            found = best(explored)
            assert found.machine is not None
            after = evaluate(found.machine, [network], components, Effort(trials=TUNED))
            row[name] = described(found.machine, found.figures, network)
            row[f"{name}, tuned"] = described(found.machine, after, network)
            row[f"seconds, {name}"] = round(time.monotonic() - began, 1)
        rows.append(row)
        print(json.dumps(summary(described(default, tuned, network), rows)), flush=True)
    return {
        "network": "resnet18",
        "designs": designs,
        "trials": TRIALS,
        "tuned_trials": TUNED,
        "read_latency": LATENCY,
        "area_limit_mm2": round(tuned.square_millimetres, 2),
        "default machine, tuned": described(default, tuned, network),
        "seeds": rows,
        **summary(described(default, tuned, network), rows),
        "gain by trials": gains(network),
    }


def summary(default: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns how many times faster the machine of the joint search (of hardware and schedules) is than each of three
    alternatives: the tuned default machine, the best machine of a search with default schedules, and this best machine
    after tuning. Speedups are given for each seed and as medians. `default`: results of the default machine; `rows`:
    one row of results for each seed.
    """
    joint = [row["joint, tuned"]["ms"] for row in rows]
    others = {
        "default machine, tuned": [default["ms"] for _ in rows],
        "best machine, default schedules": [row["default schedules"]["ms"] for row in rows],
        "the same, then tuned": [row["default schedules, tuned"]["ms"] for row in rows],
    }
    found: dict[str, Any] = {"joint, ms": [round(value, 3) for value in joint]}
    for name, values in others.items():
        ratios = [value / own for value, own in zip(values, joint, strict=True)]
        found[f"times faster than {name}"] = {
            "median": round(statistics.median(ratios), 3),
            "by seed": [round(ratio, 3) for ratio in ratios],
        }
    return found


OPTIONS = (
    SEEDS.but(least=1),
    DESIGNS.but(default=40, least=1),
    WORKERS.but(least=1),
    FOLDER.but(default=ROOT / "build" / "explore_joint"),
    *OUTPUT,
)


def main(options: Given) -> None:
    figures = measure(options.folder, options.seeds, options.designs, options.workers)
    lines = [json.dumps(figures)]
    finish(options, "explore_joint", figures, lines=lines, packages=("xgboost-cpu", "optuna"))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

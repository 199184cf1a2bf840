"""Tuning convolutions on this processor with one thread: the number of trials that a search needs, and the seconds of a
trial.

    python benchmarks/tuning_cpu.py [--layers C2 C6 C9] [--seeds 3] [--trials 128] [--random 64]
                                    [--strategies evolution genetic random ...] [--features account]
                                    [--count] [--write] [--json]

The searches are those of `vdla.benchmarks.harness.searches`, without defaults, shipped records or other workloads.
Candidates are measured in a worker process. The template's default is measured in the same process, before each search
and after every batch. Ratios are relative to the median time of the default, so that other load slows both. `peer` is
ONNX Runtime's marginal time (`vdla bench`). It is measured in this process, interleaved with the default. The speed of
a candidate relative to the peer is the product of two ratios: candidate to default, and default to peer. `random` are
quantiles of legal random points. The CPU seconds of a trial have three parts: `compile`; `measure`, with inputs and
check; and `overhead`, all other work in both processes, with the choice of candidates. With --features program, a short
list of candidates is lowered and ranked once more before each batch, as in `vdla tune`. With --write, the curves go to
benchmarks/results/tuning_cpu.json, which the notebook plots. Seconds in curves are the ratios times the median time of
the layer's default over all searches of the layer. With --count, the number of distinct programs of each space is
printed instead: exactly where feasible, else a lower bound.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np

from vdla.benchmarks.harness.case import measure as measure_case
from vdla.benchmarks.harness.command_line import LAYERS, OUTPUT, SEEDS, TRIALS, Given, Option, run_script
from vdla.benchmarks.harness.convolutions import convolution_case
from vdla.benchmarks.harness.cpu_trials import CpuMeasurer, CpuTrial
from vdla.benchmarks.harness.results import write_results
from vdla.benchmarks.harness.searches import BATCH, FULL, SEARCHES
from vdla.benchmarks.harness.space_size import MOST_COUNTED, count_programs, least_programs
from vdla.codesign.named_layers import CONVOLUTIONS
from vdla.codesign.workload_names import cpu_workload
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.cpu.workload import CpuWorkload
from vdla.compiler.tune.program_features.reading import read_points
from vdla.compiler.tune.search.history import History
from vdla.compiler.tune.search.model_search import ModelSearch
from vdla.compiler.tune.search.short_list import ShortList

ENOUGH = 0.85
"""Goal of a search: this speed relative to ONNX Runtime's. The benchmark counts the trials until a search reaches the
goal.
"""
SAMPLES = 1 << 19
"""Number of random schedules (points) from which the lower bound on a space's number of distinct programs is
computed.
"""
SAMPLING_SEED = 1000
"""Seed of the random legal schedules whose quantiles of speed are measured; no search uses it."""
PARTS = ("compile", "measure", "overhead")


def workload_of(name: str) -> CpuWorkload:
    """The tuning workload of the convolution `name`, as in a network on this computer."""
    return cpu_workload(f"conv2d:{name}", host_target())


def search(
    name: str, strategy: str, seed: int, trials: int, default_over_peer: float, features: str
) -> dict[str, Any]:
    """Runs the search `strategy` of SEARCHES on the convolution `name` for `trials` trials. Returns its row: the trials
    until ENOUGH of ONNX Runtime's speed (None: never), the best speed relative to the template's default, and the CPU
    seconds of a trial.

    `default_over_peer`: the speed of the template's default relative to ONNX Runtime's. `features`: with "program", a
    search with a learned model lowers a short list of candidates and ranks it again before each batch; with "account",
    it does not.
    """
    target, workload = host_target(), workload_of(name)
    own = CPU.space(target, workload)
    found = SEARCHES[strategy].make(())
    if features == "program" and isinstance(found, ModelSearch):
        found = replace(found, short_list=ShortList(read=read_points(CPU, target, workload)))
    history = History.empty(own)
    measured: list[CpuTrial] = []
    deciding = 0.0
    with CpuMeasurer(target) as measurer:
        defaults = [measurer.measure(workload, None).seconds]
        while len(history) < trials:
            began = time.process_time()
            generator = np.random.default_rng([seed, len(history)])
            points = found.propose(own, history, generator, min(BATCH, trials - len(history)))
            deciding += time.process_time() - began
            if len(points) == 0:
                break
            batch = [measurer.measure(workload, own.values(point)) for point in points]
            measured += batch
            history = history.with_trials(points, np.array([trial.seconds for trial in batch]))
            defaults.append(measurer.measure(workload, None).seconds)
    ratios = statistics.median(defaults) / history.costs
    best = np.maximum.accumulate(ratios)
    reached = np.flatnonzero(best * default_over_peer >= ENOUGH)
    spent = {
        "compile": statistics.fmean(trial.compile_seconds for trial in measured),
        "measure": statistics.fmean(trial.measure_seconds for trial in measured),
        "overhead": statistics.fmean(trial.overhead_seconds for trial in measured) + deciding / len(measured),
    }
    steps = np.flatnonzero(np.diff(best, prepend=0) > 0)
    return {
        "layer": name,
        "strategy": strategy,
        "seed": seed,
        "trials": len(history),
        "failed": int(np.isinf(history.costs).sum()),
        "to_enough": int(reached[0]) + 1 if len(reached) else None,
        "default_seconds": statistics.median(defaults),
        "best_over_default": round(float(best[-1]), 3),
        "best_over_peer": round(float(best[-1] * default_over_peer), 3),
        "curve": [[int(k) + 1, round(float(best[k]), 4)] for k in steps],
        "quantiles": [round(float(q), 3) for q in np.quantile(ratios, (0.1, 0.25, 0.5, 0.75, 0.9, 1.0))],
        "seconds": {part: round(spent[part], 4) for part in PARTS},
    }


def defaults_over_peer(name: str) -> tuple[float, float]:
    """The speed of the template's default relative to ONNX Runtime's on the convolution `name`, with one thread; and
    this layer's number of operations.
    """
    case = convolution_case(name, 1)
    try:
        return measure_case(case, 9).ratio, case.operations
    finally:
        case.close()


def document(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The searches' rows as a JSON object that `vdla.codesign.report.study` reads, with costs in seconds."""
    peers: dict[str, float] = {}
    runs: list[dict[str, Any]] = []
    for name in dict.fromkeys(row["layer"] for row in rows):
        mine = [row for row in rows if row["layer"] == name]
        usual = statistics.median(row["default_seconds"] for row in mine)
        peers[name] = usual * mine[0]["defaults_over_peer"]
        runs += [
            {key: row[key] for key in ("layer", "strategy", "seed", "trials")}
            | {"curve": [[trial, usual / ratio] for trial, ratio in row["curve"]]}
            for row in mine
        ]
    return {
        "summary": rows,
        "peer_seconds": peers,
        "flops": {row["layer"]: row["operations"] for row in rows},
        "runs": runs,
    }


def size_of(name: str) -> dict[str, Any]:
    """Number of points (schedules) and of distinct programs in the space of the convolution `name`. If the space has
    more than MOST_COUNTED points, `exact` is False and the number of programs is a lower bound from a sample.
    """
    own = CPU.space(host_target(), workload_of(name))
    exact = own.size <= MOST_COUNTED
    rng = np.random.default_rng(0)
    programs = count_programs(own) if exact else least_programs(own, rng, SAMPLES)
    return {"layer": name, "points": own.size, "programs": programs, "exact": exact}


def line(row: dict[str, Any]) -> str:
    """One line of text on the results of a search, `row` as `search` returns it."""
    enough = "never" if row["to_enough"] is None else f"{row['to_enough']:5d}"
    seconds = "  ".join(f"{part} {row['seconds'][part]:.3f}" for part in PARTS)
    return (
        f"{row['layer']:4} {row['strategy']:9} seed {row['seed']}  trials to {ENOUGH} of the peer {enough}  "
        f"best {row['best_over_default']:.2f} of defaults, {row['best_over_peer']:.2f} of the peer  "
        f"failed {row['failed']}/{row['trials']}  CPU-s a trial: {seconds}"
    )


OPTIONS = (
    LAYERS.but(choices=CONVOLUTIONS, metavar=None),
    SEEDS.but(default=3),
    TRIALS.but(default=128),
    Option("--random", "number of random legal points for the quantiles (0: no quantiles)", int, 64),
    Option(
        "--strategies",
        "strategies of the searches",
        nargs="*",
        choices=list(SEARCHES),
        default=[FULL, "genetic", "random"],
    ),
    Option("--features", "features of the learned model", choices=["account", "program"], default="account"),
    Option("--count", "print only the number of distinct programs of each space", flag=True),
    *OUTPUT,
)


def main(options: Given) -> None:
    if options.count:
        sizes = [size_of(name) for name in options.layers or CONVOLUTIONS]
        for row in sizes:
            how = "exactly" if row["exact"] else "at least"
            if not options.json:
                print(
                    f"{row['layer']:4} {row['points']:.2e} points, {how} {row['programs']:,} legal programs"
                )
        if options.json:
            print(json.dumps(sizes))
        return
    rows: list[dict[str, Any]] = []
    for name in options.layers or ["C2", "C6", "C9"]:
        relation, operations = defaults_over_peer(name)
        common = {"defaults_over_peer": relation, "operations": operations}
        if not options.json:
            print(f"{name:4} defaults at {relation:.2f} of the peer's speed")
        if options.random:
            row = search(name, "random", SAMPLING_SEED, options.random, relation, "account")
            if not options.json:
                texts = ("10%", "25%", "50%", "75%", "90%", "best")
                shown = "  ".join(f"{t} {q:.2f}" for t, q in zip(texts, row["quantiles"], strict=True))
                print(f"{name:4} {options.random} random legal points, speed over the defaults': {shown}")
        for strategy in options.strategies:
            for seed in range(options.seeds):
                row = search(name, strategy, seed, options.trials, relation, options.features)
                rows.append(row | common)
                if not options.json:
                    print(line(row), flush=True)
    if options.write:
        write_results("tuning_cpu", document(rows), packages=("xgboost-cpu",), compact=True)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

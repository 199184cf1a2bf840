"""The paper's Figure 12 on the accelerator: best-so-far against trials for the tuner's search, its parts and baselines.

    python benchmarks/tuning.py [--layers C1 ... C12] [--searches NAME ...] [--seeds 5] [--jobs 2] [--again] [--write]
                                [--json]

The searches are those of `benchmarks/harness/searches.py`: the tuner's own ("full"), the same without its first points
(candidates that the template's cost estimate ranks best), random and genetic search with and without these first
points, and the template's estimate alone. All searches use the workload's space with its limits, but no defaults,
shipped records or other workloads. The exception are the transfer rows: their cost model has learned from the runs of
other layers with the same template (C1 has another template), but not from this layer. The best known cost is the best
of all runs. Costs are simulated cycles, so that a point is simulated only once for all searches of a layer.

Runs that are already in benchmarks/results/tuning_vdla.json are repeated only with --again. With --write every layer is
written to this file as it ends. A notebook plots the file.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from vdla.benchmarks.harness.command_line import AGAIN, JOBS, LAYERS, OUTPUT, SEEDS, Given, Option, run_script
from vdla.benchmarks.harness.results import RESULTS, read_results, write_results
from vdla.benchmarks.harness.searches import BATCH, FULL, SEARCHES
from vdla.codesign.named_layers import CONVOLUTIONS
from vdla.codesign.workload_names import accelerator_workload
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure
from vdla.compiler.tune.search.cost_model import Samples
from vdla.compiler.tune.search.history import History
from vdla.compiler.tune.search.point_features import point_features
from vdla.isa.config import load_config

NAME = "tuning_vdla"
CONFIG = "vta"
NEAR = 1.02
"""A cost counts as found if it is at most this multiple of the best known cost."""
TRIALS = {name: 1024 if name.startswith("random") else 256 for name in SEARCHES}
"""Number of trials of each run, by name of the search; random searches need more to find good schedules."""
TRANSFER_TRIALS = 128
TRANSFER_TRIALS = 128
"""Number of trials of each other layer from which the cost model learns before a transfer run, and number of trials of
the transfer run itself.
"""

Run = dict[str, Any]
Key = tuple[str, str, bool, int]
"""Key of a run: (layer, search, whether the cost model had learned from other layers, seed)."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """Simulated cycles of one layer's points (candidate schedules); each point is simulated only once."""

    task: AcceleratorTask
    costs: dict[tuple[int, ...], float] = field(default_factory=dict[tuple[int, ...], float])

    def cost(self, point: np.ndarray) -> tuple[float, float | None]:
        """The cycles of a point (candidate schedule), inf if it failed, and the CPU seconds of measuring it (None if
        the cycles were already known).
        """
        key = tuple(map(int, point))
        if key in self.costs:
            return self.costs[key], None
        result = measure(self.task, self.task.space.values(point))
        self.costs[key] = result.cost
        return result.cost, result.seconds


def task_of(config: str, layer: str) -> AcceleratorTask:
    """The tuning task (workload, space and tensor expression) of a layer of CONVOLUTIONS on a configuration."""
    machine = load_config(config)
    return AcceleratorTask.of(machine, accelerator_workload(f"conv2d:{layer}", machine))


def search(
    config: str,
    layer: str,
    name: str,
    seed: int,
    trials: int,
    prior: Sequence[Samples] = (),
    simulated: Simulated | None = None,
) -> tuple[Run, History]:
    """Runs the search `name` of SEARCHES on a layer for `trials` trials; returns the run, and the history of all points
    (candidate schedules) with their costs. The run has its improvements as (trial, cycles), and the CPU seconds of
    measuring and of choosing points; it ends early if the search proposes no more points.

    `prior`: samples of other layers from which the cost model learns first. `simulated`: the layer's points that
    earlier searches have simulated; the points of this search are added to it. None: no points are known.
    """
    simulated = Simulated(task_of(config, layer)) if simulated is None else simulated
    space = simulated.task.space
    history, found = History.empty(space), SEARCHES[name].make(prior)
    measuring, measured, deciding = 0.0, 0, 0.0
    while len(history) < trials:
        began = time.thread_time()
        generator = np.random.default_rng([seed, len(history)])
        points = found.propose(space, history, generator, min(BATCH, trials - len(history)))
        deciding += time.thread_time() - began
        if len(points) == 0:
            break
        results = [simulated.cost(point) for point in points]
        spent = [seconds for _, seconds in results if seconds is not None]
        measuring, measured = measuring + sum(spent), measured + len(spent)
        history = history.with_trials(points, np.array([cost for cost, _ in results]))
    best = np.minimum.accumulate(history.costs)
    steps = np.flatnonzero(np.diff(best, prepend=np.inf) < 0)
    run = {
        "layer": layer,
        "strategy": name,
        "transfer": bool(prior),
        "seed": seed,
        "trials": len(history),
        "curve": [[int(k) + 1, float(best[k])] for k in steps if math.isfinite(best[k])],
        "measured": measured,
        "measuring_seconds": measuring,
        "deciding_seconds": deciding,
        "failed": int(np.isinf(history.costs).sum()),
    }
    return run, history


def layer_runs(config: str, layer: str, wanted: Sequence[tuple[str, int]]) -> list[Run]:
    """Runs each pair (search, seed) of `wanted` on the convolution `layer`, with the search's number of TRIALS, and
    simulates a point only once for all of them; returns the runs.
    """
    simulated = Simulated(task_of(config, layer))
    return [search(config, layer, name, seed, TRIALS[name], simulated=simulated)[0] for name, seed in wanted]


def transfer_samples(config: str, layer: str) -> Samples:
    """The first TRANSFER_TRIALS trials of the tuner's own search ("full") on a layer, as samples from which another
    layer's cost model learns.
    """
    task = task_of(config, layer)
    _, history = search(config, layer, FULL, 0, TRANSFER_TRIALS)
    return Samples(features=point_features(task.space, history.points)[1], costs=history.costs)


def transfer_runs(config: str, layer: str, seeds: Sequence[int], prior: Sequence[Samples]) -> list[Run]:
    """Runs the tuner's own search ("full") on a layer once for each of `seeds`, for TRANSFER_TRIALS trials, with a cost
    model that has learned from the samples `prior` of other layers. Returns the runs.
    """
    simulated = Simulated(task_of(config, layer))
    return [
        search(config, layer, FULL, seed, TRANSFER_TRIALS, prior=prior, simulated=simulated)[0]
        for seed in seeds
    ]


def key_of(run: Run) -> Key:
    """The key of a run: (layer, search, whether the cost model had learned from other layers, seed)."""
    return run["layer"], run["strategy"], run["transfer"], run["seed"]


def held_runs(again: bool) -> dict[Key, Run]:
    """The runs of searches that the file of results has, by key (layer, search, transfer, seed); empty with `again`."""
    if again or not (RESULTS / f"{NAME}.json").exists():
        return {}
    return {key_of(run): run for run in read_results(NAME)["runs"]}


def keep(runs: Iterable[Run]) -> None:
    """Writes the runs of all searches, and their summary, to benchmarks/results/tuning_vdla.json."""
    order = list(SEARCHES)
    chosen = sorted(
        runs,
        key=lambda run: (
            list(CONVOLUTIONS).index(run["layer"]),
            run["transfer"],
            order.index(run["strategy"]),
            run["seed"],
        ),
    )
    document = {"config": CONFIG, "near": NEAR, "summary": summary(chosen), "runs": chosen}
    write_results(NAME, document, packages=("xgboost-cpu",), compact=True)


def run_all(options: Given) -> list[Run]:
    """Executes the runs that the file of results lacks: first those without transfer, then those whose cost model
    learns from other layers (transfer). Returns all runs, including earlier ones.
    """
    # Each process measures the CPU time of its own thread; further threads would only disturb the measurement.
    os.environ["OMP_NUM_THREADS"] = "1"
    runs = held_runs(options.again)
    seeds = range(options.seeds)

    def finished(finished_runs: Sequence[Run]) -> None:
        for run in finished_runs:
            runs[key_of(run)] = run
            best = run["curve"][-1] if run["curve"] else "nothing ran"
            print(f"{run['layer']} {run['strategy']} {run['seed']}: {best}", file=sys.stderr, flush=True)
        if options.write:
            keep(runs.values())

    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        jobs = []
        for layer in options.layers:
            keys = [(name, seed) for name in options.searches for seed in seeds]
            missing = [key for key in keys if (layer, key[0], False, key[1]) not in runs]
            if missing:
                jobs.append(pool.submit(layer_runs, CONFIG, layer, missing))
        for job in as_completed(jobs):
            finished(job.result())
        taught = {
            layer: [seed for seed in seeds if (layer, FULL, True, seed) not in runs]
            for layer in options.layers
            if not options.no_transfer and layer != "C1"
        }
        if any(taught.values()):
            samples = dict(
                zip(options.layers, pool.map(partial(transfer_samples, CONFIG), options.layers), strict=True)
            )
            jobs = [
                pool.submit(transfer_runs, CONFIG, layer, missing, priors(samples, layer))
                for layer, missing in taught.items()
                if missing and priors(samples, layer)
            ]
            for job in as_completed(jobs):
                finished(job.result())
    return list(runs.values())


def priors(samples: dict[str, Samples], layer: str) -> tuple[Samples, ...]:
    """Samples for transfer: those of `samples` from the other layers that have the same template as `layer`."""
    width = samples[layer].features.shape[1]
    return tuple(
        samples_of
        for other, samples_of in samples.items()
        if other != layer and samples_of.features.shape[1] == width
    )


def trials_until(run: Run, cost: float) -> int:
    """Number of trials until a run finds a cost of at most `cost`; the number of all its trials if it never does."""
    return next((trial for trial, found in run["curve"] if found <= cost), run["trials"])


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """Summarizes `runs`: mean number of trials until a run finds a cost within NEAR of the best known, by layer and
    search. For each search also the ratio of this number to that of the tuner's own search ("full"), as a geometric
    mean over layers. A run that never comes so close counts with all its trials, and in `unfinished`.
    """
    rows = [
        _layer_row([run for run in runs if run["layer"] == layer])
        for layer in dict.fromkeys(r["layer"] for r in runs)
    ]
    names = [name for name in SEARCHES if all(name in row["trials"] for row in rows)]
    measured = sum(run.get("measured", run["trials"]) for run in runs)
    guided = [run for run in runs if run["strategy"] == FULL]
    gains = [row["trials"][FULL] / row["transfer_trials"] for row in rows if "transfer_trials" in row]
    return {
        "layers": rows,
        "geometric_means": {name: _mean([row["trials"][name] for row in rows]) for name in names},
        "fewer_than": {
            name: _mean([row["trials"][name] / row["trials"][FULL] for row in rows])
            for name in names
            if name != FULL and FULL in names
        },
        "unfinished": {name: sum(row["unfinished"][name] for row in rows) for name in names},
        "runs_each": max(row["runs_each"] for row in rows),
        "trials": TRIALS,
        "as_good_as": {
            name: sum(row["best"][FULL] <= row["best"][name] for row in rows)
            for name in names
            if name != FULL and FULL in names
        },
        "transfer_gain": _mean(gains) if gains else None,
        "trial_ms": 1e3 * sum(run["measuring_seconds"] for run in runs) / max(1, measured),
        "deciding_ms": 1e3
        * sum(run["deciding_seconds"] for run in guided)
        / max(1, sum(run["trials"] for run in guided)),
    }


def _layer_row(mine: Sequence[Run]) -> dict[str, Any]:
    known = min(run["curve"][-1][1] for run in mine if run["curve"])
    groups = {
        name: [run for run in mine if run["strategy"] == name and not run["transfer"]] for name in SEARCHES
    }
    groups = {name: group for name, group in groups.items() if group}
    equal = min(min(run["trials"] for run in group) for group in groups.values())
    row: dict[str, Any] = {
        "layer": mine[0]["layer"],
        "best_known": known,
        "trials": {name: _needed(group, NEAR * known) for name, group in groups.items()},
        "unfinished": {
            name: sum(
                trials_until(run, NEAR * known) == run["trials"] and run["curve"][-1][1] > NEAR * known
                for run in group
            )
            for name, group in groups.items()
        },
        "best": {
            name: statistics.mean(_best_at(run, equal) for run in group) for name, group in groups.items()
        },
        "best_at_trials": equal,
        "runs_each": max(map(len, groups.values())),
    }
    if taught := [run for run in mine if run["transfer"]]:
        row["transfer_trials"] = _needed(taught, NEAR * known)
    return row


def _needed(group: Sequence[Run], cost: float) -> float:
    return statistics.mean(trials_until(run, cost) for run in group)


def _best_at(run: Run, trials: int) -> float:
    """The least cost that `run` found in its first `trials` trials; inf if all of these failed."""
    return min((cost for trial, cost in run["curve"] if trial <= trials), default=math.inf)


def _mean(values: Sequence[float]) -> float:
    return math.exp(statistics.mean(map(math.log, values)))


def table(figures: dict[str, Any]) -> str:
    """The summary `figures`, as `summary` returns it, as a table of text: a row for each layer, a column for each
    search.
    """
    names = list(figures["geometric_means"])
    lines = [
        f"trials to within {NEAR - 1:.0%} of the best known, mean of {figures['runs_each']} seeds; >: some never",
        "layer" + "".join(f"{name:>15}" for name in names),
    ]
    for row in figures["layers"]:
        cells = ((">" if row["unfinished"][name] else "") + f"{row['trials'][name]:.1f}" for name in names)
        lines.append(f"{row['layer']:5}" + "".join(f"{cell:>15}" for cell in cells))
    lines.append("mean " + "".join(f"{figures['geometric_means'][name]:15.1f}" for name in names))
    for name, ratio in figures["fewer_than"].items():
        lines.append(
            f"full needs {ratio:.2f} times fewer trials than {SEARCHES[name].label}; as good or better on "
            f"{figures['as_good_as'][name]} of {len(figures['layers'])} layers at equal trials"
        )
    gain = figures["transfer_gain"]
    lines.append(
        ("" if gain is None else f"transfer: {gain:.1f} times fewer again; ")
        + f"a trial {figures['trial_ms']:.1f} ms, deciding on one {figures['deciding_ms']:.1f} ms"
    )
    return "\n".join(lines)


OPTIONS = (
    LAYERS.but(choices=list(CONVOLUTIONS), default=list(CONVOLUTIONS), metavar=None),
    Option(
        "--searches", "run only these searches", nargs="+", choices=list(SEARCHES), default=list(SEARCHES)
    ),
    SEEDS,
    JOBS,
    Option("--no-transfer", "leave out the searches that transfer from other layers", flag=True),
    AGAIN.but(help="repeat the runs that the results file has"),
    *OUTPUT,
)


def main(options: Given) -> None:
    """Executes the searches whose runs are missing in the file of results, and prints the summary as a table (or as
    JSON).
    """
    runs = run_all(options)
    if options.write:
        keep(runs)
    figures = summary(runs)
    print(json.dumps(figures, indent=2) if options.json else table(figures))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

"""The paper's Figure 12 on the accelerator: best-so-far against trials for the model, genetic and random search.

    python benchmarks/tuning.py [--layers C1 ... C12] [--seeds 5] [--trials 256] [--random 1024] [--jobs 2]
                                [--config vta] [--transfers] [--write] [--json]

All searches share a workload's space and its limits, begin with seeded random points and know no defaults, shipped
records or other workloads; but for the transfer rows, whose model has learned from the other layers' runs (those of
the same template: C1's is another) and from none of this layer. The best known is the best of all runs. With --write
the curves go to benchmarks/results/tuning_vdla.json, which the notebook plots. With --transfers all others are taken
from there: only the transfer rows, and what they learn from, are run again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from vdla.codesign.bench.convolutions import CONVOLUTIONS
from vdla.codesign.workload_names import accelerator_workload
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure
from vdla.compiler.tune.search.cost_model import Samples
from vdla.compiler.tune.search.history import History
from vdla.compiler.tune.search.point_features import point_features
from vdla.compiler.tune.search.strategies import StrategyName, strategy_of
from vdla.isa.config import load_config
from vdla.isa.program import write_whole

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "tuning_vdla.json"
NEAR = 1.02
"""Costs up to this multiple of the best known count as found."""
BATCH = 8
MODEL: StrategyName = "evolution"
"""The search on a learned model that stands for all of them: what `vdla tune` does unless told otherwise."""
LESSONS = 128
"""Trials of each other layer that a transferred model learns from."""


def search(
    config: str, name: str, strategy: StrategyName, seed: int, trials: int, prior: Sequence[Samples] = ()
) -> dict[str, Any]:
    """One run: the improvements [(trial, cycles)], CPU seconds of measuring and of deciding, and the points."""
    task = AcceleratorTask.of(
        load_config(config), accelerator_workload(f"conv2d:{name}", load_config(config))
    )
    history, found = History.empty(task.space), strategy_of(strategy, prior)
    measuring, began = 0.0, time.thread_time()
    while len(history) < trials:
        generator = np.random.default_rng([seed, len(history)])
        points = found.propose(task.space, history, generator, min(BATCH, trials - len(history)))
        if len(points) == 0:
            break
        results = [measure(task, task.space.values(point)) for point in points]
        measuring += sum(result.seconds for result in results)
        history = history.with_trials(points, np.array([result.cost for result in results]))
    deciding = time.thread_time() - began - measuring
    best = np.minimum.accumulate(history.costs)
    steps = np.flatnonzero(np.diff(best, prepend=np.inf) < 0)
    return {
        "layer": name,
        "strategy": strategy,
        "transfer": bool(prior),
        "seed": seed,
        "trials": len(history),
        "curve": [[int(k) + 1, float(best[k])] for k in steps if math.isfinite(best[k])],
        "measuring_seconds": measuring,
        "deciding_seconds": deciding,
        "failed": int(np.isinf(history.costs).sum()),
        "lesson": [point_features(task.space, history.points[:LESSONS])[1], history.costs[:LESSONS]],
    }


def run_all(config: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every run of the study, first those that know nothing, then those with transfer."""
    # Each process measures CPU time of its own thread; more threads would only disturb.
    os.environ["OMP_NUM_THREADS"] = "1"
    budgets: dict[StrategyName, int] = {
        MODEL: options.trials,
        "genetic": options.trials,
        "random": options.random,
    }
    jobs = [
        (layer, strategy, seed, trials)
        for layer in options.layers
        for strategy, trials in budgets.items()
        for seed in range(options.seeds)
    ]
    kept: list[dict[str, Any]] = []
    if options.transfers:
        kept = [run for run in json.loads(RESULTS.read_text())["runs"] if not run["transfer"]]
        jobs = [(layer, MODEL, 0, options.trials) for layer in options.layers]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        runs = _gather(pool, [partial(search, config, *job) for job in jobs])
        lessons = {
            run["layer"]: Samples(features=run["lesson"][0], costs=run["lesson"][1])
            for run in runs
            if run["strategy"] == MODEL and run["seed"] == 0
        }
        priors = {
            layer: tuple(
                lesson
                for other, lesson in lessons.items()
                if other != layer and lesson.features.shape[1] == lessons[layer].features.shape[1]
            )
            for layer in options.layers
        }
        transfers = [
            partial(search, config, layer, MODEL, seed, options.trials // 2, prior=prior)
            for layer, prior in priors.items()
            for seed in range(options.seeds)
            if prior
        ]
        runs += _gather(pool, transfers)
    for run in runs:
        del run["lesson"]
    if options.transfers:
        known = {(run["layer"], run["strategy"], run["seed"]): run for run in kept}
        for run in runs[: len(jobs)]:
            before = known[run["layer"], run["strategy"], run["seed"]]
            if run["curve"] != [list(step) for step in before["curve"]]:
                raise SystemExit(
                    f"{run['layer']}: {RESULTS.name} is of another search; leave out --transfers"
                )
        return kept + runs[len(jobs) :]
    return runs


def _gather(pool: ProcessPoolExecutor, jobs: Sequence[partial[dict[str, Any]]]) -> list[dict[str, Any]]:
    futures = [pool.submit(job) for job in jobs]
    results = []
    for number, future in enumerate(futures, 1):
        results.append(future.result())
        run = results[-1]
        line = f"{number}/{len(futures)} {run['layer']} {run['strategy']} {run['seed']}: {run['curve'][-1]}"
        print(line, file=sys.stderr, flush=True)
    return results


def trials_until(run: dict[str, Any], cost: float) -> int:
    """The trials of a run until `cost` or less, or all of them where it never got there (then it needs more)."""
    return next((trial for trial, found in run["curve"] if found <= cost), run["trials"])


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A row for each layer, and the geometric means that the issue asks for."""
    rows = []
    for layer in dict.fromkeys(run["layer"] for run in runs):
        mine = [run for run in runs if run["layer"] == layer]
        known = min(run["curve"][-1][1] for run in mine)

        def of(strategy: str, transfer: bool = False, mine: Sequence[dict[str, Any]] = mine) -> list[Any]:
            return [run for run in mine if run["strategy"] == strategy and run["transfer"] == transfer]

        def needed(group: Sequence[dict[str, Any]], known: float = known) -> float:
            return statistics.mean(trials_until(run, NEAR * known) for run in group)

        def reached(group: Sequence[dict[str, Any]]) -> float:
            return statistics.mean(run["curve"][-1][1] for run in group)

        row = {
            "layer": layer,
            "best_known": known,
            "model_trials": needed(of(MODEL)),
            "genetic_trials": needed(of("genetic")),
            "random_trials": needed(of("random")),
            "random_unfinished": sum(run["curve"][-1][1] > NEAR * known for run in of("random")),
            "model_unfinished": sum(run["curve"][-1][1] > NEAR * known for run in of(MODEL)),
            "model_best": reached(of(MODEL)),
            "genetic_best": reached(of("genetic")),
        }
        row["fewer_than_random"] = row["random_trials"] / row["model_trials"]
        if taught := of(MODEL, True):
            row["transfer_trials"] = needed(taught)
            row["transfer_gain"] = row["model_trials"] / row["transfer_trials"]
        rows.append(row)
    trials = sum(run["trials"] for run in runs)
    guided = [run for run in runs if run["strategy"] == MODEL]
    return {
        "layers": rows,
        "fewer_than_random": _mean([row["fewer_than_random"] for row in rows]),
        "as_good_as_genetic": sum(row["model_best"] <= row["genetic_best"] for row in rows),
        "transfer_gain": _mean([row["transfer_gain"] for row in rows if "transfer_gain" in row]),
        "trial_ms": 1e3 * sum(run["measuring_seconds"] for run in runs) / trials,
        "deciding_ms": 1e3
        * sum(run["deciding_seconds"] for run in guided)
        / sum(run["trials"] for run in guided),
    }


def _mean(values: Sequence[float]) -> float | None:
    return math.exp(statistics.mean(map(math.log, values))) if values else None


def main() -> None:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", nargs="+", choices=list(CONVOLUTIONS), default=list(CONVOLUTIONS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=256, help="of the model and of the genetic search")
    parser.add_argument("--random", type=int, default=1024, help="trials of the random search")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--config", default="vta")
    parser.add_argument("--transfers", action="store_true", help="only the runs with transfer")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    runs = run_all(options.config, options)
    figures = summary(runs)
    if options.write:
        document = {"config": options.config, "near": NEAR, "summary": figures, "runs": runs}
        write_whole(RESULTS, (json.dumps(document, indent=None, separators=(",", ":")) + "\n").encode())
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    headings = ("best known", "model", "genetic", "random", "fewer", "transfer", "gain")
    print(f"trials to within {NEAR - 1:.0%} of the best known, means over {options.seeds} seeds")
    print("layer" + "".join(f"{heading:>12}" for heading in headings))
    for row in figures["layers"]:
        more = ">" if row["random_unfinished"] else ""
        print(
            f"{row['layer']:5}{row['best_known']:12,.0f}{row['model_trials']:12.1f}{row['genetic_trials']:12.1f}"
            f"{more + format(row['random_trials'], '.1f'):>12}{row['fewer_than_random']:12.1f}"
            f"{row.get('transfer_trials', math.nan):12.1f}{row.get('transfer_gain', math.nan):12.1f}"
        )
    print(
        f"geometric means: {figures['fewer_than_random']:.1f} times fewer trials than random, transfer "
        f"{figures['transfer_gain'] or math.nan:.1f} times fewer again; as good as genetic or better on "
        f"{figures['as_good_as_genetic']} of {len(figures['layers'])} at equal trials; "
        f"a trial {figures['trial_ms']:.1f} ms, deciding on one {figures['deciding_ms']:.1f} ms"
    )


if __name__ == "__main__":
    main()

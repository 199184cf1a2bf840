"""Compares searches for machines. For each search, it shows the number of evaluations until 99% of the hypervolume of a
whole space is found, and the share of the hypervolume found with 10% of the space's points.

    python benchmarks/explore_search.py --records DIR [--workers 2] [--seeds 5] [--json] [--write]

All 4,096 points of a space around `vta` are evaluated once on ResNet-18 and MobileNet (latency, energy, area). This
takes a quarter of an hour on two cores. The records are kept in DIR, so that later calls do not evaluate again, and the
searches look evaluations up there.

Objectives are normalized over the front of the whole space; the reference point is 1.1 in each. "evaluations" is the
number of designs that a search evaluates until its hypervolume is 99% of the whole space's, for each seed; invalid
designs do not count, since they are not evaluated. All searches with one seed begin with the same 20 machines, propose
no design twice, and get results in batches of 10; NSGA-II is Optuna's with its defaults. With `--write` the figures go
to benchmarks/results/explore_search.json.
"""

from __future__ import annotations

import statistics
import tempfile
from bisect import bisect_left
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.harness.command_line import OUTPUT, SEEDS, WORKERS, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.codesign import models
from vdla.codesign.explore.front import hypervolume, pareto
from vdla.codesign.explore.metrics import parse_objectives
from vdla.codesign.explore.networks import Network, load_network
from vdla.codesign.explore.places import Place
from vdla.codesign.explore.records import Known, read_records
from vdla.codesign.explore.space import space_of
from vdla.codesign.explore.study import Exploration, Study, explore
from vdla.codesign.technology.components import shipped_components

SPACE = {
    "base": "vta",
    "fields": {
        "block_in": [8, 16, 32, 64],
        "block_out": "block_in",
        "inp_buffer_bytes": {"from": 4096, "to": 32768, "times": 2},
        "wgt_buffer_bytes": {"from": 32768, "to": 262144, "times": 2},
        "acc_buffer_bytes": {"from": 16384, "to": 131072, "times": 2},
        "bus_bytes": {"from": 8, "to": 64, "times": 2},
        "post_lanes": {"from": 1, "to": 8, "times": 2},
    },
}
OBJECTIVES = ("latency", "energy", "area")
REFERENCE = [1.1] * len(OBJECTIVES)
FAILED = (np.inf,) * len(OBJECTIVES)
"""Objectives of a machine that cannot run a network: it counts as evaluated, but adds no hypervolume."""
SHARE, TENTH = 0.99, 0.1
BUDGETS = {"model": 0.2, "nsga2": 0.4, "random": 1.0}
"""Share of the points of the space that a search may evaluate, by the name of its strategy."""


class Compared:
    """The result of an exhaustive exploration, with which searches are compared. The methods tell what share of the
    hypervolume of all machines a set of designs reaches, and how many designs a search needs to reach most of it.
    """

    def __init__(self, whole: Exploration) -> None:
        values = np.array([design.objectives for design in whole.designs if design.objectives])
        front = values[pareto(values)]
        self.low, self.high = front.min(axis=0), front.max(axis=0)
        self.machines, self.front = len(values), len(front)
        self.volume = hypervolume(self._scaled(front), REFERENCE)

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        return (values - self.low) / (self.high - self.low)

    def share(self, values: np.ndarray) -> float:
        """The share of the space's hypervolume that designs with the objectives `values` [n, objectives] have."""
        return hypervolume(self._scaled(values), REFERENCE) / self.volume if len(values) else 0.0

    def evaluations(self, values: np.ndarray) -> int | None:
        """The least number of designs, in the order of `values`, that together have SHARE of the hypervolume; None if
        all designs together have less.
        """
        counts = range(1, len(values) + 1)
        if self.share(values) < SHARE:
            return None
        return counts[bisect_left(counts, SHARE, key=lambda count: self.share(values[:count]))]


def study(networks: tuple[Network, ...], strategy: str, seed: int, budget: int, workers: int = 1) -> Study:
    return Study(
        space=space_of(SPACE),
        networks=networks,
        components=shipped_components(),
        objectives=parse_objectives(OBJECTIVES),
        strategy=strategy,
        budget=budget,
        seed=seed,
        batch=64 if strategy == "exhaustive" else 10,
        place=Place(workers=workers),
    )


def compare(networks: tuple[Network, ...], known: Known, compared: Compared, seeds: int) -> dict[str, Any]:
    """Runs each search strategy with the seeds 0 to `seeds` - 1. Returns for each strategy ("searches"): the numbers of
    evaluations that the runs needed (`Compared.evaluations`), their mean, and the share of the hypervolume found after
    evaluating a share TENTH of the space; and how many times fewer evaluations "model" needs than each other strategy.
    `known`: results of all machines, so that no machine is evaluated again. `compared`: the exhaustive exploration.
    """
    size, found = space_of(SPACE).size, dict[str, Any]()
    for strategy, part in BUDGETS.items():
        counts, tenths = [], []
        for seed in range(seeds):
            explored = explore(study(networks, strategy, seed, int(part * size)), known=known)
            assert explored.evaluated == 0, "a search left the table"
            machines = [design for design in explored.designs if design.machine is not None]
            values = np.array([design.objectives or FAILED for design in machines])
            counts.append(compared.evaluations(values))
            tenths.append(round(compared.share(values[: int(TENTH * compared.machines)]), 5))
        reached = [count for count in counts if count is not None]
        found[strategy] = {
            "evaluations": counts,
            "mean": statistics.mean(reached) if len(reached) == seeds else None,
            "deviation": round(statistics.stdev(reached), 1) if len(reached) == seeds > 1 else None,
            "share_of_a_tenth": tenths,
            "mean_share_of_a_tenth": round(statistics.mean(tenths), 5),
        }
        print(f"{strategy:>7}: {found[strategy]}", flush=True)
    means = {strategy: row["mean"] for strategy, row in found.items()}
    fewer = {
        strategy: round(mean / means["model"], 2) if mean and means["model"] else None
        for strategy, mean in means.items()
        if strategy != "model"
    }
    return {"searches": found, "times_fewer_by_model": fewer}


OPTIONS = (
    Option(
        "--records",
        "folder of the study of the whole space; points without a record are evaluated",
        Path,
        metavar="DIR",
        required=True,
    ),
    WORKERS,
    SEEDS,
    *OUTPUT,
)


def main(options: Given) -> int:
    with tempfile.TemporaryDirectory() as folder:
        networks = []
        for name in ("resnet18", "mobilenet"):
            models.write(Path(folder) / f"{name}.onnx", name)
            networks.append(load_network(Path(folder) / f"{name}.onnx"))
    size = space_of(SPACE).size
    whole = explore(
        study(tuple(networks), "exhaustive", 0, size, options.workers),
        folder=options.records,
        told=lambda now: print(f"{len(now.designs):,} of {size:,}", end="\r", flush=True),
    )
    if whole.interrupted:
        return 130
    known = dict(read_records(options.records / "records.jsonl"))
    compared = Compared(whole)
    figures = {
        "points": size,
        "machines": compared.machines,
        "front": compared.front,
        "objectives": list(OBJECTIVES),
        "reference": REFERENCE,
        "seeds": options.seeds,
        **compare(tuple(networks), known, compared, options.seeds),
    }
    finish(options, "explore_search", figures, packages=("xgboost-cpu", "optuna"))
    return 0


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

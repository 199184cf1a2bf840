"""Speed of explorations on several dask workers, compared with the same explorations on one worker.

    python benchmarks/explore_workers.py known [--json] [--write]
    python benchmarks/explore_workers.py real [--designs 60] [--rounds 5] [--json] [--write]

Schedulers and workers are separate processes on this computer.

"known": each evaluation only sleeps for 0.2 to 0.6 s (depending on the configuration's digest), on 4 and on 8 workers.
So the number of cores does not limit the speed. The figure shows the cost of the scheduler, the effect of the sizes of
the chunks of designs that a worker gets at a time and, with a strategy that learns, the wait for the last result of
each batch.

"real": random designs around `vta` are evaluated on ResNet-18 and MobileNet. One worker, two workers, and one and two
processes without dask take turns; the figures are medians of the rounds' ratios of wall time. This needs two idle
cores: the row of processes shows the speedup that the computer allows. Before the first round, an untimed exploration
of one batch of other designs starts the processes of dask's workers. Processes without dask start in each exploration,
and their start is timed.

With `--write` the figures go to benchmarks/results/explore_workers_known.json or explore_workers_real.json.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from vdla.benchmarks.harness.clusters import cluster
from vdla.benchmarks.harness.command_line import DESIGNS, OUTPUT, ROUNDS, Given, Option, run_script
from vdla.benchmarks.harness.known_costs import LEAST, MOST, seconds_of
from vdla.benchmarks.harness.output import finish
from vdla.codesign import models
from vdla.codesign.explore import places
from vdla.codesign.explore.metrics import parse_objectives
from vdla.codesign.explore.networks import Network, load_network
from vdla.codesign.explore.places import Place
from vdla.codesign.explore.space import space_of
from vdla.codesign.explore.study import BATCH, Study, explore
from vdla.codesign.technology.components import shipped_components
from vdla.compiler.templates.vdla.schedule_cache import ScheduleCache
from vdla.isa.config import Config

SPACE = {
    "base": "vta",
    "fields": {
        "block_in": [16, 32, 64],
        "block_out": "block_in",
        "inp_buffer_bytes": {"from": 16384, "to": 131072, "times": 2},
        "wgt_buffer_bytes": {"from": 65536, "to": 524288, "times": 2},
        "acc_buffer_bytes": {"from": 65536, "to": 524288, "times": 2},
        "bus_bytes": [8, 16, 32, 64],
    },
}
KNOWN_WORKERS = (1, 4, 8)
KNOWN_DESIGNS = 192
REAL_DESIGNS = 60
SEARCHES = (("random", BATCH), ("nsga2", 64), ("nsga2", BATCH))
"""The searches as (strategy, batch size). "random" needs no results, so that workers never wait; "nsga2" waits for all
results of a batch, and is measured with two batch sizes.
"""
WARMING_SEED = 1000
"""Seed of the designs of the untimed first exploration, which starts the workers' processes; no measured
round uses it.
"""
SLEEPING = "vdla.benchmarks.harness.known_costs"


def study(
    networks: tuple[Network, ...],
    designs: int,
    seed: int,
    place: Place,
    strategy: str = "random",
    batch: int = BATCH,
) -> Study:
    """An exploration of SPACE for `networks`, not yet started, that evaluates `designs` designs in batches of `batch`
    by the search `strategy` with `seed`. Evaluations run at `place` (a dask scheduler, or processes of this computer);
    if all other arguments are equal, the same designs are evaluated at every place.
    """
    return Study(
        space=space_of(SPACE),
        networks=networks,
        components=shipped_components(),
        objectives=parse_objectives(("latency", "energy", "area")),
        strategy=strategy,
        budget=designs,
        batch=batch,
        seed=seed,
        place=place,
    )


def seconds(searched: Study) -> tuple[float, list[Config]]:
    """Runs an exploration; returns its wall-clock seconds, and the machines that it evaluated. Ends the benchmark if
    the exploration was interrupted.
    """
    before = time.monotonic()
    found = explore(searched)
    if found.interrupted:
        raise SystemExit(130)
    return time.monotonic() - before, [design.machine for design in found.designs if design.machine]


def known(designs: int, rounds: int) -> dict[str, Any]:
    """Explores `designs` designs with evaluations of known duration, for each search of SEARCHES on each number of
    workers in KNOWN_WORKERS, `rounds` times. Returns, by the search's name, the sum of the durations of its evaluations
    and, for each number of workers, the median wall time, and the speed relative to the first number of workers. Times
    are in seconds.
    """
    rows = dict[str, Any]()
    with (
        mock.patch.object(places, "WORKER", SLEEPING),
        contextlib.ExitStack() as stack,
        tempfile.TemporaryDirectory() as folder,
    ):
        networks = shipped(Path(folder), ("mlp",))
        addresses = {count: stack.enter_context(cluster(count)) for count in KNOWN_WORKERS}
        for address in addresses.values():
            explore(study(networks, BATCH, WARMING_SEED, Place(scheduler=address)))
        for strategy, batch in SEARCHES:
            walls: dict[int, list[float]] = {count: [] for count in KNOWN_WORKERS}
            costs = 0.0
            for _ in range(rounds):
                for count, address in addresses.items():
                    wall, machines = seconds(
                        study(networks, designs, 0, Place(scheduler=address), strategy, batch)
                    )
                    walls[count].append(wall)
                    costs = sum(map(seconds_of, machines))
            median = {count: statistics.median(found) for count, found in walls.items()}
            name = f"{strategy}, batches of {batch}"
            rows[name] = {
                "seconds of the evaluations": round(costs, 1),
                "seconds": {str(count): round(wall, 2) for count, wall in median.items()},
                "speed": {str(n): round(median[KNOWN_WORKERS[0]] / median[n], 2) for n in KNOWN_WORKERS},
            }
            print(f"{name}: {rows[name]}", flush=True)
    return rows


def real(designs: int, rounds: int) -> dict[str, Any]:
    """Measures explorations of `designs` designs. Returns, by name, the speed on two dask workers relative to one, and
    in two processes of this computer relative to one, as medians over `rounds` rounds and by round; and wall seconds.
    """
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        networks = shipped(Path(folder), ("resnet18", "mobilenet"))
        everywhere = {
            f"dask, {count}": Place(scheduler=stack.enter_context(cluster(count))) for count in (1, 2)
        } | {f"processes, {count}": Place(workers=count) for count in (1, 2)}
        walls: dict[str, list[float]] = {name: [] for name in everywhere}
        for number in range(-1, rounds):
            for name in list(everywhere)[:: 1 if number % 2 else -1]:
                # In this process kernels would be cached from round to round, which new processes cannot do.
                fresh = tuple(replace(network, schedule_cache=ScheduleCache()) for network in networks)
                if number < 0:
                    explore(study(fresh, BATCH, WARMING_SEED, everywhere[name]))
                    continue
                wall, _ = seconds(study(fresh, designs, number, everywhere[name]))
                walls[name].append(wall)
                print(f"round {number + 1}, {name}: {wall:.2f} s", flush=True)
    ratios = {
        kind: [one / two for one, two in zip(walls[f"{kind}, 1"], walls[f"{kind}, 2"], strict=True)]
        for kind in ("dask", "processes")
    }
    return {
        "designs": designs,
        "rounds": rounds,
        "seconds": {name: round(statistics.median(found), 2) for name, found in walls.items()},
        "two over one": {kind: round(statistics.median(found), 3) for kind, found in ratios.items()},
        "two over one by round": {kind: [round(x, 3) for x in found] for kind, found in ratios.items()},
    }


def shipped(folder: Path, names: Sequence[str]) -> tuple[Network, ...]:
    """The shipped models `names`, written to `folder` and loaded as networks."""
    found = []
    for name in names:
        models.write(folder / f"{name}.onnx", name)
        found.append(load_network(folder / f"{name}.onnx"))
    return tuple(found)


OPTIONS = (
    Option(
        "what",
        "known: evaluations that sleep for a known time; real: real evaluations",
        choices=("known", "real"),
    ),
    DESIGNS.but(help="number of timed evaluations (default: 192 known, 60 real)"),
    ROUNDS.but(help="number of rounds (default: 1 known, 5 real)"),
    *OUTPUT,
)


def main(options: Given) -> None:
    if options.what == "known":
        figures: Any = {
            "designs": options.designs or KNOWN_DESIGNS,
            "seconds of a design": [LEAST, MOST],
            "searches": known(options.designs or KNOWN_DESIGNS, options.rounds or 1),
        }
    else:
        figures = real(options.designs or REAL_DESIGNS, options.rounds or 5)
    lines = [json.dumps(figures)]
    finish(options, f"explore_workers_{options.what}", figures, lines=lines, packages=("distributed",))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

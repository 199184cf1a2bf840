"""Spaces of the accelerator's templates: the number of distinct programs in each, and the cycles of random programs.

    python benchmarks/tuning_spaces.py [--config vta] [--workload conv2d:C6 ...] [--trials 200] [--json]

Without workloads: C1-C12 and D1-D9. The number of programs is the number of legal points (candidate schedules) without
duplicates: points that differ only in knobs without effect count once. It is estimated from uniform draws, with a 95%
interval; small spaces are counted in full. `distinct` is the share of legal points that remain without duplicates.
`hashes` checks a sample of points that count as different: it is the share whose scheduled programs do differ.
Quantiles of simulated cycles are relative to the space's floor, a lower bound of the cycles of all programs of the
layer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.benchmarks.harness.command_line import CONFIG, JSON, SEED, TRIALS, Given, Option, run_script
from vdla.codesign.named_layers import CONVOLUTIONS, DEPTHWISE
from vdla.codesign.workload_names import accelerator_workload
from vdla.compiler.ir.hash import structural_hash
from vdla.compiler.templates.space import Space
from vdla.compiler.templates.vdla.template import template_of
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure
from vdla.isa.config import load_config

LAYERS = (*(f"conv2d:{name}" for name in CONVOLUTIONS), *(f"depthwise:{name}" for name in DEPTHWISE))
DRAWS, CHUNK = 1 << 21, 1 << 16
"""Number of points (candidate schedules) that are drawn to count a space, and number drawn at a time. A space with at
most DRAWS points is counted in full.
"""
HASHED = 60
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The number of distinct programs of a space with its confidence interval from `low` to `high`, and the number of
    legal points (candidate schedules); `exact`: counted, not estimated.
    """

    programs: float
    low: float
    high: float
    legal: float
    exact: bool


def count(space: Space, seed: int) -> Count:
    """Counts the legal points (candidate schedules) of a space, and its distinct programs. A space of more than DRAWS
    points is estimated from points drawn with `seed`. All points with the same program have the same `effective` knob
    values; a program is counted at the one point whose own knobs have these values.
    """
    rng, exact = np.random.default_rng(seed), space.size <= DRAWS
    total = space.size if exact else DRAWS
    legal = own = 0
    for start in range(0, total, CHUNK):
        size = min(CHUNK, total - start)
        if exact:
            points = space.numbered(np.arange(start, start + size))
        else:
            points = space.draw(rng, size)
        columns = space.columns(points)
        estimates = space.cost(columns)
        kept = space.allowed(estimates)
        alike = np.logical_and.reduce([columns[name] == estimates.effective[name] for name in columns])
        legal += int(kept.sum())
        own += int((kept & alike).sum())
    # Wilson's interval, which also holds for a share of few hits.
    z = 0.0 if exact else NORMAL_95
    share, spread = own / total, z * z / total
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * np.sqrt(share * (1 - share) / total + spread / (4 * total))
    scale = space.size
    return Count(
        programs=share * scale,
        low=(middle - half) * scale,
        high=(middle + half) * scale,
        legal=legal / total * scale,
        exact=exact,
    )


def different(task: AcceleratorTask, seed: int) -> float:
    """For HASHED random legal points (candidate schedules) of `task`, drawn with `seed`: the number of different
    scheduled programs divided by the number of points that count as different.
    """
    space = task.space
    points = space.sample(np.random.default_rng(seed), HASHED)
    effective = space.cost(space.columns(points)).effective
    rows = np.stack([effective[axis.name] for axis in space.axes], axis=1)
    distinct, first = np.unique(rows, axis=0, return_index=True)
    hashes = set()
    template = template_of(task.workload)
    expression = template.expression(task.config, task.workload)
    for k in first:
        values = space.values(points[k])
        copies = tuple(int(effective[name][k]) for name in values if name.endswith("_copies"))
        program = template.schedule(task.config, task.workload, expression, values).program
        hashes.add((structural_hash(program), copies))
    return len(hashes) / len(distinct)


def examine(config_name: str, name: str, trials: int, seed: int) -> dict[str, Any]:
    """The figures of the space of schedules of the workload `name`, such as "conv2d:C6", on the configuration
    `config_name`: numbers of points and of distinct programs, and quantiles of the cycles of `trials` random points.
    All draws follow from `seed`.
    """
    config = load_config(config_name)
    task = AcceleratorTask.of(config, accelerator_workload(name, config))
    counted = count(task.space, seed)
    points = task.space.sample(np.random.default_rng(seed + 1), trials)
    results = [measure(task, task.space.values(point)) for point in points]
    costs = np.array([result.cost for result in results])
    ratios = np.quantile(costs / task.space.floor, QUANTILES)
    return {
        "workload": name,
        "config": config_name,
        "points": task.space.size,
        "legal": counted.legal,
        "programs": counted.programs,
        "interval": [counted.low, counted.high],
        "exact": counted.exact,
        "distinct": counted.programs / counted.legal,
        "hashes": different(task, seed),
        "floor": task.space.floor,
        "default": measure(task, None).cost / task.space.floor,
        "quantiles": {f"{q:g}": float(ratio) for q, ratio in zip(QUANTILES, ratios, strict=True)},
        "failed": int((~np.isfinite(costs)).sum()),
        "seconds a trial": float(np.median([result.seconds for result in results])),
    }


OPTIONS = (
    CONFIG,
    Option("--workload", "workload, as for vdla tune; may be given several times", repeated=True),
    TRIALS.but(default=200, help="number of random points that are simulated"),
    SEED,
    JSON,
)


def main(options: Given) -> None:
    rows = []
    if not options.json:
        heads = "".join(f"{f'{q:.0%}':>7}" for q in QUANTILES)
        print(
            f"{'layer':14}{'programs':>10}{'95% interval':>20}{'distinct':>10}{'hashes':>8}{'default':>9}{heads}"
        )
    for name in options.workload or LAYERS:
        row = examine(options.config, name, options.trials, options.seed)
        rows.append(row)
        if not options.json:
            low, high = row["interval"]
            interval = "exactly" if row["exact"] else f"{low:.3g} - {high:.3g}"
            ratios = "".join(f"{ratio:7.2f}" for ratio in row["quantiles"].values())
            print(
                f"{name:14}{row['programs']:10.3g}{interval:>20}{row['distinct']:10.2f}{row['hashes']:8.2f}"
                f"{row['default']:9.2f}{ratios}",
                flush=True,
            )
    if options.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

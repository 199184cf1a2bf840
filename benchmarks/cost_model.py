"""Quality of cost models with different features: how well they rank held-out random candidates of schedule spaces.

    python benchmarks/cost_model.py [--only NAME ...] [--points 256] [--splits 10] [--samples 16 32 64 128] [--seed 0]
                                    [--data FOLDER] [--json]

For each space, `--points` random legal candidates are measured; a measured candidate is called a point. On the
accelerator (`vta`) their cost is simulated cycles; on processors it is thread CPU time of one thread (medians). Each
model is trained on some of the points (`--samples`) and ranks all others; means over `--splits` random splits are
shown.

`rank` is Spearman's correlation of scores and costs. `top` is the least cost among the eight points that the model
ranks first, divided by the least cost of all held-out points: 1.00 is best.

The model `account` uses features that are computed from a point without lowering it (`search/point_features.py`). The
model `program` uses features of the lowered loops and, on the accelerator, of the instructions (`program_features`).
The model `both` uses all of these features. These three models are trained for long (`THOROUGH`). The model `quick`
uses the features of `account` and is trained as `CostModel()` is by default.

With --data, measurements are written to a folder; measurements that the folder already has are read from it.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.harness.command_line import JSON, ONLY, POINTS, SAMPLES, SEED, Given, Option, run_script
from vdla.benchmarks.harness.cpu_trials import CpuMeasurer
from vdla.benchmarks.sketches import bound, timed
from vdla.benchmarks.sketches import cases as sketch_cases
from vdla.codesign.workload_names import accelerator_workload, cpu_workload
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.schedule import LegalityError
from vdla.compiler.templates.cpu.sketch.cost import sketch_space
from vdla.compiler.templates.cpu.sketch.schedule import sketch_schedule
from vdla.compiler.templates.cpu.sketch.sketch import find_sketches
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.space import Space
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure
from vdla.compiler.tune.program_features.reading import Read, read_points, read_scheduled, read_vdla
from vdla.compiler.tune.search.cost_model import THOROUGH, CostModel, Samples
from vdla.compiler.tune.search.point_features import GUESS, examine
from vdla.isa.config import load_config
from vdla.util.files import write_whole

MODELS = {"quick": CostModel(), "account": THOROUGH, "program": THOROUGH, "both": THOROUGH}
"""Models by the names of their columns. Each uses the features of the same name, except "quick", which uses the
features "account".
"""
BEST = 8
"""Number of candidates that a model may select, equal to a batch of the tuner."""
ACCELERATOR = ("conv2d:C2", "conv2d:C6", "conv2d:C9", "depthwise:D5")
PROCESSOR = ("conv2d:C2", "conv2d:C6", "conv2d:C9", "depthwise:D5", "dense:256,256,256")
SKETCHES = ("dense 256", "conv2d C6", "matmul 4 x 128, transposed", "sum of 64 x 256 x 256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A space of candidate schedules, with functions that compute the features of a candidate's program (`read`) and
    measure its cost (`measure`; inf: failed). Both take a candidate as a mapping from choices to their values.
    """

    space: Space
    read: Read
    measure: Callable[[Mapping[str, int]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Measurements of n points (candidate schedules) of a space: their features without lowering (`account`) and of
    their programs, float64 [n, *]; costs, float64 [n].

    `reading`: milliseconds to compute the features of one point's program.
    """

    account: np.ndarray
    program: np.ndarray
    costs: np.ndarray
    reading: float

    def features(self, name: str) -> np.ndarray:
        """The features, float64 [n, *], that the model `name` of MODELS uses. The model "program" gets no cost
        estimate, so the columns of the estimate are zeros.
        """
        if name in ("quick", "account"):
            return self.account
        first = self.account if name == "both" else np.zeros((len(self.account), GUESS + 1))
        return np.concatenate([first, self.program], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Quality of all MODELS on one space, each trained on `samples` points (candidate schedules). `rank`: Spearman's
    correlation of scores and costs. `top`: the model selects the BEST points with the highest scores; the least cost of
    a selected point is divided by the least cost of all points. `reading`: milliseconds to lower a point and compute
    its features.
    """

    space: str
    samples: int
    reading: float
    quality: Mapping[str, Mapping[str, float]]

    def line(self) -> str:
        """The row as a line of text for the printed table."""
        numbers = "".join(f"{self.quality[m][what]:13.3f}" for what in ("rank", "top") for m in MODELS)
        return f"{self.space:34}{self.samples:8d}{self.reading:12.1f}{numbers}"


def mean(rows: Sequence[Row]) -> Row:
    """A row with the means of the given rows, which are of spaces for one device (accelerator or processor) and of
    models trained on the same number of samples.
    """
    return Row(
        space=f"mean of {len(rows)} {rows[0].space.split()[0]}",
        samples=rows[0].samples,
        reading=statistics.fmean(row.reading for row in rows),
        quality={
            model: {
                what: statistics.fmean(row.quality[model][what] for row in rows) for what in ("rank", "top")
            }
            for model in MODELS
        },
    )


def subjects(only: list[str]) -> Iterator[tuple[str, Callable[[], Subject]]]:
    """Yields (name, function that makes the `Subject`) for each space of candidates whose name begins with one of
    `only`; for all spaces if `only` is empty.
    """
    made: dict[str, Callable[[], Subject]] = {}
    for name in ACCELERATOR:
        made[f"vdla {name}"] = lambda name=name: accelerator(name)
    for name in PROCESSOR:
        made[f"llvm {name}"] = lambda name=name: processor(name)
    for name in SKETCHES:
        made[f"sketch {name}"] = lambda name=name: sketch(name)
    for name, make in made.items():
        if not only or any(name.startswith(start) for start in only):
            yield name, make


def accelerator(name: str) -> Subject:
    config = load_config("vta")
    task = AcceleratorTask.of(config, accelerator_workload(name, config))
    return Subject(space=task.space, read=read_vdla(task), measure=lambda values: measure(task, values).cost)


def processor(name: str) -> Subject:
    target = host_target()
    workload = cpu_workload(name, target)
    measurer = CpuMeasurer(target)
    return Subject(
        space=CPU.space(target, workload),
        read=read_points(CPU, target, workload),
        measure=lambda values: measurer.measure(workload, values).seconds,
    )


def sketch(name: str) -> Subject:
    target, case = host_target(), sketch_cases()[name]
    rng = np.random.default_rng(0)
    arrays = {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in case.program.parameters}
    given = find_sketches(case.program, target, constants=case.constants)

    def seconds(values: Mapping[str, int]) -> float:
        try:
            return timed(bound(target, sketch_schedule(given, values), arrays))
        except LegalityError:
            return np.inf

    return Subject(
        space=sketch_space(given),
        read=read_scheduled(lambda values: sketch_schedule(given, values).program),
        measure=seconds,
    )


def collect(subject: Subject, points: int, seed: int) -> Data:
    """Measures `points` random legal candidates of the space of `subject`, drawn with `seed`; of candidates with equal
    programs only one is measured, so the result may have fewer points. Returns the features and costs of the measured
    candidates.
    """
    space, rng = subject.space, np.random.default_rng(seed)
    drawn = space.sample(rng, 2 * points)
    _, first = np.unique(examine(space, drawn).programs, return_index=True)
    found = examine(space, drawn[np.sort(first)[:points]])
    programs, costs, reading = [], [], []
    subject.read(space.values(drawn[-1]))  # The first run loads compiled code.
    for point in found.points:
        values = space.values(point)
        start = time.thread_time()
        programs.append(subject.read(values))
        reading.append(time.thread_time() - start)
        costs.append(subject.measure(values))
    return Data(
        account=found.features,
        program=np.stack(programs),
        costs=np.array(costs),
        reading=1e3 * statistics.fmean(reading),
    )


def spearman(scores: np.ndarray, costs: np.ndarray) -> float:
    """Spearman's rank correlation of -`scores` and `costs`: 1 if the highest score has the lowest cost, and so on."""
    first, second = (np.argsort(np.argsort(values)) for values in (-scores, costs))
    return float(np.corrcoef(first, second)[0, 1])


def quality(data: Data, samples: int, splits: int, seed: int) -> dict[str, dict[str, float]]:
    """For each of MODELS, means over `splits` random splits of the data. `rank`: Spearman's correlation of scores and
    costs (`spearman`). `top`: the model selects the BEST points with the highest scores; the least cost of a selected
    point is divided by the least cost of all judged points. Each model is trained on `samples` points and judged on all
    others; all models get the same splits, drawn with `seed`.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in MODELS}
    for split in range(splits):
        order = np.random.default_rng([seed, split]).permutation(len(data.costs))
        taught, held = order[:samples], order[samples:]
        costs = data.costs[held]
        for name, model in MODELS.items():
            features = data.features(name)
            training = Samples(features=features[taught], costs=data.costs[taught])
            scores = model.fit([training], seed=split).scores(features[held])
            ran = np.isfinite(costs)
            top = costs[np.argsort(-scores, kind="stable")[:BEST]].min() / costs.min()
            found[name].append((spearman(scores[ran], costs[ran]), top))
    return {
        name: dict(zip(("rank", "top"), (float(v) for v in np.mean(rows, axis=0)), strict=True))
        for name, rows in found.items()
    }


def cached(folder: Path | None, name: str, collected: Callable[[], Data]) -> Data:
    """The measurements of the space `name`, read from the space's file in `folder`. If the file is missing, the
    function `collected` makes the measurements, and they are written to the file. If `folder` is None, `collected`
    makes the measurements, and no file is written.
    """
    if folder is None:
        return collected()
    file = folder / f"{''.join(c if c.isalnum() else '-' for c in name)}.json"
    if file.exists():
        known: dict[str, Any] = json.loads(file.read_text())
        reading = known.pop("reading")
        arrays = {part: np.array(numbers, dtype=np.float64) for part, numbers in known.items()}
        return Data(**arrays, reading=reading)
    data = collected()
    text: dict[str, Any] = {"reading": data.reading}
    text |= {part: getattr(data, part).tolist() for part in ("account", "program", "costs")}
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(text).encode())
    return data


OPTIONS = (
    ONLY.but(nargs="+", help="only spaces whose names begin with one of these"),
    POINTS.but(default=256),
    Option("--splits", "number of random splits of the points into training and held-out points", int, 10),
    SAMPLES.but(default=[16, 32, 64, 128], nargs="+", help="numbers of training points"),
    SEED,
    Option(
        "--data", "folder of measurements: existing ones are read, new ones written", Path, metavar="FOLDER"
    ),
    JSON,
)


def main(options: Given) -> None:
    rows: list[Row] = []
    if not options.json:
        head = "".join(f"{f'{what} {name}':>13}" for what in ("rank", "top") for name in MODELS)
        print(f"{'':34}{'samples':>8}{'reading ms':>12}{head}")
    for name, make in subjects(options.only):
        data = cached(options.data, name, lambda make=make: collect(make(), options.points, options.seed))
        for samples in options.samples:
            if samples + BEST > len(data.costs):
                continue
            found = quality(data, samples, options.splits, options.seed)
            rows.append(Row(space=name, samples=samples, reading=data.reading, quality=found))
            if not options.json:
                print(rows[-1].line(), flush=True)
    means = [
        mean([row for row in rows if row.samples == samples and row.space.startswith(kind)])
        for kind in ("vdla", "llvm", "sketch")
        for samples in options.samples
        if any(row.samples == samples and row.space.startswith(kind) for row in rows)
    ]
    if not options.json:
        print(*(row.line() for row in means), sep="\n")
    if options.json:
        print(json.dumps([asdict(row) for row in (*rows, *means)]))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

"""Random points (candidates) of the spaces of sketches (generated schedules), compared with the default points of these
spaces.

    python benchmarks/sketches.py [--only NAME ...] [--points N] [--seed N] [--json]

For each program `points` random legal points of the space are compiled and timed on one thread (thread CPU time,
medians); the default's kernel is timed before and after. `best` and `median` are the default's time over the time of
the best and of the median point, above 1 where the point is faster. `scheduled` is the share of legal points that can
be scheduled. `legal` is the share of all points that keep to the space's limits. `features` is the time to compute a
program's features, and `schedule` is the time to schedule a point.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from vdla.benchmarks.harness.command_line import JSON, ONLY, POINTS, SEED, Given, run_script
from vdla.compiler.codegen.cpu.kernel import BoundKernel, build
from vdla.compiler.codegen.cpu.machine import CpuTarget, host_target
from vdla.compiler.ir.stmt import Program
from vdla.compiler.schedule import LegalityError, Schedule
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import blocked_convolution, blocked_depthwise
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.templates.cpu.lowered import scheduled
from vdla.compiler.templates.cpu.sketch.cost import sketch_space
from vdla.compiler.templates.cpu.sketch.schedule import sketch_schedule
from vdla.compiler.templates.cpu.sketch.sketch import find_sketches
from vdla.compiler.tune.program_features.program import program_features

SECONDS = 2e-3
"""Least seconds of one timed repetition of a kernel, which may run the kernel several times."""
WEIGHTS = frozenset({"W"})
SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program to be scheduled; `constants` names its parameters that are constant at run time, such as weights."""

    program: Program
    constants: frozenset[str] = WEIGHTS


def cases() -> dict[str, Case]:
    return {
        "dense 256": Case(
            program=product(Matrices(rows=256, depth=256, columns=256)),
        ),
        "conv2d C2": Case(
            program=blocked_convolution(
                Convolution(batch=1, channels=64, height=56, width=56, filters=64, window=SAME),
                block_in=16,
                block_out=16,
            ),
        ),
        "conv2d C6": Case(
            program=blocked_convolution(
                Convolution(batch=1, channels=128, height=28, width=28, filters=128, window=SAME),
                block_in=16,
                block_out=16,
            ),
        ),
        "depthwise D5": Case(
            program=blocked_depthwise(
                Convolution(batch=1, channels=256, height=28, width=28, filters=256, window=SAME, groups=256),
                block=16,
            ),
            constants=frozenset(),
        ),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Result for one program. Milliseconds: `default` (the default's kernel), `features` (computing a program's
    features), `schedule` (scheduling a point, one candidate). `best`, `median`: speedup of the best and of the median
    point over the default. `scheduled`: share of legal points that can be scheduled; `legal`: share of all points that
    are legal. `point`: the best point's knobs.
    """

    program: str
    default: float
    best: float
    median: float
    scheduled: float
    legal: float
    features: float
    schedule: float
    point: Mapping[str, int]


def timed(kernel: BoundKernel) -> float:
    """Thread CPU seconds of one run of `kernel`: the median of five repetitions, each of several runs that together
    take about SECONDS. Two runs before them do not count.
    """
    kernel()
    start = time.thread_time()
    kernel()
    count = max(1, int(SECONDS / max(1e-7, time.thread_time() - start)))
    found = []
    for _ in range(5):
        start = time.thread_time()
        for _ in range(count):
            kernel()
        found.append((time.thread_time() - start) / count)
    return statistics.median(found)


def bound(target: CpuTarget, s: Schedule, arrays: Mapping[str, np.ndarray]) -> BoundKernel:
    packed = pack_arrays(s.trace, arrays)
    shapes = {p.name: p.shape for p in s.program.parameters}
    return build(s.program, target).bind(
        {name: np.ascontiguousarray(packed[name]).reshape(shape) for name, shape in shapes.items()}
    )


def measure(name: str, case: Case, target: CpuTarget, points: int, seed: int) -> Row:
    rng = np.random.default_rng(seed)
    arrays = {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in case.program.parameters}
    default = bound(target, scheduled(target, case.program, case.constants), arrays)
    before = timed(default)
    given = find_sketches(case.program, target, constants=case.constants)
    space = sketch_space(given)
    legal = float(space.legal(space.draw(rng, 1 << 14)).mean())
    found: list[tuple[float, dict[str, int]]] = []
    features, scheduling = [], []
    for point in space.sample(rng, points):
        start = time.thread_time()
        try:
            s = sketch_schedule(given, space.values(point))
        except LegalityError:
            continue
        scheduling.append(time.thread_time() - start)
        start = time.thread_time()
        program_features(s.program)
        features.append(time.thread_time() - start)
        found.append((timed(bound(target, s, arrays)), space.values(point)))
    reference = (before + timed(default)) / 2
    best, point = min(found, key=lambda item: item[0])
    return Row(
        program=name,
        default=reference * 1e3,
        best=reference / best,
        median=reference / statistics.median(seconds for seconds, _ in found),
        scheduled=len(found) / points,
        legal=legal,
        features=statistics.median(features) * 1e3,
        schedule=statistics.median(scheduling) * 1e3,
        point=point,
    )


OPTIONS = (
    ONLY.but(nargs="+", help="only programs whose names begin with one of these"),
    POINTS.but(default=64),
    SEED,
    JSON,
)


def main(options: Given) -> None:
    target, rows = host_target(), []
    if not options.json:
        head = ("default ms", "best", "median", "scheduled", "legal", "features ms", "schedule ms")
        print(f"{'':32}" + "".join(f"{column:>13}" for column in head))
    for name, case in cases().items():
        if options.only and not any(name.startswith(start) for start in options.only):
            continue
        row = measure(name, case, target, options.points, options.seed)
        rows.append(asdict(row))
        if not options.json:
            shown = (row.default, row.best, row.median, row.scheduled, row.legal, row.features, row.schedule)
            print(f"{name:32}" + "".join(f"{number:13.3f}" for number in shown), flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

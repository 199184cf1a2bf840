"""CPU time of one trial of the tuner on the accelerator: thread CPU milliseconds of lowering, linking and simulation.

    python benchmarks/trial.py [--layers conv2d:C2 depthwise:D1] [--candidates 30] [--config vta] [--seed 0]
                               [--json] [--write]

A trial measures one legal candidate of a workload's space, drawn at random. Its steps are scheduling by the template
with the candidate's knobs, the passes, linking as a program of its own, and simulation without data. The first trial
loads the compiled code and is not counted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from vdla.benchmarks.harness.command_line import CONFIG, LAYERS, OUTPUT, SEED, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.codesign.named_layers import CONVOLUTIONS
from vdla.codesign.workload_names import accelerator_workload
from vdla.compiler.passes.pipeline import run_pipeline
from vdla.compiler.templates.columns import Values
from vdla.compiler.templates.vdla.lower import pipeline
from vdla.compiler.templates.vdla.template import Expression, template_of
from vdla.compiler.tune.measure.measure_vdla import VIRTUAL_THREADS, AcceleratorTask, link_lowered
from vdla.isa.config import Config, load_config
from vdla.sim import simulate

STAGES = ("schedule", "passes", "link", "simulate")
_Result = TypeVar("_Result")


class Trial:
    """Runs trials of the tuner on the workload `name` and the machine `config`. `run` takes a candidate (a schedule's
    knobs) and returns its number of instructions, its cycles, and the thread CPU seconds of each stage.
    """

    def __init__(self, config: Config, name: str) -> None:
        self.task = AcceleratorTask.of(config, accelerator_workload(name, config))

    def run(self, values: Values) -> tuple[int, int, list[float]]:
        seconds: list[float] = []

        def timed(function: Callable[[], _Result]) -> _Result:
            start = time.thread_time()
            result = function()
            seconds.append(time.thread_time() - start)
            return result

        task, config, workload = self.task, self.task.config, self.task.workload
        template = template_of(workload)
        expression = Expression(program=task.program, post=workload.post)
        schedule = timed(lambda: template.schedule(config, workload, expression, values))
        passes = pipeline(config, template.copies_by_scope(values, VIRTUAL_THREADS))
        lowered = timed(lambda: run_pipeline(schedule.program, passes, check=False))
        alone = timed(lambda: link_lowered(task, lowered))
        result = timed(lambda: simulate(config, alone.instructions, alone.image, data=False))
        return len(alone.instructions), result.cycles, seconds


def measure(config: Config, name: str, count: int, seed: int) -> dict[str, float]:
    """Runs `count` random trials, drawn with `seed`, of the layer `name` on the machine `config`. Returns the medians
    of the number of instructions and of the milliseconds of each stage (STAGES); and median, mean and most milliseconds
    of a whole trial.
    """
    trial = Trial(config, name)
    points = trial.task.space.sample(np.random.default_rng(seed), count)
    candidates = [trial.task.space.values(point) for point in points]
    trial.run(candidates[0])
    instructions: list[int] = []
    times: list[list[float]] = []
    for values in candidates:
        length, _, seconds = trial.run(values)
        instructions.append(length)
        times.append([1e3 * value for value in seconds])
    totals = [sum(row) for row in times]
    return {
        "instructions": statistics.median(instructions),
        **{
            stage: statistics.median(column)
            for stage, column in zip(STAGES, zip(*times, strict=True), strict=True)
        },
        "median": statistics.median(totals),
        "mean": statistics.mean(totals),
        "worst": max(totals),
    }


def table(rows: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """The lines of a printed table: a row for each layer, with the milliseconds of each stage of a trial. `rows`: the
    results of `measure`, by name of the layer.
    """
    yield "CPU ms a trial; medians of random candidates, then median, mean and worst of whole trials"
    headings = ("layer", "instructions", *STAGES, "median", "mean", "worst")
    yield "".join(f"{heading:>13}" for heading in headings)
    for name, row in rows.items():
        cells = (f"{row[key]:13.0f}" if key == "instructions" else f"{row[key]:13.2f}" for key in row)
        yield f"{name:>13}{''.join(cells)}"


OPTIONS = (
    LAYERS.but(default=[f"conv2d:{name}" for name in CONVOLUTIONS]),
    Option("--candidates", "number of candidates of each layer", int, 20),
    CONFIG,
    SEED,
    *OUTPUT,
)


def main(options: Given) -> None:
    config = load_config(options.config)
    rows = {name: measure(config, name, options.candidates, options.seed) for name in options.layers}
    rows["all"] = {
        key: (max if key == "worst" else statistics.mean)([row[key] for row in rows.values()])
        for key in next(iter(rows.values()))
    }
    figures = {"config": options.config, "candidates": options.candidates, "rows": rows}
    finish(options, "trial", figures, shown=rows, lines=table(rows))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

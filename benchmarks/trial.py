"""CPU time of one trial of the tuner on the accelerator: thread CPU milliseconds of lowering, linking and simulation.

    python benchmarks/trial.py [--layers C2 C6] [--candidates 30] [--config vta] [--seed 0] [--json]

A trial is one candidate of one convolution of the TVM paper (C1-C12): its tensor expression, the template's schedule
with the candidate's knobs, the passes, linking by itself and simulation in timing alone. Candidates are drawn from
the product of the template's balanced tile sizes, of which those are left out whose buffers cannot fit; the few
that turn out not to lower or not to fit are counted and not timed. The first trial, which loads the compiled code, is
not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from vdla.codesign.bench.convolutions import CONVOLUTIONS, same_window
from vdla.compiler.passes.pipeline import run_pipeline
from vdla.compiler.schedule import LegalityError
from vdla.compiler.target.vdla.link_alone import link_alone
from vdla.compiler.target.vdla.placement import PlacementError
from vdla.compiler.te.blocks import Blocks, Window
from vdla.compiler.te.ops import conv2d
from vdla.compiler.te.post import Post
from vdla.compiler.templates import conv2d_vdla
from vdla.compiler.templates.lower_vdla import pipeline
from vdla.compiler.templates.tiling import Knobs, balanced_sizes, candidates, fits
from vdla.isa.config import Config, load_config
from vdla.isa.errors import EncodingError
from vdla.sim import simulate

VIRTUAL_THREADS = 2
STAGES = ("expression", "schedule", "passes", "link", "simulate")
_Result = TypeVar("_Result")


def random_knobs(config: Config, shape: conv2d_vdla.ConvolutionShape, rng: np.random.Generator) -> Knobs:
    """One of the tiles whose buffers fit the scratchpads, each on its own terms."""
    grid = candidates(
        {
            "output": balanced_sizes(shape.output_blocks, config.par_depth),
            "rows": balanced_sizes(shape.out_height),
            "columns": balanced_sizes(shape.out_width),
            "reduction": balanced_sizes(shape.input_blocks),
            "resident": (0, 1),
        }
    )
    taps = shape.kernel[0] * shape.kernel[1]
    rows = (grid["rows"] - 1) * shape.strides[0] + shape.kernel[0]
    columns = (grid["columns"] - 1) * shape.strides[1] + shape.kernel[1]
    blocks = np.where(grid["resident"] == 1, shape.input_blocks, grid["reduction"])
    copies = np.full(len(rows), VIRTUAL_THREADS)
    legal = (
        fits(config, "inp", grid["reduction"] * rows * columns, copies)
        & fits(config, "wgt", grid["output"] * blocks * taps, copies)
        & fits(config, "acc", grid["output"] * grid["rows"] * grid["columns"], copies)
        & (2 * grid["output"] * grid["reduction"] * taps <= config.uop_depth)
    )
    choice = int(rng.choice(np.flatnonzero(legal)))
    return Knobs(
        output_blocks=int(grid["output"][choice]),
        rows=int(grid["rows"][choice]),
        columns=int(grid["columns"][choice]),
        reduction_blocks=int(grid["reduction"][choice]),
        resident_weights=bool(grid["resident"][choice]),
        virtual_threads=VIRTUAL_THREADS,
    )


class Trial:
    """One layer; `run` gives the instructions and cycles of a candidate and the seconds of each stage."""

    def __init__(self, config: Config, name: str) -> None:
        self.config = config
        self.size, self.channels, self.filters, kernel, stride = CONVOLUTIONS[name]
        self.window: Window = same_window(self.size, kernel, stride)
        self.shape = conv2d_vdla.convolution_shape(self.expression(), self.window)

    def expression(self):
        return conv2d(
            blocks=Blocks.of(self.config),
            batch=1,
            channels=self.channels,
            height=self.size,
            width=self.size,
            filters=self.filters,
            window=self.window,
            pad_value=0,
            post=Post(),
        )

    def run(self, knobs: Knobs) -> tuple[int, int, list[float]]:
        seconds: list[float] = []

        def timed(function: Callable[[], _Result]) -> _Result:
            start = time.thread_time()
            result = function()
            seconds.append(time.thread_time() - start)
            return result

        config, threads = self.config, VIRTUAL_THREADS
        program = timed(self.expression)
        scheduled = timed(
            lambda: conv2d_vdla.schedule(config, program, self.window, Post(), threads, knobs).program
        )
        lowered = timed(lambda: run_pipeline(scheduled, pipeline(config, threads), check=False))
        words, memory = timed(lambda: link_alone(config, lowered, frozenset({"X", "R", "Y"})))
        result = timed(lambda: simulate(config, words, memory, data=False))
        return len(words), result.cycles, seconds


def measure(config: Config, name: str, count: int, seed: int) -> dict[str, float]:
    """Medians and means of `count` candidates of a layer in milliseconds, and how many were refused."""
    trial, rng = Trial(config, name), np.random.default_rng(seed)
    trial.run(random_knobs(config, trial.shape, np.random.default_rng(seed)))
    instructions: list[int] = []
    times: list[list[float]] = []
    refused = 0
    while len(times) < count and refused < 10 * count:
        try:
            length, _, seconds = trial.run(random_knobs(config, trial.shape, rng))
        except (LegalityError, PlacementError, EncodingError):
            refused += 1
            continue
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
        "refused": refused,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", nargs="+", choices=list(CONVOLUTIONS), default=list(CONVOLUTIONS))
    parser.add_argument("--candidates", type=int, default=20, help="of each layer")
    parser.add_argument("--config", default="vta")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    config = load_config(options.config)
    rows = {name: measure(config, name, options.candidates, options.seed) for name in options.layers}
    rows["all"] = {
        key: (sum if key == "refused" else max if key == "worst" else statistics.mean)(
            [row[key] for row in rows.values()]
        )
        for key in next(iter(rows.values()))
    }
    if options.json:
        print(json.dumps(rows))
        return
    print("CPU ms a trial; medians of random candidates, then median, mean and worst of whole trials")
    headings = ("layer", "instructions", *STAGES, "median", "mean", "worst", "refused")
    print("".join(f"{heading:>13}" for heading in headings))
    for name, row in rows.items():
        cells = (
            f"{row[key]:13.0f}" if key in ("instructions", "refused") else f"{row[key]:13.2f}" for key in row
        )
        print(f"{name:>13}{''.join(cells)}")


if __name__ == "__main__":
    main()

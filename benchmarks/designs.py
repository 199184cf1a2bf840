"""Designs per second and core: a network is compiled for each machine (accelerator configuration), simulated and
evaluated, as the explorer does it.

    python benchmarks/designs.py [--rounds N] [--json] [--write]

ResNet-18 on 36 machines: square arrays of 8 to 64, buses of 8 to 32 bytes, read latencies of 30 to 200 cycles, in a
shuffled order. "nothing kept": each machine starts with empty caches; "kernels kept": caches stay, as in a study, so
that machines reuse kernels of the machines before. Times are thread CPU time in a warm process: the mean over the
machines, the median over the rounds. With `--write` the figures go to benchmarks/results/designs.json.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

from vdla.benchmarks.harness.command_line import OUTPUT, ROUNDS, Given, run_script
from vdla.benchmarks.harness.output import finish, listed
from vdla.codesign import models
from vdla.codesign.explore.evaluate import evaluate
from vdla.codesign.explore.networks import Network, load_network
from vdla.codesign.technology.components import default_components
from vdla.compiler.pipeline import compile_program
from vdla.compiler.templates.vdla.schedule_cache import ScheduleCache
from vdla.isa.config import Config, Memory, load_config
from vdla.sim import simulate

KIB = 1024
ARRAYS = {
    8: {"inp": 16, "wgt": 64, "acc": 64, "par": 2},
    16: {"inp": 32, "wgt": 256, "acc": 128, "par": 2},
    32: {"inp": 64, "wgt": 1024, "acc": 256, "par": 4},
    64: {"inp": 128, "wgt": 4096, "acc": 512, "par": 8},
}
"""Sizes in KiB of the memories of a machine (inputs, weights, accumulators, parameters), by the number of rows and
columns of its square array.
"""
BUSES = (8, 16, 32)
LATENCIES = (30, 100, 200)


def machines() -> list[Config]:
    """The measured machines (accelerator configurations) in shuffled order; each call makes new objects."""
    vta = load_config("vta")
    found = [
        replace(
            vta,
            name=f"{block}x{block}, {bus} bytes, latency {latency}",
            block_in=block,
            block_out=block,
            **{f"{kind}_buffer_bytes": KIB * size for kind, size in ARRAYS[block].items()},
            memory=Memory(bus_bytes=bus, read_latency=latency),
        )
        for block, bus, latency in product(ARRAYS, BUSES, LATENCIES)
    ]
    random.Random(21).shuffle(found)
    return found


def one_round(network: Network, *, keep: bool) -> dict[str, float]:
    """Compiles `network` for each machine, simulates it, and evaluates the machine. Returns the mean CPU seconds of
    each of these steps over all machines, and the number of designs that are evaluated per second. `keep`: machines
    share the caches of kernels.
    """
    compiling, simulating, evaluating = [], [], []
    both = (ScheduleCache(), ScheduleCache())
    components = default_components()
    for config in machines():
        if not keep:
            both = (ScheduleCache(), ScheduleCache())
        start = time.thread_time()
        program = compile_program(network.graph, config, data=False, schedule_cache=both[0]).program
        compiled = time.thread_time()
        simulate(config, program.instructions, program.image, data=False)
        simulated = time.thread_time()
        # All steps once more, in one call as in a study.
        figures = evaluate(config, [replace(network, schedule_cache=both[1])], components)
        if figures.failed is not None:
            raise SystemExit(f"error: {config.name}: {figures.failed}")
        evaluating.append(time.thread_time() - simulated)
        compiling.append(compiled - start)
        simulating.append(simulated - compiled)
    return {
        "compile, s": statistics.mean(compiling),
        "simulate, s": statistics.mean(simulating),
        "evaluate, s": statistics.mean(evaluating),
        "designs a second and core": 1 / statistics.mean(evaluating),
    }


def measure(rounds: int) -> dict[str, object]:
    """Runs all rounds of the benchmark; returns its figures by name, each the median over the `rounds` rounds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet18.onnx"
        models.write(path, "resnet18")
        network = load_network(path)
    first = machines()[0]
    evaluate(first, [network], default_components())
    found: dict[str, object] = {"machines": len(machines()), "rounds": rounds}
    several = {name: [] for name in ("nothing kept", "kernels kept")}
    for _ in range(rounds):
        several["nothing kept"].append(one_round(network, keep=False))
        several["kernels kept"].append(one_round(network, keep=True))
    for name, results in several.items():
        found[name] = {key: statistics.median(result[key] for result in results) for key in results[0]}
    return found


OPTIONS = (ROUNDS.but(default=3), *OUTPUT)


def main(options: Given) -> None:
    figures = measure(options.rounds)
    finish(options, "designs", figures, lines=listed(figures))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

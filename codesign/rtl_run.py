"""Steps of `vdla run --engine rtl`: runs a whole network on the Verilated RTL and compares the results with the
simulator's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.runtime.accelerator import input_image, read_outputs
from vdla.compiler.runtime.accelerator import run as execute
from vdla.compiler.runtime.artifact import Compiled
from vdla.hw.counters import CYCLE_COUNTERS
from vdla.hw.harness.dram.oracle import Oracle
from vdla.hw.harness.engine import Machine, Optimize, RtlResult, prepare_library
from vdla.hw.harness.surroundings import Surroundings
from vdla.isa.config import Config
from vdla.isa.layout import Unit
from vdla.sim import CATEGORIES, SimulationResult, Traffic
from vdla.sim.state import TRAFFIC
from vdla.verify.cosim.compare import differences

from .evaluate import Arrays
from .network_run import Simulated
from .report.account_run import account_layers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnRtl:
    """Results of a network on the RTL, and a line of text for each difference from the simulator's results."""

    simulated: Simulated
    differences: tuple[str, ...]


LONG_RUN = 1_000_000
"""Number of simulated cycles of a launch (run of the program) above which compiling the Verilated library for fast
execution saves time, although the compilation takes longer.
"""


def library_for(compiled: Compiled) -> Optimize:
    """The kind of Verilated library for `compiled`: "run" (compiled for fast execution) if a launch takes at least
    `LONG_RUN` simulated cycles, else "build" (compiled quickly). Builds the library if it does not exist. Raises
    BuildError without the tools.
    """
    cycles = execute(compiled, {}, data=False).simulation.cycles
    optimize: Optimize = "run" if cycles >= LONG_RUN else "build"
    prepare_library(compiled.program.config, optimize=optimize)
    return optimize


def run_on_rtl(
    compiled: Compiled,
    launches: Sequence[Arrays],
    *,
    optimize: Optimize,
    on_progress: Callable[[int], None] = lambda cycles: None,
    on_launch: Callable[[], None] = lambda: None,
    dram: Oracle | None = None,
) -> OnRtl:
    """Runs `compiled` on the inputs of each launch, on the RTL and on the simulator.

    All returned results are from the RTL: outputs, cycles, per-layer cycles and stalls. `optimize`: the kind of library
    (`library_for`). `on_progress` is called with the number of cycles that a launch has done so far, `on_launch` after
    each launch. `dram`: the oracle of a machine's DRAM, as in `Surroundings`. Raises RtlError if the RTL does not
    finish, BuildError without the tools, and UserError for inputs that do not match the model.
    """
    program = compiled.program
    outputs, found = [], []
    first, seconds = None, 0.0
    for number, arrays in enumerate(launches):
        expected = execute(compiled, dict(arrays))
        image = input_image(compiled, arrays)
        started = time.thread_time()
        with Machine(program.config, optimize=optimize) as machine:
            run = machine.run(
                program.instructions, image, on_progress=on_progress, surroundings=Surroundings(dram=dram)
            )
        simulation = as_simulation(program.config, run)
        if first is None:
            first, seconds = simulation, time.thread_time() - started
        different = differences(expected.simulation, run) + layer_differences(
            compiled, expected.simulation, simulation
        )
        found += [f"launch {number}: {line}" for line in different]
        outputs.append(dict(read_outputs(compiled, run.memory)[0]))
        on_launch()
    assert first is not None
    return OnRtl(
        simulated=Simulated(launches=tuple(outputs), simulation=first, seconds=seconds),
        differences=tuple(found),
    )


def layer_differences(compiled: Compiled, simulated: SimulationResult, rtl: SimulationResult) -> list[str]:
    """One line of text for every layer whose cycles or stalls on the RTL differ from the simulator's."""
    return [
        f"layer {left.name}: simulator {left.gemm_cycles} GEMM cycles and stalls {dict(left.stalls)} in "
        f"{left.begin}..{left.end}, RTL {right.gemm_cycles} and {dict(right.stalls)} in {right.begin}..{right.end}"
        for left, right in zip(
            account_layers(compiled, simulated), account_layers(compiled, rtl), strict=True
        )
        if left != right
    ]


def as_simulation(config: Config, run: RtlResult) -> SimulationResult:
    """The RTL's result in the form of a simulator's result.

    The RTL records neither the instruction for which a unit waits nor the cycle of a dispatch: both are -1.
    """
    load, compute, store = (_segments(run, unit) for unit in Unit)
    return SimulationResult(
        config=config,
        cycles=run.cycles,
        begin=run.begin,
        end=run.end,
        dispatch=np.full(len(run.begin), -1, np.int64),
        traffic={
            kind: Traffic(bytes=run.counters[f"{kind}.bytes"], beats=run.counters[f"{kind}.beats"])
            for kind in TRAFFIC
        },
        memory=run.memory,
        scratchpads=None,
        segments=(load, compute, store),
    )


def _segments(run: RtlResult, unit: Unit) -> NDArray[np.int64]:
    """The activity of `unit`: one row (start, stop, category, instruction) for each interval of cycles start + 1 ..
    stop.

    The instruction is -1, unknown.
    """
    categories = np.full(1 + max(activity.value for _, activity, _ in CYCLE_COUNTERS), -1, np.int64)
    for owner, activity, name in CYCLE_COUNTERS:
        if owner is unit:
            categories[activity.value] = CATEGORIES.index(name.partition(".")[2])
    mine = run.activity[run.activity[:, 1] == unit]
    start = mine[:, 0] - 1
    stop = np.append(start[1:], run.cycles)
    return np.stack([start, stop, categories[mine[:, 2]], np.full(len(mine), -1, np.int64)], axis=1)

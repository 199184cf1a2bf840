"""A worker for studies with known evaluation times: it sleeps instead of compiling and simulating."""

from __future__ import annotations

import time
from collections.abc import Sequence

from vdla.codesign.explore import worker
from vdla.codesign.explore.evaluate import Figures, NetworkFigures
from vdla.codesign.explore.networks import Network
from vdla.codesign.explore.schedules.choose import Effort
from vdla.codesign.technology.components import Components
from vdla.compiler.tune.measure.worker import serve
from vdla.isa.config import Config

LEAST, MOST = 0.2, 0.6
"""Least and largest seconds of an evaluation, about as long as evaluations on ResNet-18 and MobileNet take."""


def seconds_of(machine: Config) -> float:
    """Seconds that the evaluation of a machine takes, from LEAST to MOST: pseudo-random, but always equal for the same
    machine (accelerator configuration).
    """
    return LEAST + (MOST - LEAST) * int(machine.digest[:8], 16) / 0xFFFF_FFFF


def evaluate(machine: Config, networks: Sequence[Network], components: Components, effort: Effort) -> Figures:
    """Sleeps for the machine's known evaluation time, then returns invented figures in place of an evaluation, the same
    for each of `networks` and whatever the `components` and the `effort` are.
    """
    time.sleep(seconds_of(machine))
    run = NetworkFigures(cycles=1000, roofline_cycles=1000.0, dram_bytes=1, energy={"array": 1.0})
    made_up = {network.name: run for network in networks}
    return Figures(area={"array": 1.0}, clock_mhz=float(machine.clock_mhz), networks=made_up)


if __name__ == "__main__":
    worker.evaluate = evaluate
    serve(worker.load)

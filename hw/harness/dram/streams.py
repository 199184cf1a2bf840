"""Runs streams of AXI bursts on LiteDRAM's Verilog in Verilator, or on the model of LiteDRAM's controller."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vdla.isa.dram import Controller
from vdla.isa.dram_streams import Streams

from ..toolchain import call
from .design import Design, build_with_litedram
from .model import build_with_model


def litedram_program(design: Design) -> Path:
    """The path of the program that runs streams of bursts on LiteDRAM's RTL of `design`, built once. Raises UserError
    for a missing tool.
    """
    ports = ", ".join(f"PORT(m{master})" for master in range(design.masters))
    flags = ("-O1", f"-DPORTS={ports}", '-DDEVICE="litedram_device.h"')
    return build_with_litedram(design, "streams.cpp", ".program", flags)


def model_program(numbers: Controller, masters: int) -> Path:
    """The path of the program that runs streams of bursts from `masters` AXI masters on the model of the controller
    `numbers`, built once. Raises BuildError without g++.
    """
    return build_with_model(
        numbers, "streams.cpp", ".program", ('-DDEVICE="model_device.h"',), masters=masters
    )


def run_on_litedram(
    design: Design, runs: Sequence[Streams], *, start: int = 50, limit: int = 10_000_000
) -> tuple[list[NDArray[np.int64]], list[str]]:
    """Runs each of `runs` on LiteDRAM's Verilog for `design`. Returns two lists. The first has the cycles of the bursts
    of each run, int64 (masters, n, 3), as `sim.dram_streams.run_streams` returns them. The second has the lines that
    LiteDRAM's checker of timings printed for broken rules. Cycle 0 is `start` cycles after reset; a run stops in cycle
    `limit`. Raises UserError if a tool is missing.
    """
    found, printed = _run(litedram_program(design), runs, start, limit)
    return found, [line for line in printed.splitlines() if "violation" in line]


def run_on_model(
    numbers: Controller, runs: Sequence[Streams], *, start: int = 50, limit: int = 10_000_000
) -> list[NDArray[np.int64]]:
    """Runs each of `runs`, which have equally many masters, on the model of LiteDRAM's controller with `numbers`.
    Returns for each run the cycles of its bursts, int64 (masters, n, 3), as `sim.dram_streams.run_streams` does. Cycle
    0 is `start` cycles after reset; a run stops in cycle `limit`. Raises BuildError without g++.
    """
    return _run(model_program(numbers, len(runs[0].requests)), runs, start, limit)[0]


def _run(
    program: Path, runs: Sequence[Streams], start: int, limit: int
) -> tuple[list[NDArray[np.int64]], str]:
    """Runs `runs` with `program`, the compiled streams.cpp. Returns (for each run, the cycles of its bursts, int64
    (masters, n, 3); the printed text). Cycle 0 is `start` cycles after reset; a run stops in cycle `limit`.
    """
    with tempfile.TemporaryDirectory(prefix="vdla-dram-") as folder:
        given, made = Path(folder) / "requests", Path(folder) / "times"
        with given.open("wb") as file:
            for run in runs:
                masters, count, _ = run.requests.shape
                head = np.array([masters, count, run.reads, run.writes, start, limit], np.int64)
                file.write(head.tobytes() + run.requests.tobytes() + run.stalls.tobytes())
        printed = call([str(program), str(given), str(made)])
        times = np.fromfile(made, np.int64)
    found, begin = [], 0
    for run in runs:
        shape = (*run.requests.shape[:2], 3)
        found.append(times[begin : begin + np.prod(shape)].reshape(shape))
        begin += int(np.prod(shape))
    return found, printed

"""Runs streams of AXI bursts on LiteDRAM's Verilog in Verilator."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vdla.isa.dram_streams import Streams

from ..build import COMPILE, include_flags, require_tools, verilator_runtime
from ..toolchain import TIMEOUT, call, verilator

CACHE = "dram"
"""Name of the part of the user's cache that holds the Verilog and the programs."""
PACKAGES = ("litedram", "litex", "migen")
_VERILATE = (
    *("--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "-Wno-fatal", "-Wno-lint"),
    *("-Wno-style", "--output-split", "0", "--prefix", "Vlitedram_top", "--top-module", "litedram_top"),
)
_USER = "LiteDRAM's RTL"


@dataclass(frozen=True, slots=True)
class Design:
    """A DRAM behind LiteDRAM's controller: a name in `isa.dram.PARTS`, the controller's clock in megahertz, data lines
    of all chips, speed grade ("": the fastest), number of AXI masters.
    """

    part: str
    clock_mhz: float
    width: int
    grade: str = ""
    masters: int = 1


def litedram_verilog(design: Design) -> Path:
    """The path of the Verilog of a design, generated once for each version of LiteDRAM, LiteX and Migen.

    Raises UserError if the extra `dram` is missing, or if LiteDRAM refuses the design.
    """
    versions = _versions()
    words = (design.part, f"{design.clock_mhz!r}", f"{design.width}", design.grade, f"{design.masters}")
    words = (*words, f"{WRITE_FIFO}", f"{READ_FIFO}")
    script = resources.files("vdla.hw.harness.dram") / "generate.py"
    digest = _digest(*words, *versions, script.read_text(encoding="utf-8"))

    def build(target: Path) -> None:
        command = [sys.executable, str(script), *words, str(target)]
        with tempfile.TemporaryDirectory(prefix="vdla-dram-") as folder:
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=folder, timeout=TIMEOUT, check=False
            )
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise UserError(
                f"{design.part}: LiteDRAM cannot generate a controller: {lines[-1] if lines else 'no message'}"
            )

    return cached_or_made(CACHE, f"{digest}.v", build)


def litedram_program(design: Design) -> Path:
    """The path of the program that runs streams on a design, built once. Raises UserError for a missing tool."""
    ports = ", ".join(f"PORT(m{master})" for master in range(design.masters))
    return build_with_litedram(design, "streams.cpp", ".program", ("-O1", f"-DPORTS={ports}"))


def run_on_litedram(
    design: Design, runs: Sequence[Streams], *, start: int = 50, limit: int = 10_000_000
) -> tuple[list[NDArray[np.int64]], list[str]]:
    """Runs each of `runs` on LiteDRAM's Verilog. Returns (for each run, the cycles of its bursts as
    `sim.dram_streams.run_streams` returns them; the lines that LiteDRAM's checker of timings printed for broken rules).
    `start`, `limit`: as in `run_streams`. Raises UserError if a tool is missing.
    """
    with tempfile.TemporaryDirectory(prefix="vdla-dram-") as folder:
        given, made = Path(folder) / "requests", Path(folder) / "times"
        with given.open("wb") as file:
            for run in runs:
                masters, count, _ = run.requests.shape
                head = np.array([masters, count, run.reads, run.writes, start, limit], np.int64)
                file.write(head.tobytes() + run.requests.tobytes() + run.stalls.tobytes())
        printed = call([str(litedram_program(design)), str(given), str(made)])
        times = np.fromfile(made, np.int64)
    found, begin = [], 0
    for run in runs:
        shape = (*run.requests.shape[:2], 3)
        found.append(times[begin : begin + np.prod(shape)].reshape(shape))
        begin += int(np.prod(shape))
    return found, [line for line in printed.splitlines() if "violation" in line]

"""The process in which `run_fault` runs: python -m vdla.verify.faults.worker FOLDER MACHINE PROGRAMS CAMPAIGN SECONDS.
The signal SIGXCPU ends it after SECONDS of CPU time.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from fractions import Fraction

import numpy as np

import vdla.hw
import vdla.sim
from vdla.isa.config import Config
from vdla.sim import kernels

from ..cosim.cases import case, launch
from ..cosim.compare import run_rtl, simulate_program
from ..cosim.dram import dram_machines
from ..cosim.machines import default_machines


def _fused_multiply_add(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """`kernels.fused_multiply_add` in plain Python: float32 a * b + c with one rounding, half to even."""
    if not all(np.isfinite((a, b, c))):
        return np.float32(a * b + c)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    near = np.float32(float(exact))
    around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    return min(
        around, key=lambda value: (abs(Fraction(float(value)) - exact), int(value.view(np.uint32)) & 1)
    )


def first_difference(machine: Config, programs: int, campaign: int) -> tuple[int, str] | None:
    """Runs the cases 0 to `programs` - 1 of `machine` in the campaign of seed `campaign`; returns the first on which
    simulator and RTL differ or fail, as (number, difference), or None if all agree.
    """
    for number in range(programs):
        item = case(machine, number, campaign)
        start = launch(item)
        try:
            simulated = simulate_program(item.config, start.program, start.scratchpads)
        except Exception as error:
            # A faulty simulator may raise any exception: a difference from the RTL, which runs the program.
            return number, f"the simulator stops: {type(error).__name__}: {error}"
        found = run_rtl(item.config, start, simulated).differences
        if found:
            return number, found[0]
    return None


def main() -> None:
    """Runs co-simulation and prints the verdict, JSON with `program` and `difference`, as the last line."""
    folder, name = sys.argv[1:3]
    programs, campaign, seconds = map(int, sys.argv[3:])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    machines = (*default_machines(), *dram_machines())
    machine = next(machine for machine in machines if machine.name == name)
    for package in (vdla.hw, vdla.sim):
        if not str(package.__file__).startswith(folder):
            raise SystemExit(f"{package.__file__} was imported, not the copy in {folder}")
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        kernels.fused_multiply_add = _fused_multiply_add
    found = first_difference(machine, programs, campaign)
    program, difference = found if found is not None else (None, None)
    print(json.dumps({"program": program, "difference": difference}))


if __name__ == "__main__":
    main()

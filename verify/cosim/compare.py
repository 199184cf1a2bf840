"""Runs a program on both engines (simulator and RTL) and lists the differences between their results."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.hw.harness.dram.counts import CommandCounts
from vdla.hw.harness.dram.oracle import Oracle
from vdla.hw.harness.engine import RtlError, RtlResult, simulate_rtl
from vdla.hw.harness.surroundings import PLAIN, Surroundings
from vdla.isa.config import Config
from vdla.isa.program import Program
from vdla.sim import DramCounts, SimulationError, SimulationResult, simulate

from .cases import Launch
from .places import surround

_LIMIT = 200_000_000
"""Number of cycles after which the simulator abandons a program; all cases are much shorter."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """Results of simulator and RTL on one program; None for a run that did not finish. `differences`: one line each;
    empty if the results agree.
    """

    simulated: SimulationResult | None
    rtl: RtlResult | None
    differences: tuple[str, ...]


def run_both(config: Config, start: Launch, dram: Oracle | None = None) -> Outcome:
    """Runs simulator and RTL on `start`; returns the results of both and their differences. A run that does not finish
    counts as a difference. `dram`: the memory of the RTL of a machine with a DRAM, "litedram" or "model"; None for
    LiteDRAM's RTL if it is installed and has a model of the part, else the model.
    """
    program = start.program
    try:
        simulated = simulate_program(config, program, start.scratchpads)
    except SimulationError as error:
        return Outcome(simulated=None, rtl=None, differences=(f"the simulator does not finish: {error}",))
    return run_rtl(config, start, simulated, dram)


def run_rtl(
    config: Config, start: Launch, simulated: SimulationResult, dram: Oracle | None = None
) -> Outcome:
    """Runs the RTL on `start`; returns its result with the differences from the simulator's result `simulated`. `dram`:
    as in `run_both`.
    """
    program = start.program
    try:
        words, surroundings = placed(config, start)
        run = simulate_rtl(
            config,
            words,
            program.image,
            cycle_limit=4 * simulated.cycles + 1000,
            scratchpads=start.scratchpads,
            random_state=start.random_state,
            surroundings=replace(surroundings, dram=dram),
        )
    except RtlError as error:
        return Outcome(
            simulated=simulated, rtl=None, differences=(f"{error}; the simulator ends in {simulated.cycles}",)
        )
    return Outcome(simulated=simulated, rtl=run, differences=tuple(differences(simulated, run)))


def placed(config: Config, start: Launch) -> tuple[NDArray[np.uint64], Surroundings]:
    """Returns the program's instructions, uint64 (n, words), and conditions of the RTL's run, such as memory addresses.
    If `start.place` is not None, the program is moved to other addresses, drawn with this seed.
    """
    if start.place is None:
        return start.program.instructions, PLAIN
    return surround(config, start.program, start.place)


def simulate_program(
    config: Config, program: Program, scratchpads: dict[str, NDArray[np.uint8]] | None
) -> SimulationResult:
    """Returns the simulator's result with data; `scratchpads`: contents at launch by name, None for zeros. Raises
    SimulationError if the program does not end.
    """
    return simulate(config, program.instructions, program.image, cycle_limit=_LIMIT, scratchpads=scratchpads)


def counters(simulated: SimulationResult) -> dict[str, int]:
    """The simulator's counters, named as the RTL names its counters. A missing counter is 0."""
    found = {
        f"{unit}.{name}": count
        for unit, items in simulated.units.items()
        for name, count in {**items.busy, **items.stalls}.items()
    }
    for kind, traffic in simulated.traffic.items():
        found |= {f"{kind}.bytes": traffic.bytes, f"{kind}.beats": traffic.beats}
    return found


def differences(simulated: SimulationResult, run: RtlResult) -> list[str]:
    """Differences between the results of the simulator and of the RTL (`run`), a line each: in total cycles, first and
    last cycles of instructions, counters, commands of a DRAM, registers, memory and scratchpads. For an array, the line
    gives the first index that differs.
    """
    found = []
    if simulated.cycles != run.cycles:
        found.append(f"cycles: simulator {simulated.cycles}, RTL {run.cycles}")
    for name in ("begin", "end"):
        left, right = getattr(simulated, name), getattr(run, name)
        for index in np.flatnonzero(left != right)[:1].tolist():
            found.append(f"{name} of instruction {index}: simulator {left[index]}, RTL {right[index]}")
    expected = counters(simulated)
    for name in sorted(expected.keys() | run.counters.keys()):
        left, right = expected.get(name, 0), run.counters.get(name, 0)
        if left != right:
            found.append(f"counter {name}: simulator {left}, RTL {right}")
    if simulated.dram is not None and run.dram is not None:
        found += dram_differences(simulated.dram, run.dram)
    for name, (read, right) in run.registers.items():
        if read != right:
            found.append(f"register {name}: the RTL returns {read:#x}, expected {right:#x}")
    assert simulated.memory is not None and simulated.scratchpads is not None
    for place in np.flatnonzero(simulated.memory != run.memory)[:1].tolist():
        found.append(f"memory byte {place}: simulator {simulated.memory[place]}, RTL {run.memory[place]}")
    for kind, contents in run.scratchpads.items():
        left = np.ascontiguousarray(getattr(simulated.scratchpads, kind)).view(np.uint8).reshape(-1)
        for place in np.flatnonzero(left != contents)[:1].tolist():
            found.append(f"byte {place} of {kind}: simulator {left[place]}, RTL {contents[place]}")
    return found


def dram_differences(simulated: DramCounts, run: CommandCounts) -> list[str]:
    """Differences between the simulator's counts of a DRAM and the commands that its controller sent to the part, one
    line each (hw/dram.md, section 9). Turnarounds and cycles by cause are compared if the controller's model has them.
    """
    pairs = {
        "rows opened": (simulated.opened, run.activates),
        "rows closed": (simulated.closed, run.precharges + run.auto_precharges),
        "refreshes": (simulated.refreshes, run.refreshes),
        "words": (simulated.beats, run.reads + run.writes),
    }
    if run.turnarounds is not None:
        pairs["turnarounds"] = (simulated.turnarounds, run.turnarounds)
    if run.waits is not None:
        expected = {**simulated.waits, "words": simulated.beats}
        pairs |= {f"cycles of {cause}": (expected[cause], count) for cause, count in run.waits.items()}
    return [
        f"DRAM, {name}: simulator {left}, RTL {right}"
        for name, (left, right) in pairs.items()
        if left != right
    ]

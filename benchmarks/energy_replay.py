"""Power of a whole machine's netlist: our replay compared with OpenSTA, at equal switching activities.

    python benchmarks/energy_replay.py [--machine NAME] [--seed N] [--write]

A seeded program runs on the RTL and is replayed on the netlist. OpenSTA gets all cells of the machine, with the toggles
and duty of every pin (`hw/activity/timing_tool.py`), and computes the power of every cell. --write stores the figures
in benchmarks/results/energy_replay.json.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from vdla.benchmarks.harness.command_line import SEED, WRITE, Given, Option, run_script
from vdla.benchmarks.harness.energy_rows import Replayed, machines, prepare
from vdla.benchmarks.harness.results import write_results
from vdla.hw.activity.power import electrical, energy_of
from vdla.hw.activity.timing_tool import as_the_tool_counts, part_of, tool_power
from vdla.verify.energy_programs import energy_program

OPTIONS = (
    Option("--machine", "a machine of the energy model", choices=list(machines()), default="tiny"),
    SEED,
    WRITE,
)


def main(options: Given) -> None:
    machine = prepare(machines()[options.machine], lambda text: print(text, flush=True))
    figures = {"machine": options.machine, "seed": options.seed, **compared(machine, options.seed)}
    print(json.dumps(figures, indent=2))
    if options.write:
        write_results("energy_replay", figures)


def compared(machine: Replayed, seed: int) -> dict[str, Any]:
    """Computes the energy of one program on the netlist of `machine` by three methods, in picojoules per cycle. The
    first method is the tool OpenSTA. The second applies OpenSTA's rules to our own loads, slews and tables. The third
    is our replay. Returns the energies and the relative differences by name. `seed`: seed of the program.

    Two differences between OpenSTA and our replay are removed before the comparison. First, this version of OpenSTA
    adds the energies of a rise and a fall for each change of a signal, while newer versions take their mean; therefore
    the energy that OpenSTA finds inside cells is halved. Second, OpenSTA ignores the load of clock pins on nets that no
    cell drives; therefore our energy leaves out the load of clock pins, too.
    """
    activity = machine.replay(energy_program(machine.config, seed))
    cells = np.arange(len(machine.netlist.kind))
    part, own = part_of(machine.netlist, cells, machine.library)
    state = electrical(part, machine.library)
    tool = tool_power(part, machine.library, activity)
    same = as_the_tool_counts(part, machine.library, state, activity)
    ours = energy_of(part, machine.library, state, activity)
    registers = [machine.library.cells[kind].register for kind in part.kinds]
    loads = np.array(
        [
            max(machine.library.cells[kind].capacitances[register.clock]) if register else 0.0
            for kind, register in zip(part.kinds, registers, strict=True)
        ]
    )[part.kind]
    clock_loads = loads * machine.library.volts**2
    clocks = ours.clock[own].sum() / activity.cycles - clock_loads[own].sum()
    inside = ours.internal[own].sum() / activity.cycles + clocks
    moved = ours.switching[own].sum() / activity.cycles
    by_tool = [float(tool.internal[own].sum()), float(tool.switching[own].sum())]
    by_rules = [float(same.internal[own].sum()), float(same.switching[own].sum())]
    return {
        "cells": int(own.sum()),
        "cycles": activity.cycles,
        "pj_a_cycle": {
            "tool": _split(by_tool),
            "tool, rise and fall averaged": _split([by_tool[0] / 2, by_tool[1]]),
            "its rules on our tables": _split(by_rules),
            "ours": _split([float(inside), float(moved)]),
        },
        "error_same_rules": round(abs(sum(by_rules) / sum(by_tool) - 1), 7),
        "error": round(abs((inside + moved) / (by_tool[0] / 2 + by_tool[1]) - 1), 5),
        # The energy of clock pins inside flip-flops, the largest part, is the same by all methods.
        "error_without_clock_pins": round(
            abs((inside + moved - clocks) / (by_tool[0] / 2 + by_tool[1] - clocks) - 1), 5
        ),
        "error_of_switching": round(abs(moved / by_tool[1] - 1), 7),
    }


def _split(values: list[float]) -> dict[str, float]:
    return {"inside cells": round(values[0], 3), "nets": round(values[1], 3)}


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

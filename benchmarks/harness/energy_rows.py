"""Programs replayed on the netlists of small machines: energy by unit beside the simulator's events."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from vdla.codesign.technology.events import count_events
from vdla.hw.activity.liberty import Library, read_library
from vdla.hw.activity.netlist import Netlist, flatten
from vdla.hw.activity.power import Electrical, by_unit, electrical, energy_of
from vdla.hw.activity.simulate import Activity, Simulation
from vdla.hw.activity.timing_tool import as_the_tool_counts, part_of, tool_power
from vdla.hw.harness.engine import Machine
from vdla.hw.synthesis.cells.design import map_design
from vdla.hw.synthesis.cells.libraries import find_library
from vdla.isa.config import Config, load_config
from vdla.isa.program import Program
from vdla.sim import simulate
from vdla.sim.statistics import operand_statistics
from vdla.verify.energy_programs import energy_program

HELD_OUT = range(1000, 1005)
"""Seeds of the programs of every machine that nothing is fitted on."""

_RESET_CYCLES = 4


def machines() -> dict[str, Config]:
    """The machines whose netlists are replayed: `tiny`, a wide and a larger array, and a batch of two."""
    tiny = load_config("tiny")

    def change(name: str, **fields: Any) -> Config:
        return dataclasses.replace(tiny, name=name, **fields)

    return {
        "tiny": tiny,
        "4x8": change(
            "4x8", block_out=8, extensions=("post", "patch"), wgt_buffer_bytes=16384, acc_buffer_bytes=32768,
            post_lanes=4,
        ),
        "8x8": change(
            "8x8", block_in=8, block_out=8, inp_buffer_bytes=8192, wgt_buffer_bytes=32768, acc_buffer_bytes=32768,
            post_lanes=4,
        ),
        "4x4 batch 2": change(
            "4x4 batch 2", batch=2, inp_buffer_bytes=8192, acc_buffer_bytes=32768, post_lanes=4, acc_banks=4,
            extensions=("post",),
        ),
    }  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replayed:
    """A machine's netlist, ready for programs."""

    config: Config
    library: Library
    netlist: Netlist
    state: Electrical

    def replay(self, program: Program) -> Activity:
        """The activity of a program from reset on; the netlist must do what the RTL does, or MismatchError."""
        with Machine(self.config) as machine:
            machine.watch_ports()
            machine.reset()
            machine.run(program.instructions, program.image)
            ports = machine.watched_ports()
        # Behind the end registers are read over the control bus, which is no part of the program.
        until = int(np.flatnonzero(ports["running"][:, 0])[-1]) + 1
        ports = {name: rows[:until] for name, rows in ports.items()}
        return Simulation(self.netlist).run(ports, unchecked=_RESET_CYCLES)


def prepare(config: Config, report: Callable[[str], None]) -> Replayed:
    """The netlist of a machine, mapped to the default library."""
    liberty = find_library()
    library = read_library(liberty.path)
    netlist = flatten(map_design(config, liberty, report=report), library)
    return Replayed(config=config, library=library, netlist=netlist, state=electrical(netlist, library))


def row_of(machine: Replayed, seed: int) -> dict[str, Any]:
    """One program: its events, operand statistics, and picojoules by unit."""
    config = machine.config
    program = energy_program(config, seed)
    simulation = simulate(config, program.instructions, program.image, data=False)
    statistics = operand_statistics(config, program.instructions, program.image)
    activity = machine.replay(program)
    energy = energy_of(machine.netlist, machine.library, machine.state, activity)
    units = by_unit(machine.netlist, machine.library, energy)
    memories = machine.netlist.memories
    return {
        "machine": config.name,
        "seed": seed,
        "cycles_replayed": activity.cycles,
        "events": dataclasses.asdict(count_events(program, simulation)),
        "changes": {name: round(value) for name, value in statistics.changes.items()},
        "picojoules": {
            unit: [round(one.switching, 1), round(one.internal, 1), round(one.clock, 1)]
            for unit, one in units.items()
        },
        "memories": {
            memory.path: [int(activity.reads[i]), int(activity.writes[i])]
            for i, memory in enumerate(memories)
        },
    }


def machine_facts(machine: Replayed) -> dict[str, Any]:
    """What does not depend on programs: cells, flip-flops and leakage by unit."""
    netlist, library = machine.netlist, machine.library
    registers = np.array([library.cells[kind].register is not None for kind in netlist.kinds])[netlist.kind]
    leakage = np.array([library.cells[kind].leakage for kind in netlist.kinds])[netlist.kind]
    return {
        "cells": len(netlist.kind),
        "units": {
            unit: {
                "cells": int((netlist.unit == i).sum()),
                "registers": int(registers[netlist.unit == i].sum()),
                "leakage_nw": round(float(leakage[netlist.unit == i].sum()), 3),
            }
            for i, unit in enumerate(netlist.units)
        },
    }


def beside_the_tool(machine: Replayed, seed: int) -> Iterator[dict[str, Any]]:
    """Power of every unit by OpenSTA and by us at equal activities, picojoules a cycle."""
    activity = machine.replay(energy_program(machine.config, seed))
    for i, unit in enumerate(machine.netlist.units):
        cells = np.flatnonzero(machine.netlist.unit == i)
        if not len(cells):
            continue
        part, own = part_of(machine.netlist, cells, machine.library)
        state = electrical(part, machine.library)
        tool = tool_power(part, machine.library, activity)
        same = as_the_tool_counts(part, machine.library, state, activity)
        ours = energy_of(part, machine.library, state, activity)
        yield {
            "unit": unit,
            "cells": len(cells),
            "tool": [float(tool.internal[own].sum()), float(tool.switching[own].sum())],
            "same_rules": [float(same.internal[own].sum()), float(same.switching[own].sum())],
            "ours": [
                float(ours.internal[own].sum()) / activity.cycles,
                float(ours.switching[own].sum()) / activity.cycles,
                float(ours.clock[own].sum()) / activity.cycles,
            ],
        }

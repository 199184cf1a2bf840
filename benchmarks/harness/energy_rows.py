"""Programs replayed on the netlists of small machines: energy by unit beside the simulator's events."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.codesign.technology.event_features import GROUPS, part_of_path
from vdla.codesign.technology.events import count_events
from vdla.hw.activity.liberty import Library, read_library
from vdla.hw.activity.netlist import Netlist, flatten
from vdla.hw.activity.power import Electrical, electrical, energy_of
from vdla.hw.activity.simulate import Activity, Simulation
from vdla.hw.harness.engine import Machine
from vdla.hw.synthesis.cells.design import map_design
from vdla.hw.synthesis.cells.libraries import find_library
from vdla.isa.config import Config, load_config
from vdla.isa.program import Program
from vdla.sim import simulate
from vdla.sim.statistics import operand_statistics
from vdla.verify.energy_programs import energy_program

HELD_OUT = range(5000, 5015)
"""Seeds of the programs of every machine that nothing is fitted on, and by which no feature was chosen: as many of them
random as of those that are fitted on."""
VALIDATION = range(2000, 2006)
"""Seeds of programs by which features were chosen; then the coefficients are fitted on these as well."""

_RESET_CYCLES = 4


def machines() -> dict[str, Config]:
    """The machines whose netlists are replayed: `tiny`, a wide, a larger and a folding array, and a batch of two."""
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
        "8x4 folding": change(
            "8x4 folding", block_in=8, block_out=8, folds=2, inp_buffer_bytes=8192, wgt_buffer_bytes=16384,
            acc_buffer_bytes=32768, post_lanes=4, extensions=(*tiny.extensions, "fold"),
        ),
    }  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replayed:
    """A machine's netlist, ready for programs."""

    config: Config
    library: Library
    netlist: Netlist
    state: Electrical
    parts: tuple[NDArray[np.intp], tuple[str, ...]]
    """The place of every cell's part in the names behind."""

    def replay(self, program: Program) -> Activity:
        """The activity of a program while it runs; the netlist must do what the RTL does, or MismatchError."""
        with Machine(self.config) as machine:
            machine.watch_ports()
            machine.reset()
            machine.run(program.instructions, program.image)
            ports = machine.watched_ports()
        # Before it runs and behind its end registers are set and read over the control bus; and at power-up every net
        # comes from nowhere. None of it is the program's.
        runs = np.flatnonzero(ports["running"][:, 0])
        start, stop = int(runs[0]), int(runs[-1]) + 1
        simulation = Simulation(self.netlist)
        simulation.run({name: rows[:start] for name, rows in ports.items()}, unchecked=_RESET_CYCLES)
        return simulation.run({name: rows[start:stop] for name, rows in ports.items()})


def prepare(config: Config, report: Callable[[str], None]) -> Replayed:
    """The netlist of a machine, mapped to the default library."""
    liberty = find_library()
    library = read_library(liberty.path)
    netlist = flatten(map_design(config, liberty, report=report), library)
    paths = [name.rpartition(".")[0] for name in netlist.names]
    names = tuple(GROUPS)
    part_of = {path: names.index(part_of_path(path)) for path in set(paths)}
    return Replayed(
        config=config, library=library, netlist=netlist, state=electrical(netlist, library),
        parts=(np.array([part_of[path] for path in paths], np.intp), names),
    )  # fmt: skip


def row_of(machine: Replayed, seed: int) -> dict[str, Any]:
    """One program: its events, bits that change, and picojoules by part of the machine: [data, clock pins]."""
    config, netlist = machine.config, machine.netlist
    program = energy_program(config, seed)
    activity = machine.replay(program)
    energy = energy_of(netlist, machine.library, machine.state, activity)
    parts = {name: [0.0, 0.0] for name in GROUPS}
    of_cells, names = machine.parts
    for column, values in enumerate((energy.switching + energy.internal, energy.clock)):
        for name, value in zip(
            names, np.bincount(of_cells, weights=values, minlength=len(names)), strict=True
        ):
            parts[name][column] += float(value)
    for memory, value in zip(netlist.memories, energy.memory_outputs, strict=True):
        parts[part_of_path(memory.path)][0] += float(value)
    return {
        "machine": config.name,
        "seed": seed,
        **counted(program),
        "picojoules": {name: [round(value, 1) for value in own] for name, own in parts.items()},
    }


def counted(program: Program) -> dict[str, Any]:
    """Events and bits that change of a program, as a row has them."""
    config = program.config
    simulation = simulate(config, program.instructions, program.image, data=False)
    statistics = operand_statistics(config, program.instructions, program.image)
    return {
        "events": dataclasses.asdict(count_events(program, simulation)),
        "changes": {name: round(value) for name, value in statistics.changes.items()},
    }


def machine_facts(machine: Replayed) -> dict[str, Any]:
    """What does not depend on programs: cells, flip-flops, square micrometres and leakage by part."""
    netlist, library = machine.netlist, machine.library
    cells = [library.cells[kind] for kind in netlist.kinds]
    of_cells, names = machine.parts

    def sums(values: list[float]) -> list[float]:
        weights = np.array(values)[netlist.kind]
        return np.bincount(of_cells, weights=weights, minlength=len(names)).tolist()

    columns = zip(
        names,
        sums([1.0 for _ in cells]),
        sums([float(cell.register is not None) for cell in cells]),
        sums([cell.area for cell in cells]),
        sums([cell.leakage for cell in cells]),
        strict=True,
    )
    return {
        name: {
            "cells": int(count),
            "registers": int(registers),
            "um2": round(area),
            "leakage_nw": round(nanowatts, 1),
        }
        for name, count, registers, area, nanowatts in columns
    }

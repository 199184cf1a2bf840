"""Replays programs on the netlists of small machines, and makes the rows of results: energy by unit, together with the
simulator's numbers of events.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.benchmarks.harness.quantized import TAPS_EXTENSIONS
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

FITTED = range(60)
"""Seeds of the programs that run on every machine of `fitted_machines`; features are chosen with these programs, and
the model is fitted to them.
"""
RESERVED = range(6000, 6005)
"""Seeds of the programs of every machine of `judged_machines`, used for evaluation only: no program of these machines
is used for a fit or for choosing features. Seeds 5000 to 5004 were used when the form of the interval was chosen.
"""

_RESET_CYCLES = 4
_DEFAULT = ("post", "patch", "depthwise")


def _changed(name: str, bus_bytes: int = 8, **fields: Any) -> Config:
    tiny = load_config("tiny")
    return dataclasses.replace(
        tiny, name=name, memory=dataclasses.replace(tiny.memory, bus_bytes=bus_bytes), **fields
    )


def fitted_machines() -> dict[str, Config]:
    """Machines (accelerator configurations, by name) for the fit of the energy model: programs are replayed on these
    machines, and the model is fitted to the replays. They are `tiny`, and machines with a wide array, a larger array,
    the extension `fold`, a batch of two, and buses of 16 and 32 bytes. Every extension is in some machine.
    """
    found = (
        load_config("tiny"),
        _changed(
            "4x8", block_out=8, extensions=("post", "patch"), wgt_buffer_bytes=16384, acc_buffer_bytes=32768,
            post_lanes=4,
        ),
        _changed(
            "8x8", block_in=8, block_out=8, inp_buffer_bytes=8192, wgt_buffer_bytes=32768, acc_buffer_bytes=32768,
            post_lanes=4,
        ),
        _changed(
            "4x4 batch 2", batch=2, inp_buffer_bytes=8192, acc_buffer_bytes=32768, post_lanes=4, acc_banks=4,
            extensions=("post",),
        ),
        _changed(
            "8x4 folding", block_in=8, block_out=8, folds=2, inp_buffer_bytes=8192, wgt_buffer_bytes=16384,
            acc_buffer_bytes=32768, post_lanes=4, extensions=(*_DEFAULT, "fold"),
        ),
        _changed(
            "4x4 bus 16", 16, extensions=(*_DEFAULT, "zero_points", "table", "broadcast"), post_lanes=2,
        ),
        _changed(
            "8x4 bus 32 rows", 32, block_in=8, inp_buffer_bytes=8192, wgt_buffer_bytes=16384,
            extensions=("post", "patch", "subtract", "table", "rows"),
        ),
        _changed(
            "8x8 bus 16 taps", 16, block_in=8, block_out=8, inp_buffer_bytes=8192, wgt_buffer_bytes=32768,
            acc_buffer_bytes=32768, post_lanes=4, chain_buffer_bytes=4096,
            extensions=(*_DEFAULT, *TAPS_EXTENSIONS),
        ),
    )  # fmt: skip
    return {config.name: config for config in found}


def judged_machines() -> dict[str, Config]:
    """Machines (accelerator configurations, by name) on which the energy model is evaluated. They have other arrays
    (including 16x16) and other buffers than the machines of the fit, and buses of 8, 16 and 32 bytes. Every extension
    is in some machine.
    """
    found = (
        _changed(
            "16x4 bus 16", 16, block_in=16, uop_buffer_bytes=2816, inp_buffer_bytes=5584, wgt_buffer_bytes=11456,
            acc_buffer_bytes=6960, extensions=("post", "patch"),
        ),
        _changed(
            "16x16", block_in=16, block_out=16, inp_buffer_bytes=8192, wgt_buffer_bytes=65536, acc_buffer_bytes=65536,
            post_lanes=4,
        ),
        _changed(
            "4x4 bus 32 rows", 32, extensions=(*_DEFAULT, "zero_points", "table", "broadcast", "rows"),
        ),
        _changed(
            "8x8 taps", block_in=8, block_out=8, wgt_buffer_bytes=16384, acc_buffer_bytes=16384, post_lanes=2,
            chain_buffer_bytes=8192, extensions=(*_DEFAULT, *TAPS_EXTENSIONS, "zero_points"),
        ),
        _changed(
            "16x8 bus 16 folding", 16, block_in=16, block_out=16, folds=2, inp_buffer_bytes=8192,
            wgt_buffer_bytes=32768, acc_buffer_bytes=65536, post_lanes=4, extensions=(*_DEFAULT, "taps", "fold"),
        ),
        _changed(
            "4x8 bus 32 batch 2", 32, batch=2, block_out=8, inp_buffer_bytes=8192, wgt_buffer_bytes=16384,
            acc_buffer_bytes=65536, acc_banks=4, post_lanes=4, multiplier_stages=2,
            extensions=("post", "subtract", "table", "broadcast"),
        ),
    )  # fmt: skip
    return {config.name: config for config in found}


def machines() -> dict[str, Config]:
    """All machines (accelerator configurations) on which the energy model is fitted or evaluated, by name."""
    return fitted_machines() | judged_machines()


def is_reserved(row: Mapping[str, Any]) -> bool:
    """Whether a row (replay of one program on one machine) is reserved for evaluation, because its machine or its
    program is.
    """
    return row["machine"] in judged_machines() or row["seed"] not in FITTED


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replayed:
    """The netlist of the machine `config` in standard cells of `library`, ready to replay recorded programs. `state`:
    the loads and slews of its nets.
    """

    config: Config
    library: Library
    netlist: Netlist
    state: Electrical
    parts: tuple[NDArray[np.intp], tuple[str, ...]]
    """For each cell, the index of the part to which the cell belongs; and the names of the parts."""

    def replay(self, program: Program) -> Activity:
        """Runs `program` on the RTL and returns the switching activity of the netlist from the run's first cycle to its
        last one; raises MismatchError if the netlist's outputs differ from the RTL's.
        """
        with Machine(self.config) as machine:
            machine.watch_ports()
            machine.reset()
            machine.run(program.instructions, program.image)
            ports = machine.watched_ports()
        # Before the run and after its end, registers are set and read over the control bus, and at power-up every net
        # changes; none of these changes belongs to the program.
        runs = np.flatnonzero(ports["running"][:, 0])
        start, stop = int(runs[0]), int(runs[-1]) + 1
        simulation = Simulation(self.netlist)
        simulation.run({name: rows[:start] for name, rows in ports.items()}, unchecked=_RESET_CYCLES)
        return simulation.run({name: rows[start:stop] for name, rows in ports.items()})


def prepare(config: Config, report: Callable[[str], None]) -> Replayed:
    """The netlist of the machine `config`, mapped to the default library, ready to replay programs. `report` is called
    with lines that tell the progress.
    """
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
    """Replays the program with the seed `seed` on `machine`; returns its row, a JSON object.

    The row has the program's events, the numbers of changing bits, and picojoules by part of the machine ([data, clock
    pins]). For each module and size of memory, it also has the numbers of reads and of writes of all memories of this
    size in the module.
    """
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
    memories: dict[str, list[float]] = {}
    for memory, value, reads, writes in zip(
        netlist.memories, energy.memory_outputs, activity.reads, activity.writes, strict=True
    ):
        parts[part_of_path(memory.path)][0] += float(value)
        accesses = memories.setdefault(
            f"{module_of_memory(memory.path)} {memory.words}x{memory.width}", [0, 0.0]
        )
        accesses[0] += int(reads)
        accesses[1] = round(accesses[1] + float(writes), 3)
    return {
        "machine": config.name,
        "seed": seed,
        **counted(program),
        "picojoules": {name: [round(value, 1) for value in own] for name, own in parts.items()},
        "memories": memories,
    }


def module_of_memory(path: str) -> str:
    """The instance that contains the memory at path `path` of the netlist (for example "load$346.patches.window_0"),
    without numbers.
    """
    return re.sub(r"\$\d+|_\d+(?=\.|$)", "", path).rpartition(".")[0]


def counted(program: Program) -> dict[str, Any]:
    """The simulator's events and the numbers of changing operand bits of a program, by the names that a row of replays
    has.
    """
    config = program.config
    simulation = simulate(config, program.instructions, program.image, data=False)
    statistics = operand_statistics(config, program.instructions, program.image)
    return {
        "events": dataclasses.asdict(count_events(program, simulation)),
        "changes": {name: round(value) for name, value in statistics.changes.items()},
    }


def machine_facts(machine: Replayed) -> dict[str, Any]:
    """Facts about a machine that do not depend on programs: cells, flip-flops, square micrometres and leakage
    by part.
    """
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

"""Co-simulation of machines whose memory is a DRAM: the simulator against our RTL on LiteDRAM's RTL, and on the model
of LiteDRAM's controller in C++.

The machines are default machines of co-simulation (`machines.py`) with parts of every generation of DRAM as memory.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from vdla.hw.harness.dram.checker import broken_rules
from vdla.hw.harness.dram.oracle import Oracle
from vdla.hw.harness.engine import prepare_library
from vdla.isa.config import Config, Memory

from .cases import Case, case, launch
from .compare import run_rtl, simulate_program
from .machines import FOUR_FOLDS, default_machines

ORACLES: tuple[Oracle, ...] = ("litedram", "model")
"""The oracles that co-simulation compares with the simulator and with each other, unless others are given."""

SMALL = "tiny"
"""Name of the machine with which `DRAMS` begins: its RTL is quick to build and to run."""

DRAMS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    (SMALL, 100, {"part": "MT41K256M8"}),
    (SMALL, 100, {"part": "MT48LC4M16", "width": 64}),
    (SMALL, 100, {"part": "MT47H64M16", "refresh": False}),
    (SMALL, 100, {"part": "MT40A1G8", "bank_bytes": 1 << 14}),
    (SMALL, 200, {"part": "MT41K256M8"}),
    (SMALL, 133, {"part": "IS42S16160", "width": 64}),
    ("4x4 without extensions, smallest queues", 100, {"part": "MT41K128M16", "grade": "800"}),
    ("4x4 without extensions, smallest queues", 100, {"part": "MT47H64M16", "width": 32}),
    ("4x4, batch 2, post and patch", 100, {"part": "MT47H128M8", "width": 16, "bank_bytes": 1 << 15}),
    ("4x8, 256-bit bus, patch", 100, {"part": "MT41K64M16", "width": 32, "grade": "1066"}),
    ("8x8, 256-bit bus, depthwise", 100, {"part": "MT47H64M16", "width": 64}),
    ("8x8, batch 2, post and depthwise", 100, {"part": "MT41K256M16", "refresh": False}),
    ("edge8", 250, {"part": "MT40A1G8"}),
    ("8x16, batch 2, post and patch", 125, {"part": "MT41K256M8"}),
    ("16x16, small buffers", 100, {"part": "W9825G6KH6", "width": 64}),
    ("4x4, 64-bit micro-ops, 256-bit instructions", 166, {"part": "MT48LC16M16", "width": 64}),
    ("4x4, 256-bit instructions, 512-bit bus", 100, {"part": "MT41K64M16", "width": 64}),
    ("4x4, batch 8, odd depths", 200, {"part": "MT40A256M16"}),
    ("4x128, 64-bit bus", 100, {"part": "MT41K256M8", "bank_bytes": 1 << 16}),
    ("128x4, 256-bit bus", 250, {"part": "MT40A256M16", "width": 32}),
    ("4x4, batch 2, chain memory", 100, {"part": "MT48LC4M16", "width": 128}),
    ("8x32, chain memory", 150, {"part": "MT47H64M16"}),
    ("32x8, chain memory", 100, {"part": "MT48LC16M16", "width": 256, "bank_bytes": 1 << 16}),
    ("4x4, batch 2, look-up tables", 125, {"part": "MT41K256M8", "refresh": False}),
    ("4x4, rows in two passes", 100, {"part": "MT41K512M16"}),
    (FOUR_FOLDS, 100, {"part": "MT41K128M16"}),
    ("8x8, 2 folds, odd depths, zero points", 100, {"part": "MT41K128M16", "width": 32}),
    ("8x8, 2 folds, every extension and chain memory", 200, {"part": "MT40A512M16", "bank_bytes": 1 << 18}),
    (SMALL, 100, {"part": "MT41K256M8", "channels": 2}),
    (SMALL, 100, {"part": "MT48LC4M16", "width": 64, "channels": 2, "channel_bytes": 1 << 13}),
    ("4x4 without extensions, smallest queues", 100, {"part": "MT48LC4M16", "width": 128, "channels": 4}),
    ("8x8, batch 2, post and depthwise", 100, {"part": "MT41K64M16", "channels": 2, "refresh": False}),
    ("8x8, 256-bit bus, depthwise", 100, {"part": "MT48LC4M16", "width": 256, "channels": 2}),
    (FOUR_FOLDS, 100, {"part": "MT41K64M16", "channels": 4}),
)
"""Machines with a DRAM, as (name of a default machine, clock in megahertz, fields of the memory).

The width (data lines) of the DRAM is chosen so that the part transfers exactly one bus word of the machine in each
clock. The clocks are chosen so that the period of DDR3 and DDR4 parts is a whole number of picoseconds, because
LiteDRAM's checker of timings rounds periods to picoseconds (hw/dram.md, section 6).
"""


def with_dram(machine: Config, clock_mhz: int, **fields: Any) -> Config:
    """`machine` with the clock `clock_mhz`, and with a DRAM as its memory. `fields`: fields of `isa.config.Memory` that
    describe the DRAM.

    The bus width, the numbers of outstanding bursts and the FIFO sizes stay the same. The clock and the fields are
    appended to the machine's name.
    """
    before = machine.memory
    memory = Memory(
        kind="dram",
        bus_bytes=before.bus_bytes,
        outstanding_reads=before.outstanding_reads,
        outstanding_writes=before.outstanding_writes,
        **fields,
    )
    listing = ", ".join(str(value) if name == "part" else f"{name} {value}" for name, value in fields.items())
    name = f"{machine.name}, {clock_mhz} MHz, {listing}"
    return dataclasses.replace(machine, name=name, clock_mhz=clock_mhz).with_memory(memory)


def dram_machines() -> tuple[Config, ...]:
    """The machines of `DRAMS`, in their order."""
    known = {machine.name: machine for machine in default_machines()}
    return tuple(with_dram(known[name], clock_mhz, **fields) for name, clock_mhz, fields in DRAMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDram:
    """Result of co-simulating `programs` random programs on one `machine`. `cycles`: their total in the simulator.
    `differences`: pairs of a case and a line. For each case and oracle on which simulator and RTL differ, the line has
    the oracle's name and the first difference. A further pair says that in a case the oracles' commands differ.
    `broken`: lines in which LiteDRAM's timing checker reports a broken rule. `seconds`: for each oracle, the time of
    all runs of the RTL on it.
    """

    machine: Config
    programs: int
    cycles: int
    differences: tuple[tuple[Case, str], ...]
    broken: tuple[str, ...]
    seconds: dict[Oracle, float]


def run_on_dram(
    machine: Config, programs: int, campaign: int = 0, oracles: Sequence[Oracle] = ORACLES
) -> OnDram:
    """Runs the cases 0 to `programs` - 1 of `machine` in the campaign of seed `campaign` (`cases.py`) on the simulator,
    and on the RTL with each of `oracles` as memory. Returns, as `differences`, all results that do not equal the
    simulator's, and all cases in which the oracles did not send equal commands to the part in equal cycles. Builds
    missing libraries. Raises BuildError or UserError for a missing tool or package.
    """
    prepare_library(machine)
    cycles, differences, seconds = 0, [], dict.fromkeys(oracles, 0.0)
    with broken_rules() as broken:
        for number in range(programs):
            item = case(machine, number, campaign)
            start = launch(item)
            simulated = simulate_program(item.config, start.program, start.scratchpads)
            cycles += simulated.cycles
            digests = set()
            for oracle in oracles:
                begin = time.perf_counter()
                outcome = run_rtl(item.config, start, simulated, oracle)
                seconds[oracle] += time.perf_counter() - begin
                differences += [(item, f"{oracle}: {line}") for line in outcome.differences[:1]]
                if outcome.rtl is not None and outcome.rtl.dram is not None:
                    digests.add(outcome.rtl.dram.digest)
            if len(digests) > 1:
                differences.append((item, f"{' and '.join(oracles)} send different commands to the part"))
    return OnDram(
        machine=machine,
        programs=programs,
        cycles=cycles,
        differences=tuple(differences),
        broken=tuple(broken),
        seconds=seconds,
    )


def run_machines(
    machines: Sequence[Config],
    programs: Sequence[int],
    campaign: int,
    *,
    jobs: int,
    oracles: Sequence[Oracle] = ORACLES,
) -> Iterator[OnDram]:
    """Co-simulates several machines (`run_on_dram`), `jobs` of them at a time; yields each result as it comes.
    `programs`: for each machine, its number of programs. `campaign`, `oracles`: as in `run_on_dram`.

    Each machine has a process of its own, since the RTL of a large part takes a gigabyte of memory until its process
    ends.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        runs = [
            pool.submit(run_on_dram, machine, count, campaign, oracles)
            for machine, count in zip(machines, programs, strict=True)
        ]
        for run in as_completed(runs):
            yield run.result()


def known_rule(line: str) -> bool:
    """Whether a line of LiteDRAM's checker of timings names the one rule that LiteDRAM's controller itself breaks: it
    precharges all banks for a refresh without regard to the time since ACTIVATE (hw/dram.md, section 6).
    """
    return "ACT->PRE violation" in line

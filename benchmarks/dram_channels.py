"""Networks behind one, two and four channels of DDR3-800, and behind twice the data lines.

    python benchmarks/dram_channels.py [NAME ...] [--json] [--write]

The machines have the array and buffers of `vta` (16x16, 100 MHz); language models need extensions
(benchmarks/dram_networks.py). A channel is a DDR3 chip with 8 data lines (MT41K256M8, 8 bytes a cycle). For each
network, the row has the cycles of the programs that the compiler makes for 1, 2 and 4 channels (`cycles`), for a fixed
memory with the same bus (`fixed`), and for one channel with 16 data lines and a bus of 16 bytes (`wide`). One channel
takes more cycles than the fixed memory; `hidden` is the share of these additional cycles that two channels save.
`pieces` has the cycles with two channels by the number of consecutive bytes in a channel, 4 KiB to 64 KiB. All cycles
are exact. The row also has the processor seconds of a timing simulation with two channels. With `--write` the figures
go to benchmarks/results/dram_channels.json.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from vdla.benchmarks.dram_networks import NETWORKS
from vdla.benchmarks.dram_placement import machine, timed
from vdla.benchmarks.harness.command_line import OUTPUT, Given, names_of, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.quantized import vta_with
from vdla.compiler.pipeline import compile_program
from vdla.isa.config import Config

CHANNELS = (1, 2, 4)
PIECES = (4096, 8192, 16384, 65536)
SHOWN = ("mlp", "gpt2_decode", "mobilenet", "mobilenet_v2", "resnet18")
"""The networks that run without a name on the command line."""


def _pieces(config: Config, size: int) -> Config:
    """The machine `config` with `size` consecutive bytes in one DRAM channel before the next channel."""
    return config.with_memory(replace(config.memory, channel_bytes=size))


def measure(name: str) -> dict[str, Any]:
    """The figures, by name, of the network `name` of NETWORKS."""
    network = NETWORKS[name]
    model, _ = network.model()
    machines = {
        **{f"{count}": machine(network.extensions, 8, channels=count) for count in CHANNELS},
        "fixed": vta_with(network.extensions),
        "wide": machine(network.extensions, 16),
    }
    programs = {key: compile_program(model, config, data=False).program for key, config in machines.items()}
    cycles = {key: timed(machines[key], program).cycles for key, program in programs.items()}
    pieces = {size: timed(_pieces(machines["2"], size), programs["2"]).cycles for size in PIECES}
    began = time.process_time()
    timed(machines["2"], programs["2"])
    seconds = time.process_time() - began
    return {
        "name": name,
        "cycles": {str(count): cycles[f"{count}"] for count in CHANNELS},
        "fixed": cycles["fixed"],
        "wide": cycles["wide"],
        "hidden": round((cycles["1"] - cycles["2"]) / (cycles["1"] - cycles["fixed"]), 3),
        "pieces": {str(size): count for size, count in pieces.items()},
        "seconds": round(seconds, 2),
    }


def line(row: dict[str, Any]) -> str:
    """A row of results as a line of text."""
    channels = ", ".join(f"{count:,} with {number}" for number, count in row["cycles"].items())
    pieces = ", ".join(f"{int(size) // 1024} KiB {count:,}" for size, count in row["pieces"].items())
    return (
        f"{row['name']:12}{channels} channels; fixed memory {row['fixed']:,}, 16 data lines {row['wide']:,}; two "
        f"channels hide {row['hidden']:.0%}; pieces: {pieces} ({row['seconds']} s)"
    )


OPTIONS = (names_of(NETWORKS, "network"), *OUTPUT)


def main(options: Given) -> None:
    rows = measure_all(options.names or SHOWN, measure, line, quiet=options.json)
    finish(options, "dram_channels", {"clock_mhz": vta_with().clock_mhz, "rows": rows})


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

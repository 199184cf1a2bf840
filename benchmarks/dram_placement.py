"""Networks on DDR3-800: cycles with programs for a fixed memory, and with programs that are placed for the DRAM.

    python benchmarks/dram_placement.py [NAME ...] [--json] [--write]

The machines have the array and buffers of `vta` (16x16, 100 MHz) behind one DDR3 chip with 8 data lines (MT41K256M8, 8
bytes a cycle) or 16 (MT41K128M16, 16 bytes); language models need extensions (benchmarks/dram_networks.py). There is a
row for each network and chip. `before` are the cycles of the program that the compiler would make for a fixed memory,
with consecutive rows in different banks; `mapped` are its cycles with the default mapping. `cycles` are the cycles of
the program that the compiler makes for the DRAM, and `fewer` is the share of `before` that this program saves.
`utilization` is the roofline at the part's peak divided by the cycles. `bus_share` is about the layers that the bus
limits: the bytes that they move, divided by the bytes that the part could move in their cycles at its peak (None: there
are no such layers). `least_cycles` is the time of all bus words in one uninterrupted stream, with the changes of rows
and the refreshes of that stream. The row also has the counts of the DRAM before and after, and the seconds of the
compilation.

Bounds for the same words in the best order: `bound_cycles` is the sum of the least cycles of all layers. A layer's
least cycles are the largest of three numbers: `least_cycles` of the layer's words, the operations of the array, and the
cycles in which the store unit reads the layer's outputs. With `bound_cycles`, `bound_fewer` would be the share of
`before` that is saved, and `bound_share` would be the `bus_share`. A layer may beat its own bound, because its loads
may run during the layer before.

All but the seconds is exact. With `--write` the figures go to benchmarks/results/dram_placement.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vdla.benchmarks.dram_networks import NETWORKS
from vdla.benchmarks.harness.command_line import OUTPUT, Given, names_of, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.quantized import vta_with
from vdla.codesign.report.account_run import account_layers
from vdla.codesign.report.cycle_breakdown import LayerAccount
from vdla.compiler.pipeline import accelerator_graph, compile_program
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.compiler.vdla_stages import AcceleratorNetwork
from vdla.isa.config import Config, Memory
from vdla.isa.dram import part_of, row_bytes
from vdla.isa.dram_memory import controller_of
from vdla.isa.program import Program
from vdla.sim import SimulationResult, compute_timeline, simulate
from vdla.sim.timeline import CATEGORIES

PARTS = {8: "MT41K256M8", 16: "MT41K128M16"}
"""Names of the DDR3 chips by bytes that they transfer in a controller clock."""
ROW_CHANGE, REFRESH = 6, 44
"""Numbers of cycles without data in a stream of reads on these parts: when the row of a bank changes, and at a refresh.
A test measures both.
"""


def machine(extensions: Sequence[str], width: int, **fields: Any) -> Config:
    """The machine `vta` with these extensions and a DRAM: the chip of PARTS that transfers `width` bytes in a cycle.
    `fields`: further fields of `Memory`, such as channels.
    """
    memory = Memory(kind="dram", part=PARTS[width], bus_bytes=width, **fields)
    return replace(vta_with(extensions), memory=memory)


def unplaced(config: Config, model: bytes) -> Program:
    """Compiles `model`, the bytes of an ONNX file, for a machine that equals `config` except for its memory: a memory
    with fixed latencies in place of the DRAM. So the program disregards rows and banks. The fixed latencies are those
    of an access that must open a row.
    """
    fixed = replace(config, memory=Memory(bus_bytes=config.memory.bus_bytes))
    legalized = legalize(accelerator_graph(model, fixed), fixed)
    network = AcceleratorNetwork(config=config, legalized=legalized)
    points = network.points({})
    return network.linked([network.layer(name, points[name]) for name in points], data=False).program


def timed(config: Config, program: Program) -> SimulationResult:
    """Simulates `program` on the machine `config`: its timing, without data; returns the result."""
    return simulate(config, program.instructions, program.image, data=False)


def bus_share(layers: Sequence[LayerAccount], cycles: Sequence[float], bus_bytes: int) -> float | None:
    """The share (0..1) of the bus's peak rate, `bus_bytes` a cycle, that is used while the layers limited by the bus
    run (layers whose roofline is that of memory traffic, not of computation). `cycles`: the number of cycles of each of
    `layers`. None if no layer is limited by the bus.
    """
    bound = [
        (layer.dram_bytes, count)
        for layer, count in zip(layers, cycles, strict=True)
        if layer.bound == "memory" and layer.roofline_cycles
    ]
    if not bound:
        return None
    return sum(moved for moved, _ in bound) / bus_bytes / sum(count for _, count in bound)


def least_layer_cycles(
    program: Program, result: SimulationResult, layers: Sequence[LayerAccount]
) -> list[float]:
    """For each of `layers`, in the order of the instruction groups of `program`, the cycles that its busiest part needs
    at least: the bus with the DRAM, the array, or the store unit. `result`: the simulation of the program.
    """
    config, pieces = program.config, compute_timeline(result)
    issuing = pieces.category == CATEGORIES.index("gemm")
    operations = np.zeros(len(program.groups), np.int64)
    groups = program.group_of[pieces.instruction[issuing]]
    np.add.at(operations, groups, (pieces.stop - pieces.start)[issuing])
    return [
        max(
            least_cycles(config, layer.dram_bytes / config.memory.bus_bytes),
            float(count),
            layer.dram["out"] / config.out_bytes * config.post_passes,
        )
        for layer, count in zip(layers, operations, strict=True)
    ]


def least_cycles(config: Config, beats: float) -> float:
    """Cycles that a single stream of `beats` bus words takes on the DRAM of `config` if it only waits for changes of
    the row and for refreshes.
    """
    numbers = controller_of(config)
    each = 1 + ROW_CHANGE / (1 << numbers.column_bits)
    return beats * each / (1 - REFRESH / numbers.t_refi)


def counts(result: SimulationResult) -> dict[str, Any]:
    """The DRAM's counts in the simulated run `result`: rows opened, refreshes, turnarounds and beats, by name."""
    assert result.dram is not None
    return {
        "opened": result.dram.opened,
        "refreshes": result.dram.refreshes,
        "turnarounds": result.dram.turnarounds,
        "beats": result.dram.beats,
    }


def measure(case: tuple[str, int]) -> dict[str, Any]:
    """The figures of a network on a chip; `case`: the network's name and the chip's bytes a cycle."""
    name, width = case
    network, part = NETWORKS[name], PARTS[width]
    model, _ = network.model()
    row = row_bytes(part_of(part), part_of(part).width)
    rows = machine(network.extensions, width, bank_bytes=row)
    config = machine(network.extensions, width)
    before, mapped = (timed(own, unplaced(own, model)) for own in (rows, config))
    placed = compile_program(model, config, data=False)
    after = timed(config, placed.program)
    layers = account_layers(placed, after)
    least = least_layer_cycles(placed.program, after, layers)
    share, bound_share = (
        bus_share(layers, cycles, width) for cycles in ([layer.cycles for layer in layers], least)
    )
    own = counts(after)
    return {
        "name": name,
        "part": part,
        "bus_bytes": width,
        "before": before.cycles,
        "mapped": mapped.cycles,
        "cycles": after.cycles,
        "fewer": round(1 - after.cycles / before.cycles, 4),
        "utilization": round(sum(layer.roofline_cycles for layer in layers) / after.cycles, 4),
        "bus_share": None if share is None else round(share, 4),
        "least_cycles": round(least_cycles(config, own["beats"])),
        "bound_cycles": round(sum(least)),
        "bound_fewer": round(1 - sum(least) / before.cycles, 4),
        "bound_share": None if bound_share is None else round(bound_share, 4),
        "counts_before": counts(before),
        "counts": own,
        "instructions": len(placed.program.instructions),
        "compile_seconds": round(placed.compile_seconds, 1),
    }


def line(row: dict[str, Any]) -> str:
    """A row of results as a line of text."""
    share = ""
    if row["bus_share"] is not None:
        share = f", bus-bound layers use {row['bus_share']:.1%} of the peak (bound {row['bound_share']:.1%})"
    return (
        f"{row['name']:12}{row['bus_bytes']:>3} bytes:{row['before']:>11,} cycles, {row['mapped']:>11,} mapped, "
        f"{row['cycles']:>11,} placed ({-row['fewer']:+.1%}, bound {-row['bound_fewer']:+.1%}), "
        f"{row['utilization']:.1%} of the roofline{share} "
        f"({row['compile_seconds']:.0f} s)"
    )


OPTIONS = (names_of(NETWORKS, "network"), *OUTPUT)


def main(options: Given) -> None:
    cases = [(name, width) for name in options.names or NETWORKS for width in PARTS]
    rows = measure_all(cases, measure, line, quiet=options.json)
    finish(options, "dram_placement", {"clock_mhz": vta_with().clock_mhz, "rows": rows})


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

"""Utilization over a grid of machines (accelerator configurations): square and other arrays, buses, read latencies;
ResNet-18 and ResNet-50.

    python benchmarks/grid.py [--arrays 16x16,8x32] [--networks resnet18] [--buses 8,64] [--latencies 30] [--write]
    python benchmarks/grid.py --large [--write]
    python benchmarks/grid.py --mobilenets [--extensions taps] [--write]

Arrays are block_in x block_out. Scratchpads grow with the array (`machine`), FIFO sizes follow from the bus, and the
number of outstanding reads covers the latency. Every cell is a machine for which nothing was tuned: schedules are the
templates' own choices, and the number of virtual threads (2, 3 or 4) is the one with the least simulated cycles.
Utilization is roofline cycles over exact cycles (docs/measures.md). With `--write` the cells go to
benchmarks/results/grid.json; the exit status is 0 whether or not cells are below a target.

`--large` measures ResNet-50 on an array of 128x128 with a bus of 64 bytes and a latency of 30 cycles, for one image and
for eight that share each weight tile (batch 8), and writes grid_large.json.

`--mobilenets` measures MobileNet-v1 and MobileNet-v2 (quantized by ONNX Runtime) and writes grid_mobilenets.json. The
machines have `--extensions` for depthwise layers (by default `taps` and all extensions that need it) and the changes of
`for_mobilenets`; `vta` with two sizes of store FIFO is measured, too. Arrays of more rows than columns have the
extension `fold`: with the same number of multipliers, an output vector can be as long as an input vector, because the
array's rows can work in groups. `unfolded` are the same machines without the extension.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import exp, log
from pathlib import Path
from typing import Any

from vdla.benchmarks.harness.command_line import OUTPUT, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.benchmarks.harness.quantized import TAPS_EXTENSIONS
from vdla.benchmarks.harness.results import write_results
from vdla.benchmarks.outside import quantized
from vdla.codesign import models
from vdla.codesign.explore.networks import Network, load_network
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.layers import layers_of
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.fifos import FIFO_WORDS, write_rate
from vdla.isa.timing import READ_BURST_BEATS, REQUEST_GAP
from vdla.sim import simulate

KIB = 1024
ARRAYS = ((8, 8), (16, 16), (32, 32), (64, 64), (8, 32), (32, 8), (16, 64), (64, 16))
BUSES = (8, 16, 32, 64)
LATENCIES = (30, 100, 200)
NETWORKS = ("resnet18", "resnet50")
MOBILENETS = ("mobilenet", "mobilenet_v2")
VIRTUAL_THREADS = (2, 3, 4)
WIDE, CHAIN_BYTES = 32, 448 * KIB
"""Machines with blocks of at least WIDE channels get a chain memory (on-chip memory that keeps a layer's output for the
next layer) of CHAIN_BYTES. It holds the inputs of every layer of a ResNet-50 residual block except the first. A machine
with blocks of 128 channels gets memory for as many pixels as one with blocks of 64, since the channels of these layers
fill only half of each block of 128.
"""
IMAGE = 224
"""Rows and columns of the images of published networks."""
SHORT_ROW = 7
"""Length in bus beats of the shortest rows that are read: those of the last layers, seven pixels at one beat each."""
STORED = 0.9
"""Share of the bus bandwidth that stores alone must be able to use on machines for MobileNets."""
LEAST, LEAST_OF_MOBILENETS = 0.88, 0.75
"""Least utilization that every machine of the grid should reach: first with ResNets, then with MobileNets."""


def machine(
    block_in: int,
    block_out: int,
    bus: int,
    latency: int,
    batch: int = 1,
    *,
    for_depthwise: Sequence[str] = (),
    folds: bool = False,
) -> Config:
    """The grid's machine with an array of `block_in` x `block_out`, a bus of `bus` bytes and a read latency of
    `latency` cycles.

    Its scratchpads for inputs and accumulators hold 2,048 pixels of one block of channels for `batch` images. The
    weight scratchpad holds 256 tiles (or 256 KiB, if that is more), the parameter table 64 entries (biases and scales
    of `block_out` channels). Machines with blocks of at least WIDE channels have a chain memory (on-chip memory between
    layers). `for_depthwise`: extensions used together with DEPTHWISE; the first must be `taps`. With `folds`, an array
    with more rows than columns gets the extension `fold`.
    """
    name = f"{block_in}x{block_out}" + (f", batch {batch}" if batch > 1 else "")
    if folds and block_in > block_out:
        size = max(256 * KIB, 256 * block_in * block_out)
        config = machine(block_in, block_in, bus, latency, batch, for_depthwise=for_depthwise)
        extensions = (*config.extensions, "fold")
        folded = {"extensions": extensions, "folds": block_in // block_out, "wgt_buffer_bytes": size}
        return replace(config, name=name, **folded)
    square, block = block_in == block_out, max(block_in, block_out)
    return Config(
        name=name,
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        inp_buffer_bytes=batch * 2048 * block,
        wgt_buffer_bytes=max(256 * KIB, 256 * block_in * block_out),
        acc_buffer_bytes=batch * 4 * 2048 * block,
        acc_banks=4,
        par_buffer_bytes=64 * 8 * block_out,
        chain_buffer_bytes=batch * max(CHAIN_BYTES, 7168 * block) if block >= WIDE else 0,
        extensions=(
            "post",
            "patch",
            *(("depthwise",) if square or for_depthwise else ()),
            *for_depthwise,
        ),
        memory=Memory(
            bus_bytes=bus,
            read_latency=latency,
            outstanding_reads=max(8, -(-(latency + READ_BURST_BEATS) // READ_BURST_BEATS) + 2),
        ),
    )


def for_mobilenets(config: Config) -> Config:
    """The machine adapted to layers with few channels on large planes, and to layers with many channels on planes of
    7x7.

    Its store FIFO is large enough to keep the bus busy, since layers that expand channels store more than they load;
    the default size suffices for three quarters of the bus bandwidth (isa/fifos.py). The number of outstanding writes
    covers the latency even with bursts of one beat. Bursts are this short where a block has several vectors, but only
    one of them contains channels and is stored. The number of outstanding reads covers the latency with rows of 7
    beats. A chain memory (on-chip memory between layers) has room for as many pixels as in machines with blocks of WIDE
    channels.
    """
    memory, block = config.memory, max(config.block_in, config.block_out)
    memory = replace(
        memory,
        outstanding_reads=max(memory.outstanding_reads, -(-memory.read_latency // SHORT_ROW)),
        outstanding_writes=max(memory.outstanding_writes, -(-(memory.write_latency + 1) // REQUEST_GAP) + 2),
    )
    chain = config.chain_buffer_bytes and CHAIN_BYTES // WIDE * block
    config = replace(config, memory=memory, chain_buffer_bytes=chain)
    size, wanted = config.fifo_bytes("store"), min(STORED, write_rate(config, FIFO_WORDS))
    while write_rate(config, size // config.memory.bus_bytes) < wanted:
        size *= 2
    return replace(config, store_fifo_bytes=size)


def machines(
    axes: Iterable[tuple[Sequence[int], int, int]], for_depthwise: Sequence[str]
) -> Iterator[tuple[Config, bool]]:
    """Makes a machine for each (block_in and block_out of the array, bytes of the bus, read latency) in `axes`. If
    `for_depthwise` names extensions, the machines have these extensions and are adapted to MobileNets.

    A machine with the extension `fold` is followed by the same machine without it. Yields (machine, whether it is such
    a copy without `fold`).
    """
    for (block_in, block_out), bus, latency in axes:
        if not for_depthwise:
            yield machine(block_in, block_out, bus, latency), False
            continue
        for folds in (True, False) if block_in > block_out else (True,):
            config = machine(block_in, block_out, bus, latency, for_depthwise=for_depthwise, folds=folds)
            yield for_mobilenets(config), not folds


def cell(config: Config, networks: Sequence[Network]) -> dict[str, Any]:
    """Measures the machine `config` of the grid; returns its cell: its parameters, and for each of `networks` cycles,
    utilization, and the number of virtual threads with the least cycles.
    """
    found: dict[str, Any] = {
        "array": config.name,
        "bus_bytes": config.memory.bus_bytes,
        "read_latency": config.memory.read_latency,
        "storage_kib": sum(getattr(config, f"{kind}_buffer_bytes") for kind in ("inp", "wgt", "acc", "chain"))
        // KIB,
    }
    for network in networks:
        tried: dict[int, int] = {}
        roofline = 0.0
        for threads in VIRTUAL_THREADS:
            compiled = compile_program(network.graph, config, virtual_threads=threads, data=False)
            program = compiled.program
            tried[threads] = simulate(config, program.instructions, program.image, data=False).cycles
            roofline = sum(layer.roofline_cycles for layer in layers_of(compiled))
        best = min(tried, key=lambda threads: tried[threads])
        found[network.name] = {
            "cycles": tried[best],
            "virtual_threads": best,
            "cycles, 2 virtual threads": tried[VIRTUAL_THREADS[0]],
            "utilization": round(roofline / tried[best], 4),
        }
    return found


def summary(cells: Sequence[dict[str, Any]], networks: Sequence[str]) -> dict[str, Any]:
    """Geometric mean and minimum of the utilizations of `networks` in the cells, and how many utilizations are below
    each of two limits; for all cells together and for each array.
    """

    def of(chosen: Sequence[dict[str, Any]]) -> dict[str, float]:
        values = [item[name]["utilization"] for item in chosen for name in networks]
        return {
            "geomean": round(exp(sum(map(log, values)) / len(values)), 4),
            "least": min(values),
            "below_least": sum(value < LEAST for value in values),
            "below_three_quarters": sum(value < LEAST_OF_MOBILENETS for value in values),
            "cells": len(values),
        }

    arrays = dict.fromkeys(item["array"] for item in cells)
    return {"all": of(cells), **{a: of([c for c in cells if c["array"] == a]) for a in arrays}}


def network_of(name: str, folder: Path) -> Network:
    """Network `name`: one that the toolkit ships (its file is written to `folder`), or a published one quantized by
    ONNX Runtime.
    """
    if name not in models.NAMES:
        return load_network(quantized(name, IMAGE), name=name)
    path = folder / f"{name}.onnx"
    models.write(path, name)
    return load_network(path)


def large() -> list[dict[str, Any]]:
    """Measures ResNet-50 with one image and with eight on 128x128 arrays that have a bus of 64 bytes and a read latency
    of 30 cycles. Returns one cell for each number of images.
    """
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        for batch in (1, 8):
            path = Path(folder) / "resnet50.onnx"
            models.write(path, "resnet50", batch=batch)
            cells.append(cell(machine(128, 128, 64, 30, batch), [load_network(path)]))
            last = cells[-1]
            print(f"{last['array']}, 64 bytes, latency 30: {last['resnet50']['utilization']:.3f}", flush=True)
    return cells


def shown(row: dict[str, Any], names: Sequence[str]) -> str:
    """The utilization of each of the networks `names` in the grid cell `row`, as text."""
    return ", ".join(f"{name} {row[name]['utilization']:.3f}" for name in names)


OPTIONS = (
    Option(
        "--arrays",
        "sizes of arrays, block_in x block_out, separated by commas",
        default=",".join(f"{i}x{o}" for i, o in ARRAYS),
    ),
    Option("--networks", f"networks, separated by commas (default: {','.join(NETWORKS)})"),
    Option("--mobilenets", "measure " + " and ".join(MOBILENETS), flag=True),
    Option(
        "--extensions",
        "extensions of the machines of --mobilenets, separated by commas",
        default=",".join(TAPS_EXTENSIONS),
    ),
    Option("--buses", "bytes per cycle of the buses, separated by commas", default=",".join(map(str, BUSES))),
    Option(
        "--latencies", "read latencies in cycles, separated by commas", default=",".join(map(str, LATENCIES))
    ),
    Option("--large", "measure ResNet-50 on an array of 128x128, for one image and for eight", flag=True),
    *OUTPUT,
)


def main(options: Given) -> None:
    if options.large:
        cells = large()
        if options.write:
            print(write_results("grid_large", {"cells": cells}, compact=True))
        return
    arrays = [tuple(map(int, text.split("x"))) for text in options.arrays.split(",")]
    default = MOBILENETS if options.mobilenets else NETWORKS
    names = options.networks.split(",") if options.networks else list(default)
    cells, unfolded, figures = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        networks = [network_of(name, Path(folder)) for name in names]
        if options.mobilenets:
            vta = load_config("vta")
            for what, size in (("512 bytes", KIB // 2), ("1 KiB", KIB)):
                item = replace(vta, name=f"vta, store FIFO of {what}", store_fifo_bytes=size)
                figures[item.name] = cell(item, networks)
                if not options.json:
                    print(f"{item.name}: {shown(figures[item.name], names)}", flush=True)
        axes = product(arrays, map(int, options.buses.split(",")), map(int, options.latencies.split(",")))
        extensions = options.extensions.split(",") if options.mobilenets else ()
        for config, is_twin in machines(axes, extensions):
            (unfolded if is_twin else cells).append(row := cell(config, networks))
            if not options.json:
                memory = f"{row['bus_bytes']:3} bytes, latency {row['read_latency']:3}"
                print(f"{config.name:>6} {memory}{', unfolded' * is_twin}: {shown(row, names)}", flush=True)
    figures |= {"summary": summary(cells, names), "cells": cells}
    if unfolded:
        figures |= {"summary unfolded": summary(unfolded, names), "unfolded": unfolded}
    lines = (
        f"{name:>6}: geomean {row['geomean']:.3f}, least {row['least']:.3f}, "
        f"{row['below_least']} of {row['cells']} below {LEAST}, "
        f"{row['below_three_quarters']} below {LEAST_OF_MOBILENETS}"
        for name, row in figures["summary"].items()
    )
    finish(options, "grid_mobilenets" if options.mobilenets else "grid", figures, lines=lines, compact=True)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

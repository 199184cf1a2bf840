"""Energy of a launch (run of a program) by unit, from the events of the simulator: by the model of switching, or by a
table.
"""

from __future__ import annotations

from vdla.isa.array_modes import MODES
from vdla.isa.config import Config
from vdla.isa.store_stages import TABLE_BYTES

from .clock import clock_of
from .components import Components
from .dram import dram_energy
from .events import Events
from .modelled_energy import energy_by_model


def energy_by_unit(config: Config, events: Events, components: Components) -> dict[str, float]:
    """Energy of a launch in microjoules by unit, by the model of switching or, if `components` is a table, by the
    table.
    """
    return (
        energy_by_model(config, events, hertz=clock_of(config, components).hertz)
        if components.modelled
        else energy_by_table(config, events, components)
    )


def energy_by_table(config: Config, events: Events, components: Components) -> dict[str, float]:
    """Energy of a launch in microjoules by unit, computed from a table of components. Every operation costs the energy
    in the table, whatever its operands are.

    An operation of the array reads an input vector and a weight tile, and reads and writes an accumulator vector. An
    overwriting operation writes the accumulator vector without reading it. With the extension `fold`, only the lanes
    that receive a sum are accessed.

    Loaded data pass through a FIFO and are written to their scratchpad once. Data stored in DRAM pass through a FIFO.
    Data stored in the chain memory are written there, and reading them costs as much as reading the input scratchpad. A
    fixed memory costs the table's energy for each byte; a DRAM costs the energy of its commands (`dram.py`). The table
    states which parts are left out.
    """
    energy = components.energy
    lanes = config.batch * config.block_out
    sizes = {kind: getattr(config, f"{kind}_buffer_bytes") for kind in ("uop", "inp", "wgt", "acc")}

    def access(kind: str, width: int) -> float:
        return components.sram_energy(sizes[kind], width)

    matrix = events.matrix
    # Each position that an operation multiplies lane by lane costs as much as a DEPTHWISE operation, except for the
    # accumulators and for positions that the operation multiplies without reading them.
    by_lane = [(mode, events.by_mode.get(mode.name, 0)) for mode in MODES if mode.by_lane]
    positions_read = sum(mode.positions * count for mode, count in by_lane)
    multiplied = sum(mode.multiplied(config) * count for mode, count in by_lane)
    products = events.gemm * config.multiplies_per_cycle + multiplied * config.inp_bytes
    acc_bytes, read = config.acc_bytes, events.read
    accumulators = (2 * matrix - events.overwriting) + 2 * events.alu + events.window_reads
    accumulators -= events.kept_lanes / lanes
    loads = {
        "uop": read["uop"],
        "inp": read["inp"],
        "wgt": read["wgt"],
        # Loads of int8 are widened to int32.
        "acc": 4 * read["acc"],
    }

    def written(kind: str) -> float:
        return loads[kind] / components.sram["port_bytes"] * access(kind, int(components.sram["port_bytes"]))

    moved = sum(read.values()) + events.written
    found = {
        "array": products * (energy["int8_multiply"] + energy["int32_add"]),
        "alu": events.alu * lanes * energy["int32_add"],
        # Each stored vector is scaled once; one with an operand is scaled twice more and added.
        "post": (events.stored + 2 * events.combined)
        * lanes
        * (energy["float32_multiply"] + energy["float32_add"]),
        "uop scratchpad": (matrix + events.alu) * access("uop", 4) + written("uop"),
        "inp scratchpad": (events.gemm + positions_read) * access("inp", config.inp_bytes) + written("inp"),
        "wgt scratchpad": events.gemm * access("wgt", config.wgt_bytes)
        + multiplied * access("wgt", config.block_in)
        + written("wgt"),
        "acc scratchpad": accumulators * access("acc", acc_bytes) + written("acc"),
        # A FIFO is written and read once.
        "FIFOs and queues": 2 * 8 * moved * energy["flip_flop_bit"],
    }
    fixed = {"DRAM": moved * energy["dram_byte"]}
    found |= fixed if events.dram is None else dram_energy(config, events)
    if config.chain_buffer_bytes:
        each = components.sram_energy(config.chain_buffer_bytes, config.out_bytes)
        found["chain memory"] = events.chained * each
    if config.has("table"):
        # Every lane reads a bus word of its own copy of the tables.
        each = components.sram_energy(config.tables * TABLE_BYTES, config.memory.bus_bytes)
        found["look-up tables"] = events.stored * lanes * each
    return {name: value / 1e6 for name, value in found.items()}

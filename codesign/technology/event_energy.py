"""Energy of events: what each costs in a unit, for any machine, from coefficients that were fitted to replays.

A unit's energy is a sum over features: counts of events times the width that they have in the machine (lanes, products,
bytes, bits that change). So one coefficient serves all machines. The clock pins of the flip-flops are no event: they
cost what the library says, in every cycle, for as many flip-flops as a unit has by `REGISTERS`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from vdla.isa.config import Config

from .events import Events

CONTROL = ("control", "counters", "fetch", "memory port", "token queues", "top")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "array": ("array",),
    "compute": ("compute", "alu", "accumulators"),
    "post": ("post",),
    "load": ("load", "input scratchpad", "weight scratchpad"),
    "store": ("store", "chain memory"),
    "control": CONTROL,
}
"""The units of a model, and the units of the netlist (`hw.synthesis.netlist`) that each stands for."""

FEATURES: Mapping[str, tuple[str, ...]] = {
    "array": (
        "input bits", "weight bits", "partial product bits", "product bits", "sum bits", "GEMM lanes",
        "depthwise products", "cycles",
    ),
    "compute": (
        "GEMM lanes", "accumulator bits", "sum bits", "depthwise products", "ALU lanes", "loaded accumulator bits",
        "loaded accumulator lanes", "stored accumulator bits", "uop bytes", "window lanes", "operations", "cycles",
    ),
    "post": (
        "stored lanes", "window lanes", "combined lanes", "stored accumulator bits", "scaled bits", "output bits",
        "combined output bits", "accumulator bits", "GEMM lanes", "ALU lanes", "par bytes", "operand bytes",
        "depthwise products", "loaded accumulator bits", "cycles",
    ),
    "load": ("inp bytes", "wgt bytes", "input bits", "weight bits", "load beats", "bus beats", "cycles"),
    "store": (
        "stored lanes", "window lanes", "output bits", "written bytes", "operand bytes", "par bytes", "bus beats",
        "cycles",
    ),
    "control": ("instruction bytes", "bus beats", "operations", "written bytes", "cycles"),
}  # fmt: skip
"""What a unit's energy may depend on."""

STRUCTURE = ("one", "products", "lanes", "input bytes", "bus bytes")
"""What numbers of flip-flops and leakage grow with."""


def structure_of(config: Config) -> dict[str, float]:
    """The values of `STRUCTURE`."""
    return {
        "one": 1.0,
        "products": float(config.multiplies_per_cycle),
        "lanes": float(config.batch * config.block_out),
        "input bytes": float(config.inp_bytes),
        "bus bytes": float(config.memory.bus_bytes),
    }


def features_of(config: Config, events: Events, changes: Mapping[str, float]) -> dict[str, float]:
    """The features of a launch. `changes` are those of its operands, by `sim.statistics.MEASURED`."""
    lanes = config.batch * config.block_out
    read = events.read
    bus = config.memory.bus_bytes
    return {
        # An input's bit reaches a multiplier in every row of the tile.
        "input bits": changes["inputs"] * config.block_out,
        # A weight's bit reaches one for every vector of the batch.
        "weight bits": changes["weights"] * config.batch,
        "partial product bits": changes["partial_products"],
        "product bits": changes["products"],
        "sum bits": changes["sums"],
        "accumulator bits": changes["accumulators"],
        "loaded accumulator bits": changes["loaded"],
        "loaded accumulator lanes": changes["loaded_lanes"],
        "stored accumulator bits": changes["stored"],
        "scaled bits": changes["scaled"],
        "output bits": changes["outputs"],
        "combined output bits": changes["outputs"] * events.combined / max(1, events.stored),
        "GEMM lanes": float(events.gemm * lanes),
        "depthwise products": float(events.depthwise * lanes),
        "operations": float(events.gemm + events.depthwise + events.alu),
        "ALU lanes": float(events.alu * lanes),
        "window lanes": float(events.window_reads * lanes),
        "stored lanes": float(events.stored * lanes),
        "combined lanes": float(events.combined * lanes),
        "load beats": (read["inp"] + read["wgt"]) / bus,
        "bus beats": (sum(read.values()) + events.written) / bus,
        **{
            f"{kind} bytes": float(read[kind])
            for kind in ("inp", "wgt", "acc", "uop", "par", "operand", "instruction")
        },
        "written bytes": float(events.written),
        "cycles": float(events.cycles),
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventEnergy:
    """Coefficients, in picojoules: `events` by unit and feature, `clock` of a flip-flop in a cycle; flip-flops and
    nanowatts of leakage by unit and structure. `interval`: what measured energy is to predicted, least and most in 90
    of 100 programs. `library`, `volts`, `nanometres` of what was measured."""

    library: str
    volts: float
    nanometres: float
    events: Mapping[str, Mapping[str, float]]
    clock: float
    registers: Mapping[str, Mapping[str, float]]
    leakage: Mapping[str, Mapping[str, float]]
    interval: tuple[float, float]

    def data(self, features: Mapping[str, float]) -> dict[str, float]:
        """Picojoules of data that change, by unit."""
        return {
            unit: sum(cost * features[name] for name, cost in costs.items())
            for unit, costs in self.events.items()
        }

    def clocks(self, config: Config, cycles: float) -> dict[str, float]:
        """Picojoules of clock pins by unit."""
        counts = _structural(self.registers, config)
        return {unit: count * self.clock * cycles for unit, count in counts.items()}

    def leakages(self, config: Config, seconds: float) -> dict[str, float]:
        """Picojoules of leakage by unit."""
        return {unit: 1e3 * seconds * watts for unit, watts in _structural(self.leakage, config).items()}


def _structural(costs: Mapping[str, Mapping[str, float]], config: Config) -> dict[str, float]:
    values = structure_of(config)
    return {unit: sum(cost * values[name] for name, cost in own.items()) for unit, own in costs.items()}


def parse_event_energy(value: Mapping[str, Any]) -> EventEnergy:
    """The coefficients in a JSON document of `benchmarks/energy_model.py`."""
    low, high = value["interval"]
    return EventEnergy(
        library=str(value["library"]),
        volts=float(value["volts"]),
        nanometres=float(value["nanometres"]),
        events=value["events"],
        clock=float(value["clock"]),
        registers=value["registers"],
        leakage=value["leakage"],
        interval=(float(low), float(high)),
    )


@cache
def shipped_event_energy() -> EventEnergy:
    """The coefficients that come with the package."""
    text = (resources.files("vdla.codesign.technology") / "event_energy.json").read_text(encoding="utf-8")
    return parse_event_energy(json.loads(text))

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

from vdla.hw.synthesis.cells.nodes import node_text
from vdla.hw.synthesis.cells.sram import Scale
from vdla.isa.config import Config

STRUCTURE = (
    "one", "with post", "with patch", "products", "staged products", "folded sums", "weight bytes", "input bytes",
    "lanes", "banked lanes", "post lanes", "bus bytes", "patch bus bytes",
)  # fmt: skip
"""What numbers of flip-flops and leakage grow with."""


def structure_of(config: Config) -> dict[str, float]:
    """The values of `STRUCTURE`."""
    lanes, bus = config.batch * config.block_out, config.memory.bus_bytes
    post, patch, folds = config.has("post"), config.has("patch"), config.tile_parts
    return {
        "one": 1.0,
        "with post": float(post),
        "with patch": float(patch),
        "products": float(config.multiplies_per_cycle),
        "staged products": float(config.multiplies_per_cycle * config.multiplier_stages),
        # Where a column's last levels have a sum for each fold: those that are not there without.
        "folded sums": float(config.batch * config.columns * (folds * (folds.bit_length() - 1) - folds + 1)),
        "weight bytes": float(config.wgt_bytes),
        "input bytes": float(config.inp_bytes),
        "lanes": float(lanes),
        "banked lanes": float(lanes * config.acc_banks),
        "post lanes": float(lanes // config.post_passes * post),
        "bus bytes": float(bus),
        "patch bus bytes": float(bus * patch),
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventEnergy:
    """Coefficients, in picojoules: `events` by unit and feature, `clock` of a flip-flop in a cycle; flip-flops and
    nanowatts of leakage by unit and structure. `interval`: what measured energy is to predicted, least and most in 90
    of 100 programs; `interval_outside` the same on a machine that was left out of the fit. `library`, `volts`,
    `nanometres` of what was measured; `sram_scale` takes memory macros there."""

    library: str
    volts: float
    nanometres: float
    events: Mapping[str, Mapping[str, float]]
    clock: float
    registers: Mapping[str, Mapping[str, float]]
    leakage: Mapping[str, Mapping[str, float]]
    interval: tuple[float, float]
    interval_outside: tuple[float, float]
    sram_scale: Scale

    @property
    def node(self) -> str:
        """The library's node in words."""
        return node_text(self.library, self.nanometres)

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
    inside, outside = (tuple(map(float, value[name])) for name in ("interval", "interval_outside"))
    return EventEnergy(
        library=str(value["library"]),
        volts=float(value["volts"]),
        nanometres=float(value["nanometres"]),
        events=value["events"],
        clock=float(value["clock"]),
        registers=value["registers"],
        leakage=value["leakage"],
        interval=(inside[0], inside[1]),
        interval_outside=(outside[0], outside[1]),
        sram_scale=Scale(**value["sram_scale"]),
    )


@cache
def shipped_event_energy() -> EventEnergy:
    """The coefficients that come with the package."""
    text = (resources.files("vdla.codesign.technology") / "event_energy.json").read_text(encoding="utf-8")
    return parse_event_energy(json.loads(text))

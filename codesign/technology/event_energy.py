"""Coefficients of the model of switching: the energy of each event in a part of a machine, fitted to replays
(simulations of synthesized netlists on a program's recorded inputs).

A part's energy is a sum over features. A feature is a count of events, times the width of the event in the machine
(lanes, products, bytes, bits that change). So one coefficient is valid for all machines (accelerator configurations).

The clock pins of flip-flops are not modelled by events, since they switch in every cycle. Their energy is the number of
flip-flops (predicted by `cell_model.CellModel.flip_flops_by_module`) times the energy of a clock pin in the library, in
each cycle. Leakage is proportional to the area of logic that the same model predicts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from vdla.hw.synthesis.cells.nodes import node_text
from vdla.hw.synthesis.cells.sram import Scale
from vdla.isa.config import Config

from .cell_model import shipped_cell_model
from .event_features import part_of_module
from .memories import memories_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Errors of predicted energy relative to the energy of replays (simulations of synthesized netlists), on machines
    left out of the fit.

    `data`, `clock` and `memories`: relative root mean square error of the energy of changing data bits, of clock pins,
    and of memories. The three errors are independent, so the error of the sum is the root of their sum of squares. The
    90% interval extends from the prediction by `reach` times this error in both directions.
    """

    data: float
    clock: float
    memories: float
    reach: float

    def deviation(self, data: float, clock: float, memories: float, *, rates: float = 0.0) -> float:
        """Standard deviation of the error of the sum `data` + `clock` + `memories`, in the unit of these energies.
        `rates`: additional relative error of `data` if the numbers of changed bits were estimated
        (`operand_rates.OperandRates.spread`); 0 if they were counted.
        """
        return math.hypot(self.data * data, rates * data, self.clock * clock, self.memories * memories)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventEnergy:
    """Coefficients of the model of switching energy, which is fitted to simulations of synthesized netlists.

    `events`: by part of the machine and then by feature, the picojoules of one event. `clock`: picojoules that the
    clock pin of one flip-flop takes in a cycle. `leakage`: nanowatts for each square micrometre of logic. `spread`:
    errors of the model.

    `library`, `volts` and `nanometres` describe the netlists. `sram_scale` converts figures of memory macros to the
    same technology node. `machines`: names of the simulated machines.
    """

    library: str
    volts: float
    nanometres: float
    events: Mapping[str, Mapping[str, float]]
    clock: float
    leakage: float
    spread: Spread
    sram_scale: Scale
    machines: tuple[str, ...]

    @property
    def node(self) -> str:
        """The technology node of the library as text, such as "180 nm"."""
        return node_text(self.library, self.nanometres)

    def data(self, features: Mapping[str, float]) -> dict[str, float]:
        """Picojoules of changing data bits in a launch with these `features` (`event_features.features_of`), for each
        part of `event_features.GROUPS`.
        """
        return {
            unit: sum(cost * features[name] for name, cost in costs.items())
            for unit, costs in self.events.items()
        }

    def clocks(self, config: Config, cycles: float) -> dict[str, float]:
        """Picojoules of clock pins in `cycles` cycles, for each part of `event_features.GROUPS`."""
        counts = shipped_cell_model().flip_flops_by_module(config, memories_of(config))
        return {unit: count * self.clock * cycles for unit, count in _by_part(counts).items()}

    def leakages(self, config: Config, seconds: float) -> dict[str, float]:
        """Picojoules of the leakage of logic in `seconds`, for each part of `event_features.GROUPS`."""
        areas = shipped_cell_model().logic_by_module(config, memories_of(config))
        return {unit: 1e3 * seconds * self.leakage * area for unit, area in _by_part(areas).items()}


def _by_part(modules: Mapping[str, float]) -> dict[str, float]:
    """Sums of `modules` (a number by RTL module) over the modules of each part of `event_features.GROUPS`."""
    found: dict[str, float] = {}
    for module, value in modules.items():
        part = part_of_module(module)
        found[part] = found.get(part, 0.0) + value
    return found


def parse_event_energy(value: Mapping[str, Any]) -> EventEnergy:
    """The coefficients in a JSON document of `benchmarks/energy_model.py`."""
    return EventEnergy(
        library=str(value["library"]),
        volts=float(value["volts"]),
        nanometres=float(value["nanometres"]),
        events=value["events"],
        clock=float(value["clock"]),
        leakage=float(value["leakage"]),
        spread=Spread(**value["spread"]),
        sram_scale=Scale(**value["sram_scale"]),
        machines=tuple(value["machines"]),
    )


@cache
def shipped_event_energy() -> EventEnergy:
    """The coefficients of switching energy that are shipped with the package."""
    text = (resources.files("vdla.codesign.technology") / "event_energy.json").read_text(encoding="utf-8")
    return parse_event_energy(json.loads(text))

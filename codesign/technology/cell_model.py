"""Area and longest path of a machine (accelerator configuration) in standard cells, predicted from its fields.

The coefficients are fitted to syntheses of other machines (`benchmarks/area_model.py`), module by module. Memories are
not fitted: the list of macros follows from the configuration (`memories.py`), and the area and the access time of each
macro are taken from the SRAM table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from vdla.hw.synthesis.cells.nodes import node_text
from vdla.hw.synthesis.cells.sram import MacroFigures, Scale, memory_figures
from vdla.hw.synthesis.units import unit_of_path
from vdla.isa.config import Config

from .cell_features import MODULES, OWN, PATHS, access_features, counts_of, features_of, own_features
from .memories import Memory, memories_of
from .register_features import OWN_BITS, register_features

LEFT_OUT = "wires, clock tree, pads, scan and test, empty area between cells"
"""Parts of a chip that neither synthesis nor this model includes; the text equals that in
`hw.synthesis.cells.report`.
"""
CUSTOM = "compute.pipeline.accumulator_lane.custom"
"""Name, in the list of modules, of the hardware of the lanes for custom instructions."""

GATE_AREA, FLIP_FLOP_AREA = 24.0, 96.0
"""Square micrometres of a NAND gate of two inputs and of a flip-flop: NAND2X1 and DFFPOSX1 of the library that the
shipped model is for (osu018_stdcells of qflow-tech-osu018 1.3.17).
"""
Costs = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFigures:
    """Predicted figures of a machine: `logic` and `memory` in square millimetres by unit, and its longest path in
    nanoseconds, which ends in the module `slowest`. `area_ends` and `path_ends`: 90% intervals, as factors of the whole
    area and of the path.
    """

    logic: Mapping[str, float]
    memory: Mapping[str, float]
    longest_ns: float
    slowest: str
    area_ends: tuple[float, float]
    path_ends: tuple[float, float]

    @property
    def area(self) -> dict[str, float]:
        """Area in square millimetres by unit, standard cells and memory macros together."""
        units = dict.fromkeys((*self.logic, *self.memory))
        return {unit: self.logic.get(unit, 0.0) + self.memory.get(unit, 0.0) for unit in units}

    @property
    def clock_mhz(self) -> float:
        """The fastest clock in MHz that the longest path allows."""
        return 1e3 / self.longest_ns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellModel:
    """Coefficients that predict area, flip-flops and longest paths, fitted to syntheses with one library.

    - `areas`: square micrometres, by RTL module and then by feature. `registers`: numbers of flip-flops, by module and
      then by feature.
    - `paths`: nanoseconds, by the module in which the path ends and then by feature.
    - `units`: the unit of the machine to which each module belongs.
    - `logic_ends`, `path_ends`: 90% intervals of the ratio of measured to predicted values.
    - `scale`: factors that convert the figures of the SRAM table, which are for 45 nm. `machines`: number of machines
      in the fit.
    """

    library: str
    node_nm: int
    scale: Scale
    areas: Costs
    registers: Costs
    paths: Costs
    units: Mapping[str, str]
    logic_ends: tuple[float, float]
    path_ends: tuple[float, float]
    machines: int

    @property
    def node(self) -> str:
        """The technology node of the library as text, such as "180 nm"."""
        return node_text(self.library, self.node_nm)

    def predict(self, config: Config) -> CellFigures:
        """Predicted area, longest path and their 90% intervals for a machine."""
        memories = memories_of(config)
        logic = self.logic_by_module(config, memories)
        macros = [memory for memory in memories if memory.is_macro]
        places = self.paths_by_place(config, macros)
        slowest = max(places, key=lambda place: places[place])
        memory = {m.module: 0.0 for m in macros}
        for item in macros:
            memory[item.module] += item.count * _macro(item.words, item.width, self.scale).area
        cells, whole = sum(logic.values()), sum(logic.values()) + sum(memory.values())
        low, high = (1 + (end - 1) * cells / whole for end in self.logic_ends)
        return CellFigures(
            logic=self._by_unit(logic),
            memory=self._by_unit(memory),
            longest_ns=places[slowest],
            slowest=slowest,
            area_ends=(low, high),
            path_ends=self.path_ends,
        )

    def logic_by_module(self, config: Config, memories: list[Memory]) -> dict[str, float]:
        """Area in square micrometres of the cells of each kind of module, summed over its instances. `memories`: all
        memories of the machine.
        """
        counts, features = counts_of(config), features_of(config)
        costs = [item.cost for item in config.instructions if item.cost is not None]
        custom = sum(GATE_AREA * cost.gates + FLIP_FLOP_AREA * cost.flops for cost in costs)
        return ({CUSTOM: config.batch * config.block_out * custom} if custom else {}) | {
            module: counts[MODULES[module][0]]
            * _sum(
                costs,
                features if OWN.isdisjoint(costs) else features | own_features(config, module, memories),
            )
            for module, costs in self.areas.items()
        }

    def flip_flops_by_module(self, config: Config, memories: list[Memory]) -> dict[str, float]:
        """Number of flip-flops of each kind of module, summed over its instances. A memory too small for a macro has
        one flip-flop for each bit.
        """
        counts, features = counts_of(config), features_of(config) | register_features(config)
        small = {memory.module for memory in memories if not memory.is_macro}
        found: dict[str, float] = {}
        for module, costs in self.registers.items():
            own, bits = features, 0.0
            if module in small or not OWN.isdisjoint(costs):
                own = features | own_features(config, module, memories)
                bits = own[OWN_BITS]
            found[module] = counts[MODULES[module][0]] * (bits + _sum(costs, own))
        return found

    def paths_by_place(self, config: Config, macros: list[Memory]) -> dict[str, float]:
        """Delay in nanoseconds of each candidate for the longest path (PATHS) that a machine has, by the module in
        which the path ends. `macros`: the machine's memories that are macros.
        """
        counts = counts_of(config)
        features = features_of(config) | access_features(access_by_module(macros, self.scale))
        return {
            place: _sum(costs, features) for place, costs in self.paths.items() if counts[PATHS[place][0]]
        }

    def _by_unit(self, modules: Mapping[str, float]) -> dict[str, float]:
        found: dict[str, float] = {}
        for module, area in modules.items():
            # A module that no machine of the fit had has no coefficients: only its macros have area.
            unit = self.units.get(module) or unit_of_path(module)
            found[unit] = found.get(unit, 0.0) + area / 1e6
        return {unit: area for unit, area in found.items() if area}


def access_by_module(macros: list[Memory], scale: Scale) -> dict[str, float]:
    """For each RTL module, the access time of its slowest memory macro, in nanoseconds from address to data. `macros`:
    all memory macros of a machine. `scale`: conversion of times and areas to the technology node of the cell library.
    """
    found: dict[str, float] = {}
    for item in macros:
        slow = _macro(item.words, item.width, scale).access_ns
        found[item.module] = max(slow, found.get(item.module, 0.0))
    return found


def _sum(costs: Mapping[str, float], features: Mapping[str, float]) -> float:
    return sum(cost * features[name] for name, cost in costs.items())


@lru_cache(maxsize=4096)
def _macro(words: int, width: int, scale: Scale) -> MacroFigures:
    return memory_figures(words, width, scale)


def parse_cell_model(value: Mapping[str, Any]) -> CellModel:
    """The model in a JSON document of `benchmarks/area_model.py`."""
    logic, path = (tuple(map(float, value["intervals"][name])) for name in ("logic", "path"))
    return CellModel(
        library=str(value["library"]),
        node_nm=int(value["node_nm"]),
        scale=Scale(**value["scale"]),
        areas=value["areas"],
        registers=value["registers"],
        paths=value["paths"],
        units=value["units"],
        logic_ends=(logic[0], logic[1]),
        path_ends=(path[0], path[1]),
        machines=len(value["training_draws"]),
    )


@cache
def shipped_cell_model() -> CellModel:
    """The model of area and longest paths that is shipped with the package."""
    text = (resources.files("vdla.codesign.technology") / "cell_model.json").read_text(encoding="utf-8")
    return parse_cell_model(json.loads(text))

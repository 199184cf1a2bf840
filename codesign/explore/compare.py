"""Compares two machines (accelerator configurations) on the same networks: figures, areas and energies of units,
layers, and sentences that describe the differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from vdla.isa.config import Config
from vdla.util.errors import UserError

from ..technology.components import Components
from ..technology.energy import energy_by_unit
from .evaluate import Figures, evaluate
from .metrics import METRICS
from .networks import Network
from .report.data import Entry, Layers, comparison_data
from .report.explain import change, cycles_by_cause, cycles_by_layer, main_changes
from .report.layers import columns, figures_by_layer
from .space import field_values, shown

Row = dict[str, Any]
LONG_NAME = 24
"""Largest number of characters of a machine's name in the comparison; a longer name is replaced by the name of the
machine's file.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """Two machines with their figures and layers. `labels`: their names as shown. `layers`: for each machine, tables of
    layers by network (`report.layers.columns`).
    """

    labels: tuple[str, str]
    machines: tuple[Config, Config]
    networks: tuple[Network, ...]
    components: Components
    figures: tuple[Figures, Figures]
    layers: tuple[Layers, Layers]

    @cached_property
    def fields(self) -> list[Row]:
        """One row for each field in which the machines differ, with both values."""
        first, second = (field_values(machine) for machine in self.machines)
        return [
            {"field": name, "first": value, "second": second[name]}
            for name, value in first.items()
            if value != second[name]
        ]

    @cached_property
    def rows(self) -> list[Row]:
        """One row for each figure: every metric; clock; cycles and energy by unit for each network; area by unit."""
        weights = {network.name: network.weight for network in self.networks}
        pairs = list(zip(self.machines, self.figures, strict=True))
        found = [
            _row("total", metric.name, metric.unit, [metric.value(m, f, weights) for m, f in pairs])
            for metric in METRICS.values()
        ]
        clocks = [figures.clock_mhz or 0.0 for figures in self.figures]
        found.append(_row("total", "clock", "MHz", clocks))
        for network in self.networks:
            runs = [figures.networks[network.name] for figures in self.figures]
            found.append(_row(network.name, "cycles", "cycles", [run.cycles for run in runs]))
            for unit in dict.fromkeys(unit for run in runs for unit in run.energy):
                found.append(
                    _row(network.name, f"energy: {unit}", "uJ", [run.energy.get(unit, 0.0) for run in runs])
                )
        for unit in dict.fromkeys(unit for figures in self.figures for unit in figures.area):
            found.append(_row("area", unit, "mm2", [figures.area.get(unit, 0.0) for figures in self.figures]))
        return found

    @cached_property
    def layer_rows(self) -> list[Row]:
        """One row for each layer that both machines have: cycles, roofline cycles, DRAM bytes and energy of both."""
        found = []
        for network in self.networks:
            first, second = (layers[network.name] for layers in self.layers)
            place_of = {name: place for place, name in enumerate(second["name"])}
            for place, name in enumerate(first["name"]):
                if name not in place_of:
                    continue
                row: Row = {"network": network.name, "layer": name}
                for side, layers, at in (("first", first, place), ("second", second, place_of[name])):
                    row[f"cycles {side}"] = layers["cycles"][at]
                    row[f"roofline {side}"] = layers["roofline"][at]
                    row[f"dram {side}"] = sum(column[at] for column in layers["dram"].values())
                    row[f"energy {side}"] = sum(column[at] for column in layers["energy"].values())
                found.append(row)
        return found

    @cached_property
    def sentences(self) -> list[str]:
        """Sentences about the difference of the second machine from the first: its amount, its causes, and the layers
        that contribute most.
        """
        found = []
        for network in self.networks:
            first, second = (layers[network.name] for layers in self.layers)
            runs = [figures.networks[network.name] for figures in self.figures]
            text = change(f"cycles of {network.name}", runs[0].cycles, runs[1].cycles)
            why = main_changes(cycles_by_cause(first, second))
            where = main_changes(cycles_by_layer(first, second))
            text += f": {why}" if why else ""
            found.append(text + (f"; by layer: {where}" if where else ""))
            units = [
                (unit, runs[0].energy.get(unit, 0.0), runs[1].energy.get(unit, 0.0))
                for unit in {**runs[0].energy, **runs[1].energy}
            ]
            text = change(f"energy of {network.name}", runs[0].microjoules, runs[1].microjoules, "uJ")
            why = main_changes(units)
            found.append(text + (f": {why}" if why else ""))
        first_area, second_area = (figures.area for figures in self.figures)
        units = [(u, first_area.get(u, 0.0), second_area.get(u, 0.0)) for u in {**first_area, **second_area}]
        sizes = [figures.square_millimetres for figures in self.figures]
        why = main_changes(units)
        found.append(change("area", sizes[0], sizes[1], "mm2") + (f": {why}" if why else ""))
        return found

    def data(self) -> dict[str, Any]:
        """The data of the HTML page that shows the comparison, as JSON values."""
        names = [row["field"] for row in self.fields]
        entries = []
        for machine, label, figures, layers in zip(
            self.machines, self.labels, self.figures, self.layers, strict=True
        ):
            values = field_values(machine)
            fields = {name: _known(values[name]) for name in names}
            entries.append(
                Entry(
                    label=label,
                    fields=fields,
                    machine=machine,
                    figures=figures,
                    state="feasible",
                    layers=layers,
                )
            )
        return comparison_data(entries, self.networks, self.components)


def compare_machines(
    machines: tuple[Config, Config],
    networks: Sequence[Network],
    components: Components,
    files: tuple[Path | None, Path | None] = (None, None),
) -> Compared:
    """Evaluates both machines on all networks. A machine with a long name is shown under the name of its TOML file, if
    `files` has one. Raises UserError if a machine cannot run a network.
    """
    names = [_label(machine, file) for machine, file in zip(machines, files, strict=True)]
    labels = [f"{names[0]} (A)", f"{names[1]} (B)"] if names[0] == names[1] else names
    figures, layers = [], []
    for machine in machines:
        found = evaluate(machine, networks, components)
        if found.failed is not None:
            raise UserError(f"configuration {machine.name}: {found.failed}")
        figures.append(found)
        layers.append(
            {
                network.name: columns(
                    figures_by_layer(
                        machine, network, lambda config, events: energy_by_unit(config, events, components)
                    )
                )
                for network in networks
            }
        )
    return Compared(
        labels=(labels[0], labels[1]),
        machines=machines,
        networks=tuple(networks),
        components=components,
        figures=(figures[0], figures[1]),
        layers=(layers[0], layers[1]),
    )


def _label(machine: Config, file: Path | None) -> str:
    if len(machine.name) <= LONG_NAME or file is None:
        return machine.name
    return file.stem


def _row(kind: str, name: str, unit: str, values: Sequence[float]) -> Row:
    ratio = values[1] / values[0] if values[0] else None
    return {
        "kind": kind,
        "name": name,
        "unit": unit,
        "first": values[0],
        "second": values[1],
        "ratio": ratio,
    }


def _known(value: Any) -> Any:
    """Converts a field's value to the value that the page of the comparison shows. None becomes "left out": then the
    machine derives the field from its other fields.
    """
    return "left out" if value is None else shown(value)

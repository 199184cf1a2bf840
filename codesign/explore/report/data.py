"""The data of a report's page, as one JSON object: designs in columns, their figures and the figures' sources."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vdla.isa.config import Config, Memory
from vdla.isa.parameters import declared

from ...report.memory_roofs import memory_roofs
from ...technology.area import basis
from ...technology.components import Components
from ..evaluate import Figures
from ..metrics import METRICS, Metric, intervals_of, rungs_of
from ..networks import Network
from ..space import Value, shown
from ..study import Exploration, Study
from ..syntheses import Syntheses, Synthesis
from ..tables import FRONT, schedules_file
from . import history, sensitivity
from .columns import column, numbers, toml_columns
from .ladder import LADDER, rung_of
from .layers import rounded
from .synthesized import beside_predicted

Layers = Mapping[str, Mapping[str, Any]]
"""The layers of one machine by name of the network; each value is a table as `layers.columns` returns it (cycles, bytes
and energy of every layer).
"""
STATES = ("failed", "over", "feasible", "front", "reference")
"""States of a design on the page: "failed" has no figures; "over" breaks a constraint; "feasible" meets all
constraints; "front" is also dominated by no other design; "reference" is only shown for comparison. In the data of the
page, the number of a state is its index in this tuple.
"""
COMMANDS = (
    ("every layer's cycles and bytes, outputs checked", "vdla run {network} --config {toml}{records}"),
    (
        "the network on the RTL, compared with the simulator",
        "vdla run {network} --config {toml}{records} --engine rtl",
    ),
    ("random programs on simulator and RTL", "vdla cosim --config {toml} --programs 100"),
    ("Verilog", "vdla rtl --config {toml} -o {name}-rtl"),
    ("resources on an FPGA", "vdla synth --config {toml} --for ecp5"),
    (
        "area by unit and longest path in standard cells",
        "vdla synth --config {toml} --for cells",
    ),
    ("side by side with the base", "vdla compare {base} {toml} --network {network}"),
)
"""Descriptions of a design's results, and commands that reproduce them. {toml} is the design's configuration file;
{records} is the option `--records` with the design's schedules, empty if they are the templates' own.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Result of co-simulating a design on all `networks`. `cycles`: the sum of their cycles, without networks whose run
    on the RTL did not end. `mismatches`: number of differences from the simulator (in cycles, counters, bytes and
    layers), where a run that did not end counts as one; `first`: text of the first one. `seconds` include building the
    RTL.
    """

    networks: tuple[str, ...]
    cycles: int
    mismatches: int
    seconds: float
    first: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """A design as the page shows it. `label`: its number, or the name of the base; its files have this name, too.
    `state` is one of `STATES`. `layers`: tables of its layers by network (empty: not computed); `verified` and
    `synthesis`: results of its co-simulation and synthesis (None: none).
    """

    label: str
    fields: Mapping[str, Value]
    machine: Config | None
    figures: Figures
    state: str
    layers: Layers = field(default_factory=dict[str, Mapping[str, Any]])
    verified: Verified | None = None
    synthesis: Synthesis | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Details:
    """Data that are computed only for the report: the figures of the base configuration; layers and syntheses by digest
    of the machine; and co-simulations by number of the design.
    """

    base: Figures | None = None
    layers: Mapping[str, Layers] = field(default_factory=dict[str, Layers])
    verified: Mapping[int, Verified] = field(default_factory=dict[int, Verified])
    syntheses: Syntheses = field(default_factory=dict[str, Synthesis])


def exploration_data(exploration: Exploration, details: Details) -> dict[str, Any]:
    """The data of the HTML page on an exploration, as one JSON object."""
    study = exploration.study
    space = study.space
    names = [*(axis.name for axis in space.axes), *space.derived]
    front = {design.number for design in exploration.front}
    entries = [
        Entry(
            label=str(design.number),
            fields=design.fields,
            machine=design.machine,
            figures=design.figures,
            state="failed"
            if design.objectives is None
            else "front"
            if design.number in front
            else "feasible"
            if design.feasible
            else "over",
            layers={} if design.machine is None else details.layers.get(design.machine.digest, {}),
            verified=details.verified.get(design.number),
            synthesis=None if design.machine is None else details.syntheses.get(design.machine.digest),
        )
        for design in exploration.designs
    ]
    if details.base is not None and details.base.failed is None:
        entries.append(
            Entry(
                label=space.base.name,
                fields={name: _value_of(space.base, name) for name in names},
                machine=space.base,
                figures=details.base,
                state="reference",
                layers=details.layers.get(space.base.digest, {}),
            )
        )
    return {
        "kind": "exploration",
        "chosen": _chosen(entries, study),
        "title": ", ".join(network.name for network in study.networks),
        "study": _study(exploration),
        "history": _history(exploration),
        "sensitivity": _sensitivity(entries, study),
        **_common(
            entries,
            names=names,
            networks=study.networks,
            components=study.components,
            objectives=study.objectives,
            base=space.base.name,
        ),
    }


def comparison_data(
    entries: Sequence[Entry], networks: Sequence[Network], components: Components
) -> dict[str, Any]:
    """The data of a page that compares machines; its fields are those in which the machines differ."""
    names = list(dict.fromkeys(name for entry in entries for name in entry.fields))
    return {
        "kind": "comparison",
        "chosen": {"a": 0, "b": 1},
        "title": " and ".join(entry.label for entry in entries),
        **_common(
            entries,
            names=names,
            networks=networks,
            components=components,
            objectives=[METRICS[name] for name in ("latency", "energy", "area")],
            base=entries[0].label,
        ),
    }


def _common(
    entries: Sequence[Entry],
    *,
    names: Sequence[str],
    networks: Sequence[Network],
    components: Components,
    objectives: Sequence[Metric],
    base: str,
) -> dict[str, Any]:
    weights = {network.name: network.weight for network in networks}
    files = [shlex.quote(network.file or f"{network.name}.onnx") for network in networks]
    reasons = [entry.figures.failed or "" for entry in entries]
    rungs = rungs_of(METRICS.values(), (entry.figures for entry in entries))
    return {
        "networks": [
            {"name": n.name, "weight": n.weight, "file": file}
            for n, file in zip(networks, files, strict=True)
        ],
        "metrics": [_metric(metric, metric in objectives, rungs[metric.name]) for metric in METRICS.values()],
        "objectives": [metric.name for metric in objectives],
        "ladder": [
            {
                "name": rung.name,
                "meaning": rung.meaning,
                "figures": [
                    m.heading
                    for m in METRICS.values()
                    if rung in {rung_of(_rung(m, entry)) for entry in entries}
                ],
            }
            for rung in LADDER
        ],
        "components": {
            **basis(components),
            # Sources of the table; the models' descriptions include theirs.
            "sources": [] if components.modelled else list(dict.fromkeys(components.sources.values())),
        },
        "commands": [{"what": what, "command": command} for what, command in COMMANDS],
        "base": shlex.quote(base),
        "count": len(entries),
        "labels": [entry.label for entry in entries],
        "states": list(STATES),
        "state": column([STATES.index(entry.state) for entry in entries]),
        "failed": column(reasons),
        "fields": [
            {
                "name": name,
                **_meaning(name),
                "value": column([_shown(entry.fields.get(name)) for entry in entries]),
            }
            for name in names
        ],
        "figures": {
            metric.name: numbers([_figure(metric, entry, weights) for entry in entries])
            for metric in METRICS.values()
        },
        **_intervals(entries, weights),
        "rungs": {
            metric.name: column([_rung(metric, entry) for entry in entries])
            for metric in METRICS.values()
            if not metric.rung
        },
        "area": _by_unit([entry.figures.area for entry in entries]),
        "by_network": {network.name: _network(entries, network.name) for network in networks},
        "layers": {str(place): entry.layers for place, entry in enumerate(entries) if entry.layers},
        "names": {
            str(place): entry.machine.name
            for place, entry in enumerate(entries)
            if entry.machine is not None and entry.machine.name != _name(entry.fields)
        },
        "toml": toml_columns([entry.machine for entry in entries]),
        "verified": {
            str(place): {
                "networks": list(entry.verified.networks),
                "cycles": entry.verified.cycles,
                "mismatches": entry.verified.mismatches,
                "seconds": round(entry.verified.seconds, 1),
                "first": entry.verified.first,
            }
            for place, entry in enumerate(entries)
            if entry.verified is not None
        },
        "synthesis": {
            str(place): beside_predicted(entry.machine, entry.synthesis, components)
            for place, entry in enumerate(entries)
            if entry.machine is not None and entry.synthesis is not None and components.modelled
        },
        "machine": [
            None
            if entry.machine is None or not entry.layers
            else {
                "peak": entry.machine.multiplies_per_cycle,
                "roofs": [
                    {"bytes": round(roof.bytes_per_cycle, 3), "words": roof.words}
                    for roof in memory_roofs(entry.machine)
                ],
            }
            for entry in entries
        ],
    }


def _rung(metric: Metric, entry: Entry) -> str:
    """The source ("rung") of a design's value of `metric`; empty if the design has no figures."""
    return "" if entry.figures.failed is not None else entry.figures.rungs.get(metric.name, metric.rung)


def _metric(metric: Metric, objective: bool, rung: str) -> dict[str, Any]:
    return {
        "name": metric.name,
        "unit": metric.unit,
        "heading": metric.heading,
        "rung": rung,
        "maximize": metric.maximize,
        "objective": objective,
    }


def _network(entries: Sequence[Entry], name: str) -> dict[str, Any]:
    runs = [entry.figures.networks.get(name) for entry in entries]
    return {
        "cycles": numbers([None if run is None else run.cycles for run in runs]),
        "roofline": numbers([None if run is None else run.roofline_cycles for run in runs]),
        "dram": numbers([None if run is None else run.dram_bytes for run in runs]),
        "energy": _by_unit([{} if run is None else run.energy for run in runs]),
        "schedules": {
            str(place): {
                "layers": len(run.schedules),
                "default": run.default_cycles,
                "file": shlex.quote(f"{FRONT}/{entries[place].label}/{schedules_file(name)}"),
            }
            for place, run in enumerate(runs)
            if run is not None and run.schedules
        },
    }


def _by_unit(tables: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    units = dict.fromkeys(unit for table in tables for unit in table)
    return {unit: numbers([table.get(unit) for table in tables]) for unit in units}


def _figure(metric: Metric, entry: Entry, weights: Mapping[str, float]) -> float | None:
    if entry.machine is None or entry.figures.failed is not None:
        return None
    return metric.value(entry.machine, entry.figures, weights)


def _intervals(entries: Sequence[Entry], weights: Mapping[str, float]) -> dict[str, Any]:
    """The 90% intervals of all designs, in the metrics' units (not as factors). "low" has the lower ends and "high" the
    upper ends: a column for each metric that has intervals, by name of the metric.
    """
    found: dict[str, Any] = {"low": {}, "high": {}}
    intervals = [intervals_of(entry.figures, weights) for entry in entries]
    for metric in METRICS.values():
        if not any(metric.name in item for item in intervals):
            continue
        for place, end in enumerate(("low", "high")):
            ends = []
            for entry, known in zip(entries, intervals, strict=True):
                value, factors = _figure(metric, entry, weights), known.get(metric.name)
                ends.append(None if value is None or factors is None else value * factors[place])
            found[end][metric.name] = numbers(ends)
    return found


def _shown(value: Value | None) -> int | str | None:
    return None if value is None else shown(value)


def _name(fields: Mapping[str, Value]) -> str:
    """The name that `Space.machine` gives a machine with these fields."""
    return " ".join(f"{name}={shown(value)}" for name, value in fields.items())


def _value_of(machine: Config, name: str) -> Value:
    return getattr(machine.memory if hasattr(machine.memory, name) else machine, name)


def _meaning(name: str) -> dict[str, str]:
    for kind in (Config, Memory):
        for field_name, _, parameter in declared(kind):
            if field_name == name:
                return {"unit": parameter.unit, "meaning": parameter.doc}
    return {"unit": "", "meaning": ""}


def _chosen(entries: Sequence[Entry], study: Study) -> dict[str, int] | None:
    """Chooses the two designs that the page shows first. Returns their indices in `entries` as "a" and "b", or None if
    no design ran.

    "a" is the design with the least product of its objectives (objectives to maximize are inverted first). It is chosen
    among the designs of the Pareto front whose layers were computed. If there are none, it is chosen among the whole
    front, or, without a front, among all designs that ran. "b" is the base configuration, if the page shows it, or else
    another design.

    The product of, for example, latency and area takes both into account in proportion. A design with three times the
    latency for a tenth less area is not chosen by it.
    """
    ran = [place for place, entry in enumerate(entries) if entry.state not in ("failed", "reference")]
    front = [place for place in ran if entries[place].state == "front"]
    pool = [place for place in front if entries[place].layers] or front or ran
    if not pool:
        return None

    def product(place: int) -> float:
        values = [
            (_figure(metric, entries[place], study.weights), metric.sign) for metric in study.objectives
        ]
        return sum(sign * math.log(value) if value and value > 0 else math.inf for value, sign in values)

    first = min(pool, key=product)
    reference = [place for place, entry in enumerate(entries) if entry.state == "reference"]
    others = [place for place in [*reference, *front, *ran] if place != first]
    return {"a": first, "b": others[0] if others else first}


def _study(exploration: Exploration) -> dict[str, Any]:
    study = exploration.study
    space = study.space
    return {
        "base": space.base.name,
        "points": space.size,
        "axes": {axis.name: [shown(value) for value in axis.values] for axis in space.axes},
        "derived": {name: expression.text for name, expression in space.derived.items()},
        "conditions": [condition.text for condition in space.conditions],
        "constraints": [constraint.text for constraint in study.constraints],
        "strategy": study.strategy,
        "seed": study.seed,
        "budget": study.budget,
        "evaluated": exploration.evaluated,
        "interrupted": exploration.interrupted,
    }


def _history(exploration: Exploration) -> dict[str, Any]:
    found = history.history_of(exploration)
    return {
        "how": history.HOW,
        "objectives": list(found.objectives),
        "designs": list(found.designs),
        "volume": [round(volume, 5) for volume in found.volume],
        "best": {
            metric.name: [None if value is None else rounded(value) for value in values]
            for metric, values in zip(exploration.study.objectives, found.best, strict=False)
        },
    }


def _sensitivity(entries: Sequence[Entry], study: Study) -> dict[str, Any]:
    ran = [entry for entry in entries if entry.state not in ("failed", "reference")]
    space = study.space
    fields = {axis.name: [entry.fields[axis.name] for entry in ran] for axis in space.axes}
    following = {name: [entry.fields[name] for entry in ran] for name in space.derived}
    found: dict[str, Any] = {}
    for metric in METRICS.values():
        figures = [_figure(metric, entry, study.weights) for entry in ran]
        fitted = sensitivity.sensitivity(fields, [value for value in figures if value is not None], following)
        if fitted is not None:
            found[metric.name] = {
                "designs": fitted.designs,
                "explained": round(fitted.explained, 4),
                "effects": [
                    {
                        "field": effect.field,
                        "share": round(effect.share, 4),
                        "factor": rounded(effect.factor),
                        "levels": [[label, rounded(factor)] for label, factor in effect.levels],
                    }
                    for effect in fitted.effects
                ],
            }
    return {"how": sensitivity.HOW, "figures": found}

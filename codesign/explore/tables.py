"""Writes an exploration as tables: every design as CSV and JSON, the machines of the Pareto front as TOML."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from vdla.compiler.records.line import record_line
from vdla.isa.config_text import toml_text
from vdla.util.files import write_whole

from ..technology.area import basis
from .metrics import METRICS, Metric, rungs_of
from .schedules.apply import tuner_records
from .space import plain, shown
from .study import Design, Exploration

FRONT = "front"
"""Name of the folder with the files of the Pareto front's designs."""


def schedules_file(network: str) -> str:
    """Name of the file in a design's folder with the schedules for `network`, to be given to `vdla run --records`."""
    return f"{network}.schedules.jsonl"


def rows(exploration: Exploration) -> list[dict[str, Any]]:
    """One dictionary for each design: number, fields, every metric, whether it meets the constraints, whether it is on
    the Pareto front, and the reason if it failed. If some design has other schedules than the templates' own, the
    dictionaries also have the cycles with the templates' schedules.
    """
    front = {design.number for design in exploration.front}
    tuned = any(run.schedules for design in exploration.designs for run in design.figures.networks.values())
    found = []
    for design in exploration.designs:
        row: dict[str, Any] = {"design": design.number}
        row |= {name: shown(value) for name, value in design.fields.items()}
        row |= {metric.heading: value for metric, value in _metrics(exploration, design).items()}
        if tuned:
            row["default cycles (cycles)"] = _default_cycles(exploration, design)
        row |= {
            "feasible": design.feasible,
            "front": design.number in front,
            "failed": design.figures.failed or "",
        }
        found.append(row)
    return found


def _default_cycles(exploration: Exploration, design: Design) -> float | None:
    """The metric `cycles`, with the templates' own schedules; None if a network does not run with these schedules."""
    cycles = {name: run.default_cycles for name, run in design.figures.networks.items()}
    total = 0.0
    for name, weight in exploration.study.weights.items():
        own = cycles.get(name)
        if own is None:
            return None
        total += weight * own
    return total


def _metrics(exploration: Exploration, design: Design) -> dict[Metric, float | None]:
    """The value of every metric of a design; None for a metric without a value."""
    study = exploration.study
    return {metric: study.value(metric, design.machine, design.figures) for metric in METRICS.values()}


def document(exploration: Exploration) -> dict[str, Any]:
    """The exploration as one JSON object: the settings of the search, the source (rung) of each figure, and the designs
    of the front.

    A design's `intervals` are pairs of factors: the figure times these factors gives the ends of its interval.
    """
    study = exploration.study
    return {
        "space": {
            "base": study.space.base.name,
            "points": study.space.size,
            "fields": {axis.name: list(axis.values) for axis in study.space.axes},
        },
        "networks": {network.name: network.weight for network in study.networks},
        "strategy": study.strategy,
        "seed": study.seed,
        "budget": study.budget,
        "trials": study.effort.trials,
        "front_trials": study.front_effort.trials,
        "designs": len(exploration.designs),
        "failed": sum(design.objectives is None for design in exploration.designs),
        "evaluated": exploration.evaluated,
        "interrupted": exploration.interrupted,
        "rungs": rungs_of(METRICS.values(), (design.figures for design in exploration.designs)),
        "components": basis(study.components),
        "constraints": [constraint.text for constraint in study.constraints],
        "front": [
            {
                "design": design.number,
                "fields": plain(design.fields),
                **{metric.name: value for metric, value in _metrics(exploration, design).items()},
                "area_mm2": dict(design.figures.area),
                "clock_mhz": design.figures.clock_mhz,
                "intervals": {name: list(ends) for name, ends in study.intervals(design).items()},
                "rungs": dict(design.figures.rungs),
                "networks": {
                    name: {
                        "cycles": item.cycles,
                        "default_cycles": item.default_cycles,
                        "tuned_layers": len(item.schedules),
                        "energy_uj": dict(item.energy),
                    }
                    for name, item in design.figures.networks.items()
                },
            }
            for design in exploration.front
        ],
    }


def write_tables(exploration: Exploration, folder: Path) -> tuple[Path, ...]:
    """Writes designs.csv, exploration.json, front/NUMBER.toml and, if a design has other schedules than the templates'
    own, front/NUMBER/NETWORK.schedules.jsonl into `folder`. Files of an earlier front are removed. Returns the paths of
    designs.csv and exploration.json. Raises WriteError.
    """
    table = rows(exploration)
    text = io.StringIO()
    if table:
        writer = csv.DictWriter(text, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    paths = (folder / "designs.csv", folder / "exploration.json")
    write_whole(paths[0], text.getvalue().encode())
    write_whole(paths[1], (json.dumps(document(exploration), indent=2, allow_nan=False) + "\n").encode())
    machines = folder / FRONT
    machines.mkdir(exist_ok=True)
    present = {f"{design.number}.toml" for design in exploration.front}
    for path in machines.glob("*.toml"):
        # Remove designs of an earlier front of a continued search.
        if path.stem.isdecimal() and path.name not in present:
            path.unlink()
    for design in exploration.front:
        assert design.machine is not None
        write_whole(machines / f"{design.number}.toml", toml_text(design.machine).encode())
        for network in exploration.study.networks:
            run = design.figures.networks[network.name]
            path = machines / str(design.number) / schedules_file(network.name)
            if run.schedules:
                path.parent.mkdir(exist_ok=True)
                records = tuner_records(design.machine, network, run.schedules, run.cycles)
                write_whole(path, b"".join(map(record_line, records)))
            else:
                path.unlink(missing_ok=True)  # Remove schedules of an earlier effort.
    return paths
